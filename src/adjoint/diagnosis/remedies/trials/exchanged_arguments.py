"""Remedies for arguments in each other's place, found by a trial: with both exchanged, the line that failed runs."""

from __future__ import annotations

import ast
import copy
import inspect
import re
from itertools import combinations

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, describe_value, evaluate, is_module
from adjoint.diagnosis.remedies.registry import remedy
from adjoint.diagnosis.repairs.trial import Trial
from adjoint.diagnosis.source_expressions import find_expression, own_parameter_names, text_of

MAX_PAIRS = 6
MIN_OPERANDS = 3  # in a line that vouches for an exchange: of two alone, either order may fit by chance


@remedy(r"shape|size|dimension|broadcast|dtype|expected|indices|must be|number of dim")
def exchange_by_trial(failure: Failure, match: re.Match[str]) -> str | None:
    """Two arguments of the user's function that failed, with which it runs in the other order."""
    found = _find_call(failure)
    whole = _find_whole(failure)
    if found is None or whole is None or failure.line is None:
        return None
    call, names = found
    scope = failure.line.source.scope_of(failure.line.node)
    written = failure.line.source.assignments_in(scope)
    own = {each.id for each in ast.walk(whole) if isinstance(each, ast.Name)}
    pairs = [each for each in combinations(range(len(call.args)), 2) if own & {names[place] for place in each}]
    for first, second in pairs[:MAX_PAIRS]:
        left, right = names[first], names[second]
        values = [failure.frame.f_locals.get(each, MISSING) for each in (left, right)]
        difference = _compare(*values)
        if left in written or right in written or not difference:
            continue
        earlier = {
            each.id
            for each in ast.walk(scope)
            if isinstance(each, ast.Name) and each.lineno < getattr(failure.line.node, "lineno", 0)
        }
        is_named = _is_named_so(call.args[second], left, right) or _is_named_so(call.args[first], right, left)
        if not is_named and earlier & {left, right}:
            continue  # what was made of one of them fits it, not the other
        if not is_named and (difference == "sizes" or not _vouches(failure, whole, (left, right))):
            continue
        if not _runs_exchanged(failure, whole, left, right):
            continue
        order = [*call.args]
        order[first], order[second] = order[second], order[first]
        changed = ast.Call(call.func, order, call.keywords)
        source = find_expression(failure.stack[1])
        where = "" if source is None else f" at {source[0].place_of(call)}"
        told = f"{text_of(call)}{where} gives {text_of(call.args[first])}, {describe_value(values[0])}, as {left}"
        told = f"{told} and {text_of(call.args[second])}, {describe_value(values[1])}, as {right}"
        return f"{told}: in the other order, {text_of(changed)}"
    return None


def _find_call(failure: Failure) -> tuple[ast.Call, list[str]] | None:
    """Return the user's call of the function that failed, with the names of its parameters, where both fit."""
    source, call = (find_expression(failure.stack[1]) if len(failure.stack) > 1 else None) or (None, None)
    if source is None or not isinstance(call, ast.Call) or failure.line is None:
        return None
    called = evaluate(call.func, failure.stack[1].frame)
    made = evaluate(call.func.func, failure.stack[1].frame) if isinstance(call.func, ast.Call) else None
    kind = made if isinstance(made, type) else type(called) if is_module(called) else None  # of Net()(x)
    function = getattr(called, "__func__", called) if kind is None else getattr(kind, "forward", None)
    scope = failure.line.source.scope_of(failure.line.node)
    if not inspect.isfunction(function) or function.__code__ is not failure.frame.f_code:
        return None
    names = own_parameter_names(failure.line.source, scope)
    is_starred = any(isinstance(each, ast.Starred) for each in call.args)
    return None if is_starred or len(call.args) > len(names) else (call, names)


def _find_whole(failure: Failure) -> ast.expr | None:
    """Return the largest expression around the one that failed."""
    node: ast.AST | None = failure.node
    parents = {} if failure.line is None else failure.line.source.parents
    while isinstance(parents.get(node or ast.Pass()), (ast.expr, ast.keyword)):
        node = parents[node] if node is not None else None
    return node if isinstance(node, ast.expr) else None


def _compare(left: Operand, right: Operand) -> str:
    """Return in what two values, of which one is a tensor, differ: their kinds, their sizes alone, or nothing."""
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        is_other = isinstance(left, Tensor) is not isinstance(right, Tensor) and MISSING not in (left, right)
        return "kinds" if is_other else ""
    if left.dtype != right.dtype or left.ndim != right.ndim:
        return "kinds"
    return "sizes" if left.shape != right.shape else ""


def _is_named_so(argument: ast.expr, name: str, other: str) -> bool:
    """Return whether an argument has the name of one parameter within it, and not that of the other."""
    names = {each.id for each in ast.walk(argument) if isinstance(each, ast.Name)}
    return len(name) > 1 and name in names and other not in names


def _vouches(failure: Failure, whole: ast.expr, exchanged: tuple[str, str]) -> bool:
    """Return whether the expression has a module or a third tensor, which another order would hardly fit by chance."""
    texts = {text_of(each) for each in ast.walk(whole) if isinstance(each, (ast.Name, ast.Attribute))}
    values = {each.text: each.value for each in failure.operands if each.text in texts}
    if any(is_module(each) for each in values.values()):
        return True
    tensors = [name for name, each in values.items() if isinstance(each, Tensor)]
    others = [evaluate(each, failure.frame) for each in ast.walk(whole) if isinstance(each, ast.Attribute)]
    count = len([each for each in tensors if each in exchanged])
    return count + sum(isinstance(each, Tensor) for each in others) >= MIN_OPERANDS


def _runs_exchanged(failure: Failure, whole: ast.expr, left: str, right: str) -> bool:
    """Return whether the expression runs with both names exchanged, and fails as it stands."""
    other = {left: right, right: left}
    given = {
        id(each): ast.Name(other[each.id], ast.Load())
        for each in ast.walk(whole)
        if isinstance(each, ast.Name) and each.id in other
    }
    trial = Trial(whole, failure.frame)
    if not trial.fails_alike(failure.error):
        return False
    try:
        trial.run(copy.deepcopy(whole, given))
    except Exception:  # noqa: BLE001  what a changed line may raise
        return False
    return True
