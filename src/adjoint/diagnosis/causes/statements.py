"""Values that statements give to names: of assignments, loops, and what fills a list or a table."""

from __future__ import annotations

import ast

from adjoint.diagnosis.causes.contexts import ITEM, Key, SourceStep
from adjoint.diagnosis.source_expressions import text_of

ONE_EACH = ("append", "add", "insert", "appendleft", "setdefault")  # methods that put one thing into a list or a table
PASSING = (
    "enumerate",
    "tqdm",
    "iter",
    "list",
    "tuple",
    "sorted",
    "reversed",
    "deepcopy",
    "copy",
    "next",
    "sample",
    "choices",
)


def enter_statement(step: SourceStep, statement: ast.stmt, name: str) -> list[SourceStep]:
    """Return the value that a statement gives a name."""
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return enter_loop(step, statement.target, statement.iter, name)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):  # rows.append(row)
        call = statement.value
        last = call.args[-1:]
        is_one = isinstance(call.func, ast.Attribute) and call.func.attr in ONE_EACH
        return [step.at(each, step.keys[:-1] if is_one else step.keys) for each in last]
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.AugAssign) and isinstance(value, ast.expr):  # rows += [row]
        return [step.at(value, (*step.keys[:-1], ITEM) if step.keys else ())]
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        if isinstance(target, ast.Subscript):  # table[key] = value
            return [step.at(statement.value, step.keys[:-1])]
        keys = keys_of_target(target, name)
        return [step.at(statement.value, (*step.keys, *keys))] if keys is not None else []
    return [step.at(value)] if isinstance(value, ast.expr) else []


def keys_of_target(target: ast.expr, name: str) -> tuple[Key, ...] | None:
    """Return which item of what is assigned a name takes: of `(a, b), c` for b it is (1, 0); the outermost last."""
    if text_of(target) == name:
        return ()
    for i, each in enumerate(target.elts if isinstance(target, (ast.Tuple, ast.List)) else ()):
        inner = keys_of_target(each, name)
        if inner is not None:
            return (*inner, i)
    return None


def enter_loop(step: SourceStep, target: ast.expr, whole: ast.expr, name: str) -> list[SourceStep]:
    """Return what a loop takes its items from, and which of them the name has."""
    keys = keys_of_target(target, name)
    if keys is None:
        return []
    item: Key = ITEM
    while isinstance(whole, ast.Call):
        called = text_of(whole.func).rpartition(".")[2]
        if called == "enumerate" and keys and keys[-1] == 0:
            return [step.at(whole, step.keys)]
        if called in ("enumerate", "items") and len(whole.args) < 2 and isinstance(target, ast.Tuple):  # of the turn
            key = step.context.program.compute(step.at(target.elts[0], ()))
            item = key if isinstance(key, (int, str)) else item
        if called == "enumerate" and whole.args and keys and keys[-1] == 1:
            keys, whole = keys[:-1], whole.args[0]
        elif called == "zip" and keys and isinstance(keys[-1], int) and keys[-1] < len(whole.args):
            whole, keys = whole.args[keys[-1]], keys[:-1]
        elif called == "items" and isinstance(whole.func, ast.Attribute) and keys and keys[-1] == 1:
            keys, whole = keys[:-1], whole.func.value
        elif called == "values" and isinstance(whole.func, ast.Attribute) and not whole.args:
            whole = whole.func.value
        elif called in PASSING and whole.args:
            whole = whole.args[0]
        else:
            break
    return [step.at(whole, (*step.keys, *keys, item))]
