"""Rules on memory: graphs that are kept from step to step, and writes that the graph does not see."""

from __future__ import annotations

import ast
import weakref
from bisect import bisect_left
from collections.abc import Iterator
from types import FrameType

from adjoint.core.graph.node import Leaf, Node
from adjoint.core.graph.source_location import Site
from adjoint.core.op.op import Op
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place, place_of_frame, place_of_instruction
from adjoint.diagnosis.source_expressions import SourceFile, parse_source, text_of
from adjoint.diagnosis.watch.events import Backward, ModuleCall, OptimizerStep, caller_frame
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.frames import find_expression, user_frames
from adjoint.diagnosis.watch.rule import WatchRule

DEPTH = 2  # passes through which a sum has grown
MAX_TERMS = 16  # of a sum
MAX_NODES = 20_000
MAX_ELEMENTS = 100_000  # of a container that is looked into


class GrowingSum(WatchRule):
    """`total += loss`: a sum of losses with their graphs."""

    ops = frozenset({"add", "cat", "stack", "mul", "sub"})

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if out.node is None or self.facts.iteration < DEPTH or self.facts.calls or self.facts.has_found("graph-kept"):
            return
        ends = [backward.began for backward in self.facts.backwards]
        depth = len({bisect_left(ends, nr) for x in inputs if isinstance(x, Tensor) for nr in self._find_terms(x.node)})
        if depth > DEPTH:
            frame = caller_frame()
            found = find_expression(frame)
            name = _target_of(found[0].statement_of(found[1])) if found is not None else ""
            self.report(
                "graph-kept",
                place_of_frame(frame),
                name or "the sum",
                f"{name or 'the sum'} adds up results with their graphs: it keeps those of {depth} backward passes by "
                "now, and memory grows with each step",
                "add loss.item(), or loss.detach()",
                depth,
            )

    def _find_terms(self, node: Operand) -> Iterator[int]:
        """Yield the sequence numbers of the nodes of a sum, the last ones."""
        queue: list[Operand] = [node]
        for _ in range(MAX_TERMS):
            node = queue.pop(0) if queue else None
            if isinstance(node, Node):
                yield node.sequence_nr
                if node.op.name in self.ops:
                    queue += node.parents


def _target_of(node: ast.AST) -> str:
    """Return the name that a statement gives a value."""
    if isinstance(node, ast.AugAssign):
        return text_of(node.target)
    if isinstance(node, ast.Assign):
        return text_of(node.targets[0])
    return ""


def _target_at(place: Place) -> str:
    """Return the name to which a line assigns."""
    source = parse_source(place.site.file)
    nodes = () if source is None else ast.walk(source.tree)
    found = (_target_of(node) for node in nodes if getattr(node, "lineno", 0) == place.site.line)
    return next(filter(None, found), "")


class KeptResults(WatchRule):
    """A list that keeps losses or outputs with their graphs."""

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.losses: list[tuple[weakref.ref[Tensor], Place]] = []
        self.outputs: list[tuple[weakref.ref[Tensor], Place]] = []  # since the last backward pass
        self.is_reported = False

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if call.parent is not None or not call.is_recording or call.place is None or len(self.outputs) >= 2:
            return
        if isinstance(output, Tensor) and output.node is not None:
            self.outputs.append((weakref.ref(output), call.place))

    def begin_backward(self, backward: Backward) -> None:
        self.losses += self.outputs
        self.outputs = []
        for root in backward.roots:
            if root.node is not None and type(root.node) is not Leaf:
                self.losses.append((weakref.ref(root), backward.place))
        del self.losses[:-20]

    def before_step(self, step: OptimizerStep) -> None:
        if self.is_reported or len(self.losses) < 5:
            return
        alive = [x for x in (reference() for reference, _ in self.losses[:-2]) if x is not None and x.node is not None]
        if len(alive) < 4:
            return
        frame = caller_frame()
        # one that only a cycle keeps, until the collector runs, is in no container
        found = ((x, *_find_container(x, frame)) for x in alive)
        kept_one, name, source = next((each for each in found if each[1]), (alive[0], "", None))
        if name:
            self.is_reported = True
            place = _append_place(source, name) or self.losses[-1][1]
            kept = "losses" if not kept_one.array.ndim else "outputs"
            self.report(
                "graph-kept",
                place,
                name,
                f"{name} keeps the {kept} with their graphs: {len(alive)} of earlier steps are still alive, and memory "
                "grows with each step",
                f"give {name} numbers or detached tensors: item(), or detach()",
                len(alive),
            )


class RecordedEvaluation(WatchRule):
    """An evaluation that records graphs, which a list keeps until its end."""

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.nodes: list[weakref.ref[Operand]] = []  # of what models in evaluation mode gave since the last backward
        self.found: tuple[Place | None, str, int] | None = None

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if call.parent is not None or call.module.training or not isinstance(output, Tensor) or output.node is None:
            return
        alive = sum(reference() is not None for reference in self.nodes[-8:])
        self.nodes.append(weakref.ref(output.node))
        if alive >= 4 and self.found is None:
            for frame in user_frames(caller_frame()):
                for name, value in list(frame.f_locals.items()):
                    if isinstance(value, list) and 4 <= len(value) <= MAX_ELEMENTS and all(map(_has_graph, value)):
                        source = parse_source(frame.f_code.co_filename, frame.f_globals)
                        self.found = _append_place(source, name), name, len(value)
                        return

    def mode_is_set(self, module: Operand, training: bool = True) -> None:
        """See the end of an evaluation."""
        if training:
            self.finish()

    def begin_backward(self, backward: Backward) -> None:
        self.nodes, self.found = [], None

    def finish(self) -> None:
        if self.found is None or not self.facts.steps:
            return
        place, name, count = self.found
        self.report(
            "graph-kept",
            place,
            name,
            f"{name} keeps what an evaluation gave with its graphs, of {count} batches by then: memory grows with each",
            "evaluate under torch.no_grad(), or keep .item() of each",
            count,
        )
        self.nodes, self.found = [], None


def _has_graph(x: object) -> bool:
    return isinstance(x, Tensor) and x.node is not None and type(x.node) is not Leaf


def _find_container(x: Tensor, frame: FrameType) -> tuple[str, SourceFile | None]:
    """Return the name of the list or dict that holds a tensor."""
    for outer in user_frames(frame):
        source = parse_source(outer.f_code.co_filename, outer.f_globals)
        for names in (outer.f_locals, outer.f_globals):
            for name, value in list(names.items()):
                if value is names or value is outer.f_globals:
                    continue
                if _holds(value, x) or (isinstance(value, dict) and any(_holds(part, x) for part in value.values())):
                    return name, source
                for key, part in getattr(value, "__dict__", {}).items() if name == "self" else ():
                    if _holds(part, x):
                        return f"{name}.{key}", source
    return "", None


def _holds(container: object, x: Tensor) -> bool:
    """Return whether a list or a dict has the tensor; the collector does not tell of containers that it froze."""
    if not isinstance(container, (list, dict)) or len(container) > MAX_ELEMENTS:
        return False
    return any(part is x for part in (container.values() if isinstance(container, dict) else container))


def _append_place(source: SourceFile | None, name: str) -> Place | None:
    """Return the line that adds to a list."""
    if source is None:
        return None
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDERS:
            owner = node.func.value
            text = text_of(owner.value if isinstance(owner, ast.Subscript) else owner)
        elif isinstance(node, ast.AugAssign):
            text = text_of(node.target)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            text = text_of(node.targets[0].value)
        else:
            continue
        if text == name:
            return Place(Site(source.name, node.lineno, ""))
    return None


ADDERS = ("append", "extend", "insert", "add", "setdefault")


class CarriedGraph(WatchRule):
    """State that carries the graphs of all steps before: `retain_graph=True` and no `detach()`."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.counts: list[int] = []
        self.ends: list[int] = []

    def begin_backward(self, backward: Backward) -> None:
        start = self.ends[-1] if self.ends else -1
        self.ends.append(backward.began)
        if not backward.is_retained or start < 0:
            return
        old = 0
        crossing: Operand = None
        stack = [root.node for root in backward.roots if root.node is not None]
        seen = set(stack)
        while stack and len(seen) < MAX_NODES:
            node = stack.pop()
            for parent in getattr(node, "parents", ()):
                if parent is None or parent in seen or type(parent) is Leaf:
                    continue
                seen.add(parent)
                stack.append(parent)
                if parent.sequence_nr <= start:
                    old += 1
                    if node.sequence_nr > start and hasattr(node, "code"):
                        crossing = node
        self.counts.append(old)
        last = self.counts[-3:]
        if len(last) == 3 and last[0] < last[1] < last[2] and crossing is not None:
            place = place_of_instruction((crossing.code, crossing.instruction_offset))
            self.report(
                "graph-carried",
                place,
                _target_at(place) or "the state",
                f"backward() goes through the graphs of all steps before: {pluralize(old, 'node')} of them by now, "
                "entered at "
                "this line; each step takes longer and keeps more memory",
                "detach() the state between steps (h = h.detach()), and leave out retain_graph=True",
                old,
            )
