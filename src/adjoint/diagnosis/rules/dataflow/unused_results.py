"""Rule on results that nobody uses: `x.clamp(0, 1)` or `loss + penalty` as a line of its own."""

from __future__ import annotations

import ast
import dis
from functools import cache
from types import CodeType

from adjoint.core.graph.source_location import Site
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.source_expressions import find_function, parse_source, text_of
from adjoint.diagnosis.watch.events import Backward
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import nodes_at
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, MODULE_CALLS, Made

OPTIONS_THAT_WRITE = frozenset({"inplace", "out"})


class UnusedResult(WatchRule):
    """A line whose value is a new tensor that is given to nothing, in each step."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.passes: dict[Place, tuple[Made, set[int]]] = {}

    def begin_backward(self, backward: Backward) -> None:
        dropped: dict[int, frozenset[int]] = {}  # by the id of a code, whose hash takes long
        for made in self.facts.flow.steps.values():
            if made.function in MODULE_CALLS or not made.tensors:
                continue
            code, offset = made.location
            if id(code) not in dropped:
                dropped[id(code)] = dropped_offsets(code)
            if offset in dropped[id(code)]:
                self.passes.setdefault(made.place, (made, set()))[1].add(self.facts.iteration)

    def _check_forwards(self) -> None:
        """Look for the result of a layer that a forward gives a name, and never reads."""
        for module, calls in self.facts.called.values():
            code = type(module).forward.__code__
            if user_files[code.co_filename] and calls and calls[0].is_recording:
                for name, line, text in find_unread_results(code):
                    place = Place(Site(code.co_filename, line, code.co_name))
                    problem = f"{name}, the result of {text}, is never read: what the layer gives is lost"
                    self.report("result-unused", place, name, problem, f"use {name} in what follows", name)

    def finish(self) -> None:
        self._check_forwards()
        for place, (made, passes) in self.passes.items():
            value = find_dropped_value(place)
            if len(passes) < FLOW_PASSES or value is None:
                continue
            name = text_of(value.left if isinstance(value, ast.BinOp) else owner_of(value))
            if any(name == root.name or name.startswith(f"{root.name}.") for root in self.facts.names.roots.values()):
                continue  # float() and the like change a module itself
            text = text_of(value)
            self.report(
                "result-unused",
                place,
                name,
                f"{text} gives a new tensor {tuple(made.out.shape)} that nothing takes: the line changes nothing",
                f"{name} = {text}",
                tuple(made.out.shape),
            )


@cache
def find_unread_results(code: CodeType) -> tuple[tuple[str, int, str], ...]:
    """Return the names of a forward that hold the result of a layer and are never read, with their lines and layers."""
    source = parse_source(code.co_filename)
    function = None if source is None else find_function(source, code.co_firstlineno)
    if function is None:
        return ()
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    read = {node.id for node in names if not isinstance(node.ctx, ast.Store)}
    found = []
    for node in ast.walk(function):
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        value = node.value if isinstance(node, ast.Assign) else None
        if not isinstance(target, ast.Name) or target.id in read or target.id.startswith("_"):
            continue
        if isinstance(value, ast.Call) and text_of(value.func).startswith("self."):
            found.append((target.id, target.lineno, text_of(value.func)))
    return tuple(found)


@cache
def dropped_offsets(code: CodeType) -> frozenset[int]:
    """Return the instructions of a function whose result is dropped at once."""
    steps, found = code.co_code, set()  # `dis` takes ten times as long
    for offset in range(2, len(steps), 2):
        if steps[offset] == dis.opmap["POP_TOP"]:
            found.add(offset - 2)
            while steps[offset - 2] == dis.opmap["CACHE"]:  # a call goes on at one of its caches
                offset -= 2
                found.add(offset - 2)
    return frozenset(found)


def find_dropped_value(place: Place) -> ast.BinOp | ast.Call | None:
    """Return the sum, product or call without another effect that is a line of its own."""
    for node in nodes_at(place, ast.Expr):
        value = node.value
        if isinstance(value, ast.BinOp):
            return value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            writes = value.func.attr.endswith("_") or OPTIONS_THAT_WRITE & {each.arg for each in value.keywords}
            return value if hasattr(Tensor, value.func.attr) and not writes else None
    return None


def owner_of(call: ast.Call) -> ast.expr:
    """Return what a call changes if its result is kept: the tensor whose method it is, or its first argument."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    while isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
        owner = owner.func.value  # a chain of methods
    is_library = isinstance(owner, ast.Name) and owner.id in ("torch", "F", "ad", "adjoint")
    return call.args[0] if is_library and call.args else owner
