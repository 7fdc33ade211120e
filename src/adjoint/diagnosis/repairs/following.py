"""Statements after the one that failed, carried out on copies too: what a changed expression gives is to suit them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.operands import evaluate, is_module
from adjoint.diagnosis.repairs.expression import parse
from adjoint.diagnosis.repairs.trial import Trial, UntriableError
from adjoint.diagnosis.source_expressions import SourceFile, find_expression, text_of

MAX_STATEMENTS = 6
RETURNED = "returned()"  # a name that none has, of what a function gives back to its caller


def fits_around(source: SourceFile, trial: Trial, node: ast.expr, changed: ast.expr) -> bool:
    """Return whether the statement around a changed part runs, and those after it, as far as a trial can run them."""
    return count_fitting(source, trial, node, changed) is not None


def count_fitting(
    source: SourceFile,
    trial: Trial,
    node: ast.expr,
    changed: ast.expr,
    before: Mapping[str, str] | None = None,
    given: Mapping[str, Operand] | None = None,
) -> int | None:
    """Return how many statements join what a changed part gives with other tensors, and run; None where one fails.

    Names of `before` are first given the values of other expressions, and those of `given` are values. What a function
    returns is followed into its caller.
    """
    if node not in source.parents:  # of a statement that stores
        return 0
    whole = find_whole(source, node)
    trial.given = dict(given or {})
    count, derived = 0, set[str]()
    try:
        trial.given |= {name: trial.run(parse(text)) for name, text in (before or {}).items()}
        derived |= {*trial.given}
        value = trial.run(changed if whole is node else copy.deepcopy(whole, {id(node): changed}))
        inner = {id(each) for each in ast.walk(node)}
        beside = [each for each in ast.walk(whole) if isinstance(each, ast.Name) and id(each) not in inner]
        count += any(_is_table(evaluate(each, trial.frame)) for each in beside)
        statement = source.statement_of(node)
        if isinstance(statement, ast.Return) and statement.value is whole:
            return _count_in_caller(trial, value, count)
        _bind(trial, statement, whole, value)
        derived |= {*trial.given}
        for following in _statements_after(source, statement):
            if not trial.given:
                break
            if not isinstance(following, (ast.Assign, ast.AugAssign, ast.Return)) or following.value is None:
                break
            next_value: ast.expr = following.value
            if isinstance(following, ast.AugAssign):
                next_value = ast.BinOp(_read(following.target), following.op, next_value)
            read = [each for each in ast.walk(next_value) if isinstance(each, ast.Name)]
            is_derived = any(each.id in derived for each in read)
            joined = [trial.given.get(each.id, evaluate(each, trial.frame)) for each in read if each.id not in derived]
            count += is_derived and any(map(_is_table, joined))
            known = {*trial.given}
            value = trial.run(next_value)
            if isinstance(following, ast.Return):
                return _count_in_caller(trial, value, count) if is_derived else count
            _bind(trial, following, following.value, value)
            derived |= ({*trial.given} - known) if is_derived else set()
    except UntriableError:
        return count
    except Exception:  # noqa: BLE001  what a changed line may raise
        return None
    finally:
        trial.given = {}
    return count


def _count_in_caller(trial: Trial, value: Operand, count: int) -> int | None:
    """Return the count with that of the caller's statements, which go on with what a function gives back."""
    source, call = (None if len(trial.stack) < 2 else find_expression(trial.stack[1])) or (None, None)
    called = evaluate(call.func, trial.stack[1].frame) if isinstance(call, ast.Call) else None
    function = getattr(
        type(called) if is_module(called) else called, "forward" if is_module(called) else "__func__", called
    )
    code = getattr(function, "__code__", None)
    if source is None or not isinstance(call, ast.Call) or code is not trial.stack[0].frame.f_code:
        return count
    outer = Trial(call, trial.stack[1].frame)
    outer.stack = trial.stack[1:]
    further = count_fitting(source, outer, call, ast.Name(RETURNED, ast.Load()), given={RETURNED: value})
    return None if further is None else count + further


def _is_table(value: Operand) -> bool:
    return isinstance(value, Tensor) and value.ndim > 1


def find_alike(source: SourceFile, trial: Trial, node: ast.expr, part: ast.expr) -> list[str]:
    """Return the names in the rest of the statement whose tensors have the shape of a part, such as `std` of `mean`."""
    value = evaluate(part, trial.frame)
    if not isinstance(part, ast.Name) or not isinstance(value, Tensor) or node not in source.parents:
        return []
    inner, whole = {id(each) for each in ast.walk(node)}, find_whole(source, node)
    beside = [each for each in ast.walk(whole) if isinstance(each, ast.Name) and id(each) not in inner]
    names = dict.fromkeys(each.id for each in beside if each.id != part.id)
    values = {name: evaluate(ast.Name(name, ast.Load()), trial.frame) for name in names}
    return [name for name, each in values.items() if isinstance(each, Tensor) and each.shape == value.shape]


def find_whole(source: SourceFile, node: ast.expr) -> ast.expr:
    """Return the largest expression around one, of a tuple its own part."""
    whole: ast.AST = node
    parents = source.parents
    while isinstance(parents.get(whole), (ast.expr, ast.keyword)) and not isinstance(parents[whole], ast.Tuple):
        whole = parents[whole]
    return whole if isinstance(whole, ast.expr) else node


def _statements_after(source: SourceFile, statement: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of the same block after one."""
    parent = source.parents.get(statement)
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and statement in block:
            yield from block[block.index(statement) + 1 :][:MAX_STATEMENTS]


def _bind(trial: Trial, statement: ast.AST, whole: ast.expr, value: Operand) -> None:
    """Let the names that a statement assigns stand for a value in what is tried next."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        if statement.value is not whole:
            raise UntriableError
        trial.given[statement.target.id] = value
        return
    if not isinstance(statement, ast.Assign) or statement.value is not whole or len(statement.targets) != 1:
        trial.given = {}
        return
    target = statement.targets[0]
    if isinstance(target, ast.Name):
        trial.given[target.id] = value
    elif isinstance(target, ast.Tuple) and all(isinstance(each, ast.Name) for each in target.elts):
        parts = list(value)
        if len(parts) != len(target.elts):
            raise ValueError
        trial.given |= {text_of(each): part for each, part in zip(target.elts, parts, strict=True)}
    else:
        raise UntriableError


def _read(target: ast.expr) -> ast.expr:
    """Return what a statement writes to as an expression that reads it."""
    if not isinstance(target, ast.Name):
        raise UntriableError
    return ast.Name(target.id, ast.Load())
