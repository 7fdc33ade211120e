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
from adjoint.diagnosis.watch.value_flow import DRAWS, FLOW_PASSES, MODULE_CALLS, Made

LIBRARIES = frozenset({"torch", "F", "ad", "adjoint", "np"})  # under the names that programs give them
MAX_BEHIND = 8  # ops, among which a draw is looked for
OPTIONS_THAT_WRITE = frozenset({"inplace", "out"})


class UnusedResult(WatchRule):
    """A line whose value is a new tensor that is given to nothing, in each step."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.passes: dict[Place, tuple[Made, set[int]]] = {}
        self.unread: dict[Place, Made] = {}  # values that no op took

    def begin_backward(self, backward: Backward) -> None:
        self._note_unread()
        dropped: dict[int, frozenset[int]] = {}  # by the id of a code, whose hash takes long
        for made in self.facts.flow.steps.values():
            if made.function in MODULE_CALLS or not made.tensors:
                continue
            code, offset = made.location
            if id(code) not in dropped:
                dropped[id(code)] = dropped_offsets(code)
            if offset in dropped[id(code)]:
                self.passes.setdefault(made.place, (made, set()))[1].add(self.facts.iteration)

    def _note_unread(self) -> None:
        """Note values of the same shape as what they were made of, data or drawn, that no op takes."""
        steps = list(self.facts.flow.steps.values())
        taken = {id(x.array) for made in steps for x in made.tensors}
        for made in steps:
            array = made.out.array
            if id(array) in taken or array.dtype.kind != "f" or array.ndim == 0 or made.function in MODULE_CALLS:
                continue
            if any(x.array.shape == array.shape for x in made.tensors):
                behind = [made, *self.facts.flow.makers_behind(*made.tensors)[:MAX_BEHIND]]
                if self._is_sample(made) or not any(x.requires_grad for each in behind for x in each.tensors):
                    self.unread.setdefault(made.place, made)

    def _is_sample(self, made: Made) -> bool:
        """Return whether a value is noise times what is learned, plus something: what is predicted has no noise."""
        flow = self.facts.flow
        factors = [flow.maker(x) for x in made.tensors]
        products = [each for each in (made, *factors) if each is not None and each.op == "mul"]
        sources = [flow.maker(x) for each in products for x in each.tensors]
        return made.out.node is not None and any(each is not None and each.op in DRAWS for each in sources)

    def _check_unread(self) -> None:
        """Look for values that have a name which no line reads, though what they were made of is read again."""
        for place, made in self.unread.items():
            source = parse_source(place.site.file)
            for line in nodes_at(place, ast.Assign) if source is not None else ():
                target = line.targets[0]
                if source is None or len(line.targets) > 1 or not isinstance(target, ast.Name):
                    continue
                scope = source.tree if isinstance(source.scope_of(line), ast.Module) else source.scope_of(line)
                names = [node for node in ast.walk(scope) if isinstance(node, ast.Name)]
                read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
                given = [text for each in operands_of(line.value) if (text := text_of(each)) not in LIBRARIES]
                later = [each for each in names if each.lineno > line.lineno and each.id in given]
                uses = sorted((each.lineno, given.index(each.id), each.id) for each in later)
                if target.id in read or target.id.startswith("_") or not uses:
                    continue
                number, _, used = uses[0]
                problem = f"{used} is used here, and {target.id} {tuple(made.out.shape)}, which line {line.lineno} "
                problem += "makes of it, never"
                self.report(
                    "result-unused",
                    Place(Site(source.name, number, "")),
                    target.id,
                    problem,
                    f"{target.id} for {used}, or leave it out",
                    target.id,
                )

    def _check_arguments(self) -> None:
        """Look for arguments of a forward, given as tensors, whose values it never reads."""
        for module, calls in self.facts.called.values():
            code = type(module).forward.__code__
            if not user_files[code.co_filename] or not calls or not calls[0].is_recording:
                continue
            for i, x in enumerate(calls[0].inputs[: code.co_argcount - 1]):
                name = code.co_varnames[i + 1] if isinstance(x, Tensor) and i else "_"
                line = None if name.startswith("_") else find_only_shape(code, name)
                if line is not None:
                    place = Place(Site(code.co_filename, line, code.co_name))
                    problem = f"forward of {type(module).__name__} gets {name} {tuple(x.shape)}, and reads none of its "
                    problem += "values"
                    self.report("argument-unused", place, name, problem, f"use {name}, or leave it out", name)

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
        self._check_unread()
        self._check_arguments()
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


def operands_of(node: ast.expr) -> list[ast.expr]:
    """Return what an expression adds, multiplies, or gives to a function as its first argument."""
    if isinstance(node, ast.BinOp):
        return [*operands_of(node.left), *operands_of(node.right)]
    if isinstance(node, ast.Call):
        of_method = node.func.value if isinstance(node.func, ast.Attribute) else None
        return [each for part in (of_method, *node.args[:1]) if part is not None for each in operands_of(part)]
    return [node]


@cache
def find_only_shape(code: CodeType, name: str) -> int | None:
    """Return the line at which a function reads the shape of an argument, or begins; None where it reads values."""
    source = parse_source(code.co_filename)
    function = None if source is None else find_function(source, code.co_firstlineno)
    if function is None or source is None or any(isinstance(node, ast.Lambda) for node in ast.walk(function)):
        return None
    line = function.lineno
    others = [each for each in source.nodes_of(ast.FunctionDef) if each.name == function.name and each is not function]
    if any(name == arg.arg for each in others for arg in each.args.args):
        return None  # an argument that all of several models get
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == name:
            parent = source.parents[node]
            is_like = isinstance(parent, ast.Call) and text_of(parent.func).endswith("s_like")
            if not is_like:
                return None
            line = node.lineno
    return line


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
    is_library = isinstance(owner, ast.Name) and owner.id in LIBRARIES
    return call.args[0] if is_library and call.args else owner
