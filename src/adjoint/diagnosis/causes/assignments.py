"""Statements that gave a name its value: the last that ran before, with a value of the kind that the name has."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from functools import partial

import numpy as np

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.contexts import ITEM, CodeContext, Key, SourceStep, pair_targets
from adjoint.diagnosis.causes.held_values import find_turn, look_up
from adjoint.diagnosis.former_values import find_turn_before, makes_only
from adjoint.diagnosis.operands import MISSING, find_option, read_attribute
from adjoint.diagnosis.source_expressions import (
    SCOPES,
    find_assignment,
    parameter_names,
    parameters_of,
    text_of,
)

FILLING = ("append", "insert", "extend", "add", "appendleft", "setdefault")


def find_statements(step: SourceStep, node: ast.Name) -> list[tuple[CodeContext, ast.stmt]]:
    """Return the statements of the scope that gave a name its value, with the turns of loops in which they did so.

    It is one statement, or those that fill a list or a table.
    """
    context, name = step.context, node.id
    if isinstance(context.scope, ast.ClassDef):
        return []
    if node in context.source.parents and not isinstance(node.ctx, ast.Store):
        repeated = find_turn_before(context.source, context.scope, node, partial(_is_later_turn, context))
        if repeated is not None:
            loop, statement = repeated
            back = context.turn[1] if context.turn is not None and context.turn[0] is loop else 0
            return [(replace(context, turn=(loop, back + 1)), statement)]
    value = look_up(context, node)
    before = node if node in context.source.parents else None
    found = find_running(context, name, before, value)
    if found is None:
        return []
    if step.keys:
        begun = _find_begun(context, name, found)
        fillings = find_fillings(context, name, begun, step.keys[-1], context.scope)
        if fillings:
            return [(context, each) for each in fillings]
    return [(context, found)]


def _find_begun(context: CodeContext, name: str, statement: ast.stmt) -> ast.stmt:
    """Return the statement that made the list to which `name += rows` adds; of other statements themselves."""
    every = context.source.assignments_in(context.scope).get(name, [])
    while isinstance(statement, ast.AugAssign):
        earlier = [each for each in every if each.lineno < statement.lineno]
        if not earlier:
            break
        statement = earlier[-1]
    return statement


def _is_later_turn(context: CodeContext, loop: ast.For) -> bool:
    place = find_turn(context, loop)
    back = context.turn[1] if context.turn is not None and context.turn[0] is loop else 0
    return place is not None and place > back


def find_running(context: CodeContext, name: str, before: ast.AST | None, value: Operand = MISSING) -> ast.stmt | None:
    """Return the last statement that can have given a name the value: one whose block ran, of a kind that fits."""
    kind = None if value is MISSING else type(value)
    statement = find_assignment(context.source, context.scope, name, before, kind)
    if statement is None:
        return None
    every = context.source.assignments_in(context.scope).get(name, [])
    earlier = [each for each in every if each.lineno <= statement.lineno][::-1]
    for each in [*earlier, *every[::-1]]:
        if gives(context, each, name, value) and not is_skipped(context, each, before):
            is_own = before is not None and context.source.statement_of(before) is each
            if not is_own or each is statement:
                return each
    is_parameter = name in parameter_names(context.scope)
    return None if is_parameter and not gives(context, statement, name, value) else statement


def gives(context: CodeContext, statement: ast.stmt, name: str, value: Operand) -> bool:
    """Return whether a statement can give a name that value: not where it makes an object of another class."""
    made = getattr(statement, "value", None)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    is_whole = isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(target, ast.Name) and target.id == name
    if value is MISSING or not is_whole or made is None:
        return True
    if isinstance(made, ast.Constant):
        return type(made.value) is type(value)
    if isinstance(made, (ast.ListComp, ast.List)):
        return isinstance(value, list)
    if isinstance(made, (ast.Dict, ast.DictComp)):
        return isinstance(value, dict)
    if isinstance(made, ast.Tuple):
        return isinstance(value, tuple)
    if isinstance(made, ast.Call):
        base = look_up(context, made.func.value) if isinstance(made.func, ast.Attribute) else MISSING
        rank = _find_rank(made) if isinstance(value, Tensor) and not hasattr(base, "__spec__") else None
        if rank is not None and rank != value.ndim:
            return False
        kind = look_up(context, made.func)
        if isinstance(kind, type) and makes_only(kind):
            return isinstance(value, kind)
    return True


def _find_rank(call: ast.Call) -> int | None:
    """Return how many dimensions `x.view(…)` or `x.flatten(1)` gives a tensor; None where the call does not say it."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name == "flatten" and len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.Constant):
        first = call.args[0].value
        return first + 1 if type(first) is int and first >= 0 else None
    sizes = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple) else call.args
    is_listed = len(sizes) > 1 and not any(isinstance(each, ast.Starred) for each in sizes)
    return len(sizes) if name in ("view", "reshape") and is_listed and not call.keywords else None


def is_skipped(context: CodeContext, statement: ast.AST, before: ast.AST | None) -> bool:
    """Return whether a test around a statement, not around what comes after it, is known to have failed."""
    child = statement
    around = context.source.parents.get(statement)
    while around is not None and around is not context.scope:
        if isinstance(around, ast.If) and (before is None or not any(each is before for each in ast.walk(around))):
            is_in_body = any(each is child for each in around.body)
            held = find_truth(SourceStep(context, around.test))
            if held is not None:
                return held != is_in_body
        child, around = around, context.source.parents.get(around)
    return False


def find_truth(step: SourceStep) -> bool | None:
    """Return whether a test holds; None where it is not known."""
    held = step.context.program.compute(step)
    if isinstance(held, Tensor):
        return bool(held.array.all()) if held.numel() == 1 and isinstance(held.array, np.ndarray) else None
    is_plain = held is not MISSING and isinstance(held, (bool, int, float, str, type(None), list, dict, tuple))
    return bool(held) if is_plain else None


def find_fillings(context: CodeContext, name: str, statement: ast.stmt, key: Key, around: ast.AST) -> list[ast.stmt]:
    """Return the statements such as `rows.append(row)` or `table[key] = value` that fill what a statement makes."""
    pairs = pair_targets(statement) if isinstance(statement, ast.Assign) else []
    value = next((each for target, each in pairs if text_of(target) == name), getattr(statement, "value", None))
    count = len(value.elts) if isinstance(value, ast.List) else 0
    is_empty = isinstance(value, (ast.List, ast.Dict)) and not ast.unparse(value).strip("[]{}")
    if isinstance(value, ast.Call):
        is_given = any(ast.unparse(each).strip("[](){}") for each in value.args)
        is_empty = not is_given and (not value.keywords or text_of(value.func).endswith("deque"))
    is_beyond = isinstance(value, ast.List) and isinstance(key, int) and key >= count
    begun = [statement] if count and key is ITEM else []  # any of them is meant
    added: list[ast.stmt] = []
    stored: list[ast.stmt] = []
    for each in [part for part in ast.walk(around) if isinstance(part, ast.stmt)]:
        call = each.value if isinstance(each, ast.Expr) else None
        if isinstance(each, ast.AugAssign) and text_of(each.target) == name and isinstance(value, (ast.List, ast.Call)):
            added += [each] if is_empty or is_beyond or begun else []
            continue
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Subscript):
            target = each.targets[0]
            given = look_up(context, target.slice) if text_of(target.value) == name else MISSING
            is_same = given == key if isinstance(given, (int, str)) and key is not ITEM else is_empty
            stored += [each] if text_of(target.value) == name and is_same else []
        elif not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        elif text_of(call.func.value) == name and call.func.attr in FILLING and (is_empty or is_beyond or begun):
            added.append(each)
        elif text_of(call.func.value) == name and call.func.attr == "update" and call.args:
            table = context.program.compute(SourceStep(context, call.args[0]))
            if isinstance(table, dict) and key in table:
                return [each]
    is_one_each = is_beyond and not any(_is_repeated(context, each) or adds_several(each) for each in added)
    if is_one_each and isinstance(key, int) and key - count < len(added):
        added = [added[key - count]]
    return sorted([*(begun if added else ()), *stored, *added], key=lambda each: each.lineno)


def adds_several(statement: ast.stmt) -> bool:
    """Return whether a statement adds all of another list, whose length is not known here."""
    call = getattr(statement, "value", None)
    is_extended = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "extend"
    return isinstance(statement, ast.AugAssign) or is_extended


def _is_repeated(context: CodeContext, statement: ast.stmt) -> bool:
    around = context.source.parents.get(statement)
    while around is not None and not isinstance(around, SCOPES):
        if isinstance(around, (ast.For, ast.While, ast.If)):
            return True
        around = context.source.parents.get(around)
    return False


def find_class_value(step: SourceStep, owner: Operand, name: str, made: SourceStep | None) -> list[SourceStep]:
    """Return what gave the field of a data class, a named tuple, a namespace or the options of a command line."""
    call = made.node if made is not None else None
    if made is not None and isinstance(call, ast.Call):
        given = next((each.value for each in call.keywords if each.arg == name), None)
        fields = list(getattr(type(owner), "_fields", getattr(type(owner), "__dataclass_fields__", ())))
        if is_name_of_package(type(owner).__module__):
            fields = list(parameters_of(type(owner).__init__)[1:])
        if given is None and name in fields:
            place = fields.index(name)
            starred = next((i for i, each in enumerate(call.args[: place + 1]) if isinstance(each, ast.Starred)), None)
            if starred is not None:
                return [SourceStep(made.context, call.args[starred], (*step.keys, place - starred))]
            given = call.args[place] if place < len(call.args) else None
        if given is not None and (fields or not inspect.isfunction(type(owner).__init__) or not call.args):
            return [SourceStep(made.context, given, step.keys)]
        for keyword in call.keywords:
            if keyword.arg is None:
                return [SourceStep(made.context, keyword.value, (*step.keys, name))]
    if type(owner).__name__ != "Namespace":
        return []
    option = find_option(step.source, name)
    default = None if option is None else next((part.value for part in option.keywords if part.arg == "default"), None)
    if option is None:
        return []
    context = CodeContext(step.source, step.source.scope_of(option), step.context.program)
    value = read_attribute(owner, name)
    is_default = isinstance(default, ast.Constant) and type(default.value) is type(value)
    given = default if default is not None and (is_default or not isinstance(default, ast.Constant)) else option
    return [SourceStep(context, given, step.keys)]
