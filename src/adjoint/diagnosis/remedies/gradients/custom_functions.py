"""Remedies for custom functions and hooks: the gradients that they return, and what they save for backward."""

from __future__ import annotations

import ast
import re

from adjoint.autograd.function.function import Function
from adjoint.core.graph.source_location import definition_site
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate, find_origin, find_return_in
from adjoint.diagnosis.remedies.registry import remedy, shape_of
from adjoint.diagnosis.source_expressions import find_function, parse_source, text_of


@remedy(
    r"[Ff]unction (\w+)Backward returned an (?:incorrect number of gradients \(expected (\d+), got (\d+)\)|"
    r"invalid gradient at index (\d+) - got \[([\d, ]*)\] but expected shape compatible with \[([\d, ]*)\])"
)
def fit_gradients(failure: Failure, match: re.Match[str]) -> str | None:
    """A Function whose backward returns other gradients than forward took arguments."""
    kind = evaluate(ast.Name(match[1], ast.Load()), failure.frame)
    code = getattr(getattr(kind, "backward", None), "__code__", None)
    if code is None:
        return None
    forward = getattr(kind.forward, "__code__", None)
    names = [] if forward is None else list(forward.co_varnames[: forward.co_argcount])
    taken = names if "setup_context" in vars(kind) else names[1:]
    result = find_return_in(code)
    where = definition_site(code).describe_briefly() if result is None else result.place()
    given = None if result is None else getattr(result.node, "value", None)
    parts = list(given.elts) if isinstance(given, ast.Tuple) else [] if given is None else [given]
    wanted = f"one for each argument of forward, {', '.join(taken)}, and None where there is none"
    if match[2]:
        expected, found = int(match[2]), int(match[3])
        told = f"{match[1]}.backward, {where}, returns {pluralize(found, 'gradient')}, {wanted}"
        if len(parts) != found or expected < found:
            return f"{told}: leave {pluralize(found - expected, 'value')} out" if expected < found else told
        edges = zip(taken, getattr(failure.locals.get("self"), "next_functions", ()), strict=False)
        learned = {*_saved_names(kind), *(name for name, edge in edges if edge[0] is not None)}
        rest = [f"the gradient of {name}" if name in learned else "None" for name in taken[found:]]
        return f"{told}: return {', '.join([*map(text_of, parts), *rest])}"
    place, got, expected_shape = int(match[4]), shape_of(match[5]), shape_of(match[6])
    name = taken[place] if place < len(taken) else f"argument {place}"
    told = f"{match[1]}.backward, {where}, returns {list(got)} for {name}, which is {list(expected_shape)}"
    if place >= len(parts):
        return f"{told}: a gradient has the shape of its argument"
    text = text_of(parts[place])
    text = f"({text})" if isinstance(parts[place], ast.BinOp) else text
    extra = len(got) - len(expected_shape)
    if len(got) == 2 and got[::-1] == expected_shape:
        return f"{told}: {text}.t()"
    if extra > 0 and got[extra:] == expected_shape:
        return f"{told}: {text}.sum({0 if extra == 1 else tuple(range(extra))})"
    swapped = [i for i in range(len(parts)) if i != place and len(parts) == len(taken)]
    hint = f"; it stands at the place of {name}, and another argument may be meant" if len(swapped) == 1 else ""
    return f"{told}: a gradient has the shape of its argument{hint}"


def _saved_names(kind: Operand) -> list[str]:
    """Return the names that the forward of a Function, or its setup_context, saves as tensors."""
    for name in ("forward", "setup_context"):
        code = getattr(getattr(vars(kind).get(name), "__func__", None), "__code__", None)
        source = None if code is None else parse_source(code.co_filename)
        function = None if source is None or code is None else find_function(source, code.co_firstlineno)
        for node in ast.walk(function) if function is not None else ():
            if isinstance(node, ast.Call) and text_of(node.func).endswith(".save_for_backward"):
                return list(map(text_of, node.args))
    return []


@remedy(r"not enough values to unpack \(expected (\d+), got (\d+)\)|too many values to unpack \(expected (\d+)\)")
def unpack_saved(failure: Failure, match: re.Match[str]) -> str | None:
    """A backward that unpacks other tensors than forward has saved."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if failure.line is None or not isinstance(target, ast.Tuple) or not isinstance(statement, ast.Assign):
        return None
    owner = failure.line.source.parents.get(failure.line.source.scope_of(statement))
    kind = evaluate(ast.Name(getattr(owner, "name", ""), ast.Load()), failure.frame)
    if (
        not isinstance(kind, type)
        or not issubclass(kind, Function)
        or not text_of(statement.value).endswith("saved_tensors")
    ):
        return None
    saved, context = _saved_names(kind), text_of(statement.value).partition(".")[0]
    if not saved:
        names = ", ".join(text_of(each) for each in target.elts)
        where = definition_site(kind.forward.__code__).describe_briefly()
        return f"forward, {where}, saves no tensors: {context}.save_for_backward({names}) there"
    rest = [text_of(each) for each in target.elts if text_of(each) not in saved]
    held = getattr(failure.frame.f_locals.get(context), "__dict__", {})
    others = "".join(f"; {name} = {context}.{name}" for name in rest if name in held)
    return f"forward saved {', '.join(saved)}: {', '.join(saved)} = {text_of(statement.value)}{others}"


@remedy(r"(\w+)\.forward\(\) (?:missing|takes)")
def apply_function(failure: Failure, match: re.Match[str]) -> str | None:
    """The forward of a Function that is called as it is, without a context."""
    node = failure.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "forward":
        return None
    kind = evaluate(node.func.value, failure.frame)
    if not isinstance(kind, type) or not issubclass(kind, Function):
        return None
    call = f"{text_of(node.func.value)}.apply({', '.join(map(text_of, node.args))})"
    return f"forward gets its context from apply: {call}"


@remedy(r"save_for_backward can only save variables, but argument (\d+) is of type (\w+)")
def save_tensors(failure: Failure, match: re.Match[str]) -> str | None:
    """A list, a number or a text among the tensors that are saved."""
    node = failure.node
    if not isinstance(node, ast.Call) or int(match[1]) >= len(node.args) or not isinstance(node.func, ast.Attribute):
        return None
    given, context = node.args[int(match[1])], text_of(node.func.value)
    if match[2] in ("list", "tuple"):
        parts = list(given.elts) if isinstance(given, (ast.List, ast.Tuple)) else [ast.Starred(given, ast.Load())]
        arguments = [*node.args[: int(match[1])], *parts, *node.args[int(match[1]) + 1 :]]
        told = f"it takes tensors, each an argument, and {text_of(given)} is one {match[2]}"
        return f"{told}: {text_of(node.func)}({', '.join(map(text_of, arguments))})"
    plain = [
        each for each in node.args if isinstance(evaluate(each, failure.frame), (int, float, str, bool, type(None)))
    ]
    if len(plain) > 1 and given in plain and all(isinstance(each, ast.Name) for each in plain):
        kept = ", ".join(text_of(each) for each in node.args if each not in plain)
        names = list(map(text_of, plain))
        told = f"{' and '.join(names)} are no tensors: {text_of(node.func)}({kept})" if kept else "they are no tensors"
        held = ", ".join(f"{context}.{each}" for each in names)
        return f"{told}{', and' if kept else ':'} {held} = {', '.join(names)}{' beside it' if kept else ''}"
    rest = ", ".join(text_of(each) for each in node.args if each is not given)
    name = text_of(given) if isinstance(given, ast.Name) else "value"
    told = f"{text_of(given)} is of type {match[2]}, no tensor"
    if not rest:
        return f"{told}: {context}.{name} = {text_of(given)} keeps it"
    return f"{told}: {text_of(node.func)}({rest}), and {context}.{name} = {text_of(given)} beside it"


@remedy(r"Legacy autograd function with non-static forward")
def make_static(failure: Failure, match: re.Match[str]) -> str:
    """A Function in the style of before 2018, or an instance of one."""
    node = failure.node
    for kind in (type(each.value) for each in failure.operands):
        if isinstance(vars(kind).get("forward"), staticmethod):
            arguments = ", ".join(map(text_of, node.args)) if isinstance(node, ast.Call) else "x"
            return f"a Function has no instances: {kind.__name__}.apply({arguments})"
    kind = type(evaluate(node.func, failure.frame)) if isinstance(node, ast.Call) else type(None)
    if isinstance(vars(kind).get("forward"), staticmethod) and isinstance(node, ast.Call):
        origin = find_origin(failure.line.source, node.func, failure.stack) if failure.line is not None else None
        made = "" if origin is None else f", made at {origin.place()}"
        arguments = ", ".join(map(text_of, node.args))
        return f"{text_of(node.func)}{made}, is an instance of a Function: {kind.__name__}.apply({arguments})"
    made_here = node.func.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) else None
    own = None if made_here is None else evaluate(made_here, failure.frame)
    if isinstance(own, type) and isinstance(vars(own).get("forward"), staticmethod) and isinstance(node, ast.Call):
        return f"a Function is not made, it is applied: {own.__name__}.apply({', '.join(map(text_of, node.args))})"
    code = getattr(vars(kind).get("forward"), "__code__", None)
    where = "" if code is None else f" of {kind.__name__}, {definition_site(code).describe_briefly()},"
    name, given = ("Name", "x") if code is None else (kind.__name__, ", ".join(code.co_varnames[1 : code.co_argcount]))
    return f"@staticmethod over forward(ctx, …){where} and over backward(ctx, …), and {name}.apply({given}) to call it"


@remedy(r"hook '.*' has changed the size of value")
def find_hook(failure: Failure, match: re.Match[str]) -> str | None:
    """A hook that returns another shape."""
    code = getattr(failure.locals.get("hook"), "__code__", None)
    result = None if code is None else find_return_in(code)
    where = "the hook" if code is None else f"the hook of {definition_site(code).describe_briefly()}"
    where = where if result is None else f"{where}, {result.describe()},"
    return f"{where} returns a gradient of the shape that it gets, or None to leave it"


@remedy(r"expected Variable,? (?:but hook returned '(\w+)'|or None \(got (\w+)\))")
def give_gradient(failure: Failure, match: re.Match[str]) -> str | None:
    """A backward, or a hook, that gives something else than a tensor."""
    kind = match[1] or match[2]
    name = re.match(r"(\w+)Backward:", failure.message)
    made = None if name is None else evaluate(ast.Name(name[1], ast.Load()), failure.frame)
    code = getattr(getattr(made, "backward", failure.locals.get("hook")), "__code__", None)
    result = None if code is None else find_return_in(code)
    where = "it" if result is None else result.describe()
    way = "torch.from_numpy(…) around it" if kind == "ndarray" else "a tensor of the gradient's shape"
    return f"{where} gives a {kind}, and a gradient is a tensor: {way}, or None"
