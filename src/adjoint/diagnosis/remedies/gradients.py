"""Remedies for passes backward: losses without a graph, graphs that are gone, values overwritten, wrong gradients."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from types import CodeType

from adjoint.core.graph.source_location import Site
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, evaluate, find_origin
from adjoint.diagnosis.remedies.registry import remedy
from adjoint.diagnosis.source_expressions import SourceFile, text_of

MAX_STEPS_BACK = 12
CUTTING_METHODS = {
    "detach": "it cuts the graph", "item": "it gives a Python number", "numpy": "it gives an array",
    "tolist": "it gives Python numbers", "argmax": "indices have no gradient", "argmin": "indices have no gradient",
    "argsort": "indices have no gradient", "long": "integers have no gradient", "int": "integers have no gradient",
    "round": "its gradient is 0", "bool": "truths have no gradient",
}  # fmt: skip
CUTTING_FUNCTIONS = {"tensor": "it copies values without their graph", "from_numpy": "arrays have no graph"}
CUTTING_BLOCKS = ("no_grad", "inference_mode", "set_grad_enabled")


@remedy(r"grad can be implicitly created only for scalar outputs")
def reduce_loss(failure: Failure, match: re.Match[str]) -> str:
    """A loss of several elements."""
    loss = next((each for each in failure.tensors()), None)
    if loss is None:
        return "reduce the loss first: .mean() or .sum()"
    where = "" if loss.origin is None else f", from {loss.origin.place()},"
    return f"{loss.text}{where} has {loss.value.numel()} elements: {loss.text}.mean().backward(), or .sum()"


@remedy(r"element \d+ of tensors does not require grad and does not have a grad_fn")
def find_cut(failure: Failure, match: re.Match[str]) -> str | None:
    """A loss without a graph: the line that cut it."""
    found = _walk_back(failure, _describe_cut)
    if found is not None:
        return found
    frozen = _walk_back(failure, _describe_frozen_module)
    return frozen or "nothing that it is made of requires grad: requires_grad=True for what is to be learned"


def _walk_back(failure: Failure, describe: Callable[[Failure, SourceFile, ast.AST], str | None]) -> str | None:
    """Return what `describe` finds at the failing line, or at those that made its operands, nearest first."""
    if failure.line is None:
        return None
    pending: list[Origin] = [failure.line]
    seen: set[ast.AST] = set()
    for _ in range(MAX_STEPS_BACK):
        if not pending:
            return None
        origin = pending.pop(0)
        if origin.node in seen:
            continue
        seen.add(origin.node)
        found = describe(failure, origin.source, origin.node)
        if found:
            return found
        for node in ast.walk(origin.value or origin.node):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                further = find_origin(origin.source, node, failure.stack)
                if further is not None and not isinstance(further.node, (ast.For, ast.FunctionDef)):
                    pending.append(further)
    return None


def _describe_cut(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    place = Origin(source, node).place()
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            name = part.func.attr
            why = CUTTING_METHODS.get(name) or (CUTTING_FUNCTIONS.get(name) if _makes_tensor(part, failure) else None)
            if why:
                return f"{text_of(part.func)}(…) at {place}: {why}; leave it out of what the loss is made of"
        if isinstance(part, ast.Attribute) and part.attr == "data":
            return f"{text_of(part)} at {place} has no graph: use the tensor itself"
    around: ast.AST | None = node
    while around is not None:
        if isinstance(around, (ast.With, ast.AsyncWith)):
            for item in around.items:
                text = text_of(item.context_expr)
                if any(block in text for block in CUTTING_BLOCKS):
                    line = Origin(source, around).place()
                    return f"with {text} at {line} records no graph: compute {_name(failure)} outside of it"
        if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in around.decorator_list:
                if any(block in text_of(decorator) for block in CUTTING_BLOCKS):
                    line = Origin(source, around).place()
                    return f"@{text_of(decorator)} of {around.name} at {line} records no graph"
        around = source.parents.get(around)
    return None


def _makes_tensor(call: ast.Call, failure: Failure) -> bool:
    """Return whether a call such as `torch.tensor(…)` makes a tensor that does not ask for gradients itself."""
    return bool(call.args) and not any(keyword.arg == "requires_grad" for keyword in call.keywords)


def _describe_frozen_module(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    for part in ast.walk(node):
        value = evaluate(part, failure.frame) if isinstance(part, (ast.Name, ast.Attribute)) else None
        held = getattr(value, "parameters", None)
        if callable(held) and "_modules" in getattr(value, "__dict__", ()):
            parameters = list(held())
            if parameters and not any(each.requires_grad for each in parameters):
                return f"all parameters of {text_of(part)} are frozen: requires_grad_(True) for those to be trained"
    return None


def _name(failure: Failure) -> str:
    return next((each.text for each in failure.tensors()), "the loss")


@remedy(r"Trying to backward through the graph a second time.*\(At (\w+), (?:recorded|applied) at (.*):(\d+)\.\)")
def find_kept_graph(failure: Failure, match: re.Match[str]) -> str | None:
    """A graph that a pass has freed: made once before a loop, or kept by a state that the next step uses."""
    if failure.line is None:
        return None
    source, call = failure.line.source, failure.line.node
    loop: ast.AST | None = call
    while loop is not None and not isinstance(loop, (ast.For, ast.While)):
        loop = source.parents.get(loop)
    line = int(match[3])
    if loop is None or source.name != match[2]:
        return f"the first pass freed what line {line} recorded: one backward() for each graph, or retain_graph=True"
    begin, end = loop.lineno, loop.end_lineno or loop.lineno
    if not begin <= line <= end:
        return f"line {line} is computed once, before the loop at line {begin}: compute it in the loop"
    carried = _carried_names(loop)
    if carried:
        name = carried[0]
        return f"{name} carries the graph of one step into the next: {name} = {name}.detach() at the loop's start"
    return f"the first pass has freed what line {line} recorded: sum the losses and call backward() once"


def _carried_names(loop: ast.For | ast.While) -> list[str]:
    """Return names that a turn of the loop reads before it gives them a value for the next."""
    read: dict[str, tuple[int, int]] = {}
    written: dict[str, tuple[int, int]] = {}
    for statement in loop.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                table = read if isinstance(node.ctx, ast.Load) else written
                own = statement.lineno, node.col_offset
                table.setdefault(node.id, own if table is read else (statement.lineno, 10_000))
    return [name for name, place in written.items() if name in read and read[name] < place]


@remedy(r"modified by an inplace operation.*It was written at (.*):(\d+);")
def write_elsewhere(failure: Failure, match: re.Match[str]) -> str | None:
    """A saved value that was overwritten."""
    if failure.line is None or failure.line.source.name != match[1]:
        return None
    for node in ast.walk(failure.line.source.tree):
        if isinstance(node, ast.AugAssign) and node.lineno == int(match[2]):
            target, operator = text_of(node.target), text_of(node).removeprefix(text_of(node.target)).split("=", 1)[0]
            value = text_of(node.value)
            return f"line {match[2]} makes a new tensor instead: {target} = {target} {operator.strip()} {value}"
    return f"line {match[2]} makes a new tensor instead of writing into this one"


@remedy(r"a leaf Variable that requires grad is being used in an in-place operation")
def update_without_recording(failure: Failure, match: re.Match[str]) -> str:
    """A parameter that is changed while the graph records."""
    return "with torch.no_grad(): around it, where it is an update; else make a new tensor"


@remedy(r"Tensor at index (\d+) appears to not have been used in the graph")
def find_unused_input(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor that the result does not depend on."""
    if failure.line is None or not isinstance(failure.line.node, ast.Call) or len(failure.line.node.args) < 2:
        return None
    given = failure.line.node.args[1]
    if not isinstance(given, (ast.List, ast.Tuple)) or int(match[1]) >= len(given.elts):
        return None
    name = text_of(given.elts[int(match[1])])
    return f"{name} takes no part in {text_of(failure.line.node.args[0])}; allow_unused=True gives None for it"


def _place_of(code: CodeType) -> str:
    """Return the file and the first line of a function."""
    return Site(code.co_filename, code.co_firstlineno, code.co_name).describe_briefly()


@remedy(r"[Ff]unction (\w+)Backward returned an (?:incorrect number of gradients|invalid gradient)")
def find_backward(failure: Failure, match: re.Match[str]) -> str | None:
    """A Function whose backward returns other gradients than forward took arguments."""
    kind = evaluate(ast.Name(match[1], ast.Load()), failure.frame)
    code = getattr(getattr(kind, "backward", None), "__code__", None)
    if code is None:
        return None
    forward = getattr(kind.forward, "__code__", None)
    taken = () if forward is None else forward.co_varnames[1 : forward.co_argcount]
    return (
        f"{match[1]}.backward, {_place_of(code)}, returns a gradient of its shape for each argument of forward "
        f"({', '.join(taken)}), None for those without"
    )


@remedy(r"hook '.*' has changed the size of value")
def find_hook(failure: Failure, match: re.Match[str]) -> str | None:
    """A hook that returns another shape."""
    code = getattr(failure.locals.get("hook"), "__code__", None)
    where = "the hook" if code is None else f"the hook of {_place_of(code)}"
    return f"{where} returns a gradient of the shape that it gets, or None to leave it"


@remedy(r"[Oo]nly Tensors of floating point (?:and complex )?dtype can require gradients")
def use_floats(failure: Failure, match: re.Match[str]) -> str:
    """A tensor of integers that is to be learned."""
    return "dtype=torch.float32, or values with a point: integers have no gradient"
