"""Remedies for values that stand in each other's place: arguments and results in another order than their names."""

from __future__ import annotations

import ast
import re

from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate, is_module
from adjoint.diagnosis.remedies.registry import remedy
from adjoint.diagnosis.source_expressions import (
    SourceFile,
    find_expression,
    find_function,
    own_parameter_names,
    text_of,
)

MIN_NAME = 2  # letters: `x` and `y` are names of too many things


@remedy(r"^(?!.*(?:is not defined|not associated with a value|referenced before))")
def exchange_arguments(failure: Failure, match: re.Match[str]) -> str | None:
    """A call whose arguments are named as the function's parameters are, in another order."""
    source: SourceFile | None = None if failure.line is None else failure.line.source
    if source is None or failure.line is None:
        return None
    named = {_last_name(each) for each in ast.walk(source.statement_of(failure.line.node))}
    functions = _functions_by_name(source)
    for call in source.nodes_of(ast.Call):
        function = functions.get(text_of(call.func).rpartition(".")[2])
        if function is None:
            continue
        if isinstance(call.func, ast.Attribute) and isinstance(source.parents.get(function), ast.Module):
            continue  # another function of that name, such as torch.save
        names = own_parameter_names(source, function)
        given = [_last_name(each) for each in call.args]
        exchanged = {name for name, own in zip(given, names, strict=False) if name != own and name in names}
        moved = [name for name in exchanged if names.index(name) < len(given) and given[names.index(name)] in exchanged]
        if not moved and len(exchanged) == 1 and named & set(names):
            name = exchanged.pop()
            own = names[given.index(name)]
            if own in named and own not in given and name not in {each.arg for each in call.keywords}:
                rest = [text_of(each) for each in call.args if _last_name(each) != name]
                keywords = [f"{name}={text_of(call.args[given.index(name)])}", *map(text_of, call.keywords)]
                told = f"{text_of(call)} at {source.place_of(call)} gives {name} in the place of {own}"
                where = f"{function.name} at {source.place_of(function)}" if function.name != "__init__" else "__init__"
                told = f"{told}, as {where} takes {', '.join(names)}"
                return f"{told}: {text_of(call.func)}({', '.join([*rest, *keywords])})"
        if len(moved) < 2 or not all(len(name) >= MIN_NAME for name in moved) or not named & set(moved):
            continue
        if not _is_running(failure, call, function) and _are_alike(failure, call, moved):
            continue  # done before, and as it was meant, perhaps
        order = [call.args[given.index(own)] if own in moved else each for own, each in zip(names, call.args)]  # noqa: B905
        written = ", ".join(map(text_of, [*order, *call.keywords]))
        told = f"{text_of(call)} at {source.place_of(call)} gives {' and '.join(sorted(moved, key=given.index))} in"
        where = f"{function.name} at {source.place_of(function)}" if function.name != "__init__" else "its __init__"
        told = f"{told} each other's place, as {where} takes {', '.join(names[: len(given)])}"
        return f"{told}: {text_of(call.func)}({written})"
    return None


def _is_running(failure: Failure, call: ast.Call, function: ast.FunctionDef) -> bool:
    """Return whether the call, or the function, is among the frames of the failure."""
    found = [find_expression(place) for place in failure.stack]
    nodes = [each[1] for each in found if each is not None]
    return any(node is call for node in nodes) or any(
        place.frame.f_code.co_name == function.name for place in failure.stack
    )


def _are_alike(failure: Failure, call: ast.Call, names: list[str]) -> bool:
    """Return whether the arguments that may have changed places are of one class, so that nothing tells them apart."""
    given = [each for each in call.args if _last_name(each) in names]
    values = [evaluate(each, place.frame) for each in given for place in failure.stack]
    known = [value for value in values if value is not MISSING]
    if known and all(type(value) is int and re.search(rf"\b{value}\b", failure.message) for value in known):
        return len(set(known)) < 2  # sizes, of which the error tells
    return len({type(value) for value in known}) < 2


def _functions_by_name(source: SourceFile) -> dict[str, ast.FunctionDef]:
    """Return the functions of a file by the names with which they are called: an `__init__` by that of its class."""
    found = source.nodes_of(ast.FunctionDef)
    return {
        getattr(source.parents.get(each), "name", "") if each.name == "__init__" else each.name: each for each in found
    }


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _find_forward(failure: Failure, source: SourceFile, call: ast.Call) -> ast.FunctionDef | None:
    """Return the definition of the forward of a module that is called."""
    values = (evaluate(call.func, place.frame) for place in failure.stack)
    module = next((each for each in values if is_module(each)), None)
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    return None if code is None or code.co_filename != source.name else find_function(source, code.co_firstlineno)


@remedy(r"^(?!.*(?:is not defined|not associated with a value|referenced before))")
def exchange_results(failure: Failure, match: re.Match[str]) -> str | None:
    """Names that a statement gives to a function's results in another order than the function returns them."""
    source: SourceFile | None = None if failure.line is None else failure.line.source
    if source is None or failure.line is None:
        return None
    named = {_last_name(each) for each in ast.walk(source.statement_of(failure.line.node))}
    functions = _functions_by_name(source)
    for node in source.nodes_of(ast.Assign):
        target, call = node.targets[0], node.value
        if not isinstance(target, ast.Tuple) or not isinstance(call, ast.Call):
            continue
        function = functions.get(text_of(call.func).rpartition(".")[2]) or _find_forward(failure, source, call)
        for returned in ast.walk(function) if function is not None else ():
            value = returned.value if isinstance(returned, ast.Return) else None
            if not isinstance(value, ast.Tuple):
                continue
            given, names = [_last_name(each) for each in value.elts], [_last_name(each) for each in target.elts]
            is_moved = given != names and sorted(given) == sorted(names) and len(set(names)) == len(names)
            if is_moved and all(len(each) >= MIN_NAME for each in names) and named & set(names):
                told = f"{source.text_of(node)} at {source.place_of(node)} names in another order what"
                told = f"{told} {text_of(returned)} at {source.place_of(returned)} gives"
                return f"{told}: {', '.join(given)} = {text_of(call)}"
    return None
