"""Values that frames, objects and modules hold for expressions, and those of a turn of a loop."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial

from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.contexts import CodeContext, SourceStep, frame_of, frames_of_scope
from adjoint.diagnosis.operands import MISSING, compute_integer, evaluate, is_module, read_attribute
from adjoint.diagnosis.source_expressions import Scope, text_of

MAX_TURNS = 1000


def look_up(context: CodeContext, node: ast.expr) -> Operand:
    """Return the value that a frame, an object or a module holds for an expression; MISSING where none does."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        for value in _look_up_in_turn(context, node.id):
            return value
        if context.stack:
            values = (evaluate(node, place.frame) for place in frames_of_scope(context.stack))
            value = next((each for each in values if each is not MISSING), MISSING)
            return MISSING if value is not MISSING and context.is_overwritten(node) else value
        if node.id == "self":
            return context.owner
        is_local = not isinstance(context.scope, ast.Module) and (
            node.id in context.source.assignments_in(context.scope) or node.id in _all_parameters(context.scope)
        )
        if is_local:
            return context.stored_names.get(node.id, MISSING)
        return context.closure.get(node.id, context.names.get(node.id, MISSING))
    if isinstance(node, ast.Attribute):
        owner = look_up(context, node.value)
        return MISSING if owner is MISSING else read_attribute(owner, node.attr)
    if isinstance(node, ast.Subscript):
        return read_item(look_up(context, node.value), look_up(context, node.slice))
    return compute_integer(node, partial(look_up, context))


def read_item(owner: Operand, key: Operand) -> Operand:
    """Return an item of a list, a table or a module that holds others; MISSING for others."""
    if type(key) not in (int, str) or owner is MISSING:
        return MISSING
    if is_module(owner):
        parts = vars(owner)["_modules"]
        owner = list(parts.values()) if isinstance(key, int) else parts
    if type(owner) in (list, tuple, dict) or type(owner).__name__ == "Size":
        try:
            return owner[key]
        except (LookupError, TypeError):
            return MISSING
    return MISSING


def _all_parameters(scope: Scope) -> list[str]:
    if isinstance(scope, (ast.ClassDef, ast.Module)):
        return []
    given = scope.args
    starred = [each.arg for each in (given.vararg, given.kwarg) if each is not None]
    return [*(each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)), *starred]


def _look_up_in_turn(context: CodeContext, name: str) -> list[Operand]:
    """Return the value that a name has in the turn of a loop that is meant; none where the loop does not change it."""
    loop, back = context.turn or (None, 0)
    if loop is None:
        return []
    if any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(loop.target)):
        items, place = find_items(context, loop, name), find_turn(context, loop)
        is_known = items is not None and place is not None and 0 <= place - back < len(items)
        return [items[place - back] if is_known and items is not None and place is not None else MISSING]
    first, last = loop.lineno, loop.end_lineno or loop.lineno
    changing = context.source.assignments_in(context.scope).get(name, ())
    return [MISSING] if any(first <= each.lineno <= last for each in changing) else []


def find_parts(module: Operand) -> list[Operand]:
    """Return the modules that an `nn.Sequential` runs, those of the ones in it too; of others the module itself."""
    if type(module).__name__ != "Sequential":
        return [module]
    return [part for each in vars(module)["_modules"].values() if each is not None for part in find_parts(each)]


def find_items(context: CodeContext, loop: ast.For, name: str) -> list[Operand] | None:
    """Return the values that a loop over lists, modules or numbers gives a name, turn by turn."""
    return _bind_items(context, loop.target, loop.iter, name)


def _bind_items(context: CodeContext, target: ast.expr, whole: ast.expr, name: str) -> list[Operand] | None:
    called = text_of(whole.func) if isinstance(whole, ast.Call) else ""
    if isinstance(whole, ast.Call) and isinstance(target, ast.Tuple) and whole.args:
        if called == "enumerate" and len(target.elts) == 2:
            inner = target.elts[1]
            items = _bind_items(context, inner, whole.args[0], name if text_of(inner) == name else text_of(inner))
            is_number = items is not None and len(whole.args) == 1 and text_of(target.elts[0]) == name
            return list(range(len(items))) if items is not None and is_number else items
        places = [i for i, each in enumerate(target.elts) if text_of(each) == name]
        if called == "zip" and places and places[0] < len(whole.args):
            return _bind_items(context, target.elts[places[0]], whole.args[places[0]], name)
        return None
    if not isinstance(target, ast.Name) or target.id != name:
        return None
    if isinstance(whole, ast.Call) and called in ("reversed", "list") and whole.args:
        items = _bind_items(context, target, whole.args[0], name)
        return items[::-1] if items is not None and called == "reversed" else items
    plain = replace(context, turn=None)
    if isinstance(whole, ast.Subscript) and isinstance(whole.slice, ast.Slice):
        items = _bind_items(context, target, whole.value, name)
        parts = (whole.slice.lower, whole.slice.upper, whole.slice.step)
        bounds = [None if each is None else plain.program.compute(SourceStep(plain, each)) for each in parts]
        return None if items is None or MISSING in bounds else items[slice(*bounds)]
    held = plain.program.compute(SourceStep(plain, whole))
    if is_module(held):
        held = list(vars(held)["_modules"].values())
    return list(held) if type(held) in (list, tuple, range) and len(held) < MAX_TURNS else None


def find_turn(context: CodeContext, loop: ast.For) -> int | None:
    """Return the number of the turn in which a loop is: of one that has ended, of its last."""
    for name in (each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)):
        items = find_items(context, loop, name)
        if items is None:
            continue
        if not context.stack:
            return len(items) - 1
        held = evaluate(ast.Name(name, ast.Load()), frame_of(context.stack))
        place = next((i for i, each in enumerate(items) if each is held), None)
        if place is not None:
            return place
    return None


def find_last_item(context: CodeContext, name: str) -> Operand:
    """Return the last item of what a loop goes through, for its variable in a function that has returned."""
    is_held = bool(context.stack) or isinstance(context.scope, ast.ClassDef)
    loops = [] if is_held else context.source.assignments_in(context.scope).get(name, [])
    loop = loops[-1] if len(loops) == 1 else None
    items = find_items(context, loop, name) if isinstance(loop, ast.For) else None
    return items[-1] if items else MISSING
