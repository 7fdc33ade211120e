"""Results of calls: what a function of the user's returns, and the samples of loaders and data sets."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace

from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.assignments import is_skipped
from adjoint.diagnosis.causes.contexts import ITEM, CodeContext, Key, SourceStep, find_function_called, look_up, unwrap
from adjoint.diagnosis.causes.statements import PASSING, keys_of_target
from adjoint.diagnosis.operands import MISSING, is_module
from adjoint.diagnosis.source_expressions import text_of


def find_results(step: SourceStep, call: ast.Call) -> list[SourceStep]:
    """Return what the user's function that is called returns, or what a call of Python's hands on."""
    context = enter_call(step, call)
    if context is not None:
        return find_returned(context, step.keys)
    if find_function_called(step, call)[0] is not None:
        return []
    name = text_of(call.func).rpartition(".")[2]
    if name in ("ModuleList", "Sequential", "ModuleDict") and step.keys and call.args:
        key, first = step.keys[-1], call.args[0]
        if name == "Sequential" and not isinstance(first, ast.Starred):
            is_one = isinstance(key, int) and -len(call.args) <= key < len(call.args)
            chosen = [call.args[key]] if isinstance(key, int) and is_one else call.args
            return [step.at(each, step.keys[:-1]) for each in chosen]
        return [step.at(first.value if isinstance(first, ast.Starred) else first)]
    if isinstance(call.func, ast.Attribute) and name in ("get", "pop", "setdefault") and call.args:
        key = look_up(step.context, call.args[0])
        inner = step.at(call.func.value, (*step.keys, key if isinstance(key, (int, str)) else ITEM))
        return [inner, *(step.at(each) for each in call.args[1:])]
    if name in ("deepcopy", "copy") and call.args:
        return [step.at(call.args[0])]
    if name in PASSING and call.args and step.keys:
        return [step.at(call.args[0], (*step.keys, ITEM) if name == "next" else step.keys)]
    if name == "zip" and step.keys and isinstance(step.keys[-1], int) and len(call.args) == 1:
        inner_node = call.args[0].value if isinstance(call.args[0], ast.Starred) else None  # zip(*rows)
        row = step.keys[-2] if len(step.keys) > 1 else ITEM  # a column's row
        return [] if inner_node is None else [step.at(inner_node, (*step.keys[:-2], step.keys[-1], row))]
    if name in ("dict", "SimpleNamespace", "Namespace") and step.keys:
        named = [step.at(each.value, step.keys[:-1]) for each in call.keywords if each.arg == step.keys[-1]]
        return named or [
            step.at(each) for each in (*call.args, *(part.value for part in call.keywords if not part.arg))
        ]
    return _find_items(step, call) if step.keys else []


def enter_call(step: SourceStep, call: ast.Call) -> CodeContext | None:
    """Return the context of the user's function that a call has run; None where it runs none."""
    function, owner = _find_earlier_part(step, call) or find_function_called(step, call)
    if function is None:
        return None
    context = step.context.program.enter(function, SourceStep(step.context, call), owner)
    is_own = isinstance(call.func, ast.Attribute) and text_of(call.func.value) == "self" and owner is MISSING
    return (
        replace(context, kind=step.context.kind, made=step.context.made) if context is not None and is_own else context
    )


def _find_earlier_part(step: SourceStep, call: ast.Call) -> tuple[Operand, Operand] | None:
    """Return the function of the former turn of a loop such as `for part in parts: x = part(x)`, which gave x."""
    if not isinstance(call.func, ast.Name) or not step.context.stack or step.context.current is not call:
        return None
    loop: ast.AST | None = step.source.parents.get(call)
    while loop is not None and not isinstance(loop, (ast.For, ast.FunctionDef, ast.Module)):
        loop = step.source.parents.get(loop)
    targets = keys_of_target(loop.target, call.func.id) if isinstance(loop, ast.For) else None
    parts: Operand = look_up(step.context, loop.iter) if isinstance(loop, ast.For) and targets == () else MISSING
    if is_module(parts):
        parts = list(vars(parts)["_modules"].values())
    part = look_up(step.context, call.func)
    place = next((i for i, each in enumerate(parts) if each is part), 0) if type(parts) in (list, tuple) else 0
    if not place:
        return None
    former = parts[place - 1]
    own = type(former).forward if is_module(former) else inspect.getattr_static(type(former), "__call__", None)
    function = unwrap(former) or unwrap(own)
    return None if function is None else (function, former)


def find_returned(context: CodeContext, keys: tuple[Key, ...]) -> list[SourceStep]:
    """Return the values that a function of the user's gives back, or yields."""
    found: list[SourceStep] = []
    for each in ast.walk(context.scope):
        if isinstance(each, (ast.Return, ast.Yield)) and context.source.scope_of(each) is context.scope and each.value:
            is_yield = isinstance(each, ast.Yield)
            if not is_skipped(context, each, None):
                found.append(SourceStep(context, each.value, keys[:-1] if is_yield else keys))
    return sorted(found, key=lambda each: -each.node.lineno)


def _find_items(step: SourceStep, call: ast.Call) -> list[SourceStep]:
    """Return what the items are of an object that a call makes: a loader, or an object of the user's class."""
    kind, name = look_up(step.context, call.func), text_of(call.func).rpartition(".")[2]
    keys = step.keys[:-1]
    if name == "DataLoader":
        given = next((each.value for each in call.keywords if each.arg == "collate_fn"), None)
        collate = None if given is None else unwrap(look_up(step.context, given))
        context = None if collate is None else step.context.program.enter(collate, None)
        if context is not None:
            return find_returned(context, keys)
        dataset = next((each.value for each in call.keywords if each.arg == "dataset"), (*call.args, None)[0])
        return [] if dataset is None else [step.at(dataset)]
    if name == "TensorDataset" and keys and isinstance(keys[-1], int) and keys[-1] < len(call.args):
        return [step.at(call.args[keys[-1]], keys[:-1])]
    for method in ("__iter__", "__getitem__") if isinstance(kind, type) else ():
        function = unwrap(inspect.getattr_static(kind, method, None))
        context = None if function is None else step.context.program.enter(function, None)
        if context is not None:
            made = replace(context, made=SourceStep(step.context, call), kind=kind)
            return find_returned(made, step.keys if method == "__iter__" else keys)
    return []


def find_samples(step: SourceStep, source: Operand) -> list[SourceStep]:
    """Return what the samples of a loader, or the items of an object of the user's class, are."""
    if source is MISSING or not step.keys or type(source) in (list, tuple, dict):
        return []
    program, keys = step.context.program, step.keys[:-1]
    held = getattr(source, "__dict__", {})
    collate = unwrap(held.get("collate_fn"))
    dataset = held.get("dataset", MISSING)
    if collate is not None:
        context = program.enter(collate, None)
        return [] if context is None else find_returned(context, keys)
    for owner, name in ((source, "__iter__"), (source, "__getitem__")):
        function = unwrap(inspect.getattr_static(type(owner), name, None))
        context = None if function is None else program.enter(function, None, owner)
        if context is not None:
            return find_returned(context, step.keys if name == "__iter__" else keys)
    return find_samples(replace(step, keys=step.keys), dataset) if dataset is not MISSING else []
