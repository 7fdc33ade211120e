"""Rules on memory: graphs that are kept from step to step, and writes that the graph does not see."""

from __future__ import annotations

import ast
import weakref
from bisect import bisect_left
from collections.abc import Iterator

from adjoint.core.graph.node import Leaf, Node
from adjoint.core.graph.source_location import Site
from adjoint.core.op.op import Op
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place, place_of_frame, place_of_instruction
from adjoint.diagnosis.source_expressions import SourceFile, parse_source, text_of
from adjoint.diagnosis.watch.containers import MAX_ELEMENTS, find_container
from adjoint.diagnosis.watch.events import Backward, ModuleCall, OptimizerStep, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.frames import user_frames
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import nodes_around
from adjoint.nn.module.module import Module

DEPTH = 2  # passes through which a sum has grown
MAX_TERMS = 16  # of a sum
MAX_NODES = 20_000
MAX_SEARCHES = 40  # for the container, which cost time
MAX_OUTPUTS = 3  # of models, in a pass
MAX_BETWEEN = 12  # results of a pass that are looked after
MIN_KEPT = 3  # results of former steps in one container
MIN_HOOKS = 3  # with the same code on a module


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
            name = find_target(place_of_frame(frame))
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


def find_target(place: Place) -> str:
    """Return the name to which a line gives a value."""
    targets = [node.targets[0] for node in nodes_around(place, ast.Assign)]
    targets += [node.target for node in nodes_around(place, ast.AugAssign)]
    return text_of(targets[0]) if targets else ""


class KeptResults(WatchRule):
    """A list that keeps losses or outputs with their graphs."""

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.nodes: list[weakref.ref[Node]] = []  # of losses and of what models gave
        self.outputs: list[weakref.ref[Node]] = []  # since the last backward pass
        self.is_reported = False
        self.searches = 0

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if not call.is_recording or len(self.outputs) >= MAX_OUTPUTS:
            return
        if isinstance(output, Tensor) and isinstance(output.node, Node):
            self.outputs.append(weakref.ref(output.node))

    def begin_backward(self, backward: Backward) -> None:
        nodes = [root.node for root in backward.roots if isinstance(root.node, Node)]
        for node in nodes if not self.facts.flow.is_open else ():  # which grows; rules keep what the flow has seen
            if len(nodes) < MAX_BETWEEN:
                nodes += [each for each in node.parents if isinstance(each, Node) and each.parents]
        self.nodes = [*self.nodes[-4 * MAX_BETWEEN :], *self.outputs, *map(weakref.ref, nodes)]
        self.outputs = []

    def before_step(self, step: OptimizerStep) -> None:
        passes = self.facts.backwards
        if self.is_reported or len(passes) < 5 or self.searches > MAX_SEARCHES:
            return
        until = passes[-3].began  # those of the last two may wait for the collector, or for the next value of a name
        alive = [node.sequence_nr for node in (each() for each in self.nodes) if node is not None]
        ends = [each.began for each in passes]
        if len({bisect_left(ends, number) for number in alive if number <= until}) < MIN_KEPT:  # passes
            return
        self.searches += 1
        # what only a cycle keeps, until the collector runs, is in no container
        name, held, source = find_container(until, caller_frame())
        if len(held) >= MIN_KEPT:
            self.is_reported = True
            kept = "outputs" if any(x.array.ndim for x in held) else "losses"
            self.report(
                "graph-kept",
                _append_place(source, name) or passes[-1].place,
                name,
                f"{name} keeps the {kept} with their graphs: {len(held)} of earlier steps are still alive, and memory "
                "grows with each step",
                f"give {name} numbers or detached tensors: item(), or detach()",
                len(held),
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


def _append_place(source: SourceFile | None, name: str) -> Place | None:
    """Return the line that adds to a list."""
    if source is None:
        return None
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDERS:
            owner = node.func.value
            text = text_of(owner.value if isinstance(owner, ast.Subscript) else owner)
        elif isinstance(node, ast.Call) and text_of(node.func).rpartition(".")[2] in PUSHES and node.args:
            text = text_of(node.args[0])
        elif isinstance(node, ast.AugAssign):
            text = text_of(node.target)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            text = text_of(node.targets[0].value)
        else:
            continue
        if text == name or ("." in name and text.rpartition(".")[::2] == ("self", name.rpartition(".")[2])):
            return Place(Site(source.name, node.lineno, ""))
    return None


ADDERS = ("append", "appendleft", "extend", "insert", "add", "push", "put", "setdefault")
PUSHES = ("heappush", "insort", "insort_left", "insort_right")  # functions of a list


class CarriedGraph(WatchRule):
    """State that carries the graphs of all steps before: `retain_graph=True` and no `detach()`."""

    sees_every_step = True

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
                find_target(place) or "the state",
                f"backward() goes through the graphs of all steps before: {pluralize(old, 'node')} of them by now, "
                "entered at "
                "this line; each step takes longer and keeps more memory",
                "detach() the state between steps (h = h.detach()), and leave out retain_graph=True",
                old,
            )


class RepeatedHook(WatchRule):
    """A hook that is registered on the same module again and again, and never removed."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.seen: dict[tuple[int, Operand], tuple[Module, Place, set[int]]] = {}  # and the passes before each

    def hook_is_registered(self, module: Module, hook: Operand = None, *args: object, **kwargs: object) -> None:
        """See a call of `register_forward_hook` and its like."""
        code = getattr(hook, "__code__", None) or getattr(getattr(hook, "__func__", None), "__code__", None)
        if code is not None:
            _, _, passes = self.seen.setdefault((id(module), code), (module, caller_place(), set()))
            passes.add(self.facts.iteration)

    def finish(self) -> None:
        for (_, code), (module, place, passes) in self.seen.items():
            held = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
            held += module._backward_hooks.values()
            count = sum(getattr(hook, "__code__", None) is code for hook in held)
            if min(len(passes), count) >= MIN_HOOKS:
                name = self.facts.names.name_of_module(module)
                problem = (
                    f"{name} has the hook {code.co_name} {count} times: it is registered again and again, and each "
                )
                problem += "call runs all of them"
                advice = "register it once, or keep the handle and call its remove()"
                self.report("hook-repeated", place, name, problem, advice, count)
