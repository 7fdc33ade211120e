"""Results of calls: what a function of the user's returns, and the samples of loaders and data sets."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace

from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.assignments import is_skipped
from adjoint.diagnosis.causes.called_functions import find_function_called, find_result_hook, unwrap
from adjoint.diagnosis.causes.contexts import ITEM, CodeContext, Key, SourceStep
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.statements import PASSING
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
    if name in ("split", "splitlines") and step.keys and isinstance(call.func, ast.Attribute):
        return [step.at(call.func.value, step.keys[:-1])]
    if name in ("deepcopy", "copy") and call.args:
        return [step.at(call.args[0])]
    if name in PASSING and call.args and step.keys:
        return [step.at(call.args[0], (*step.keys, ITEM) if name == "next" else step.keys)]
    if name == "zip" and step.keys and isinstance(step.keys[-1], int) and len(call.args) == 1:  # zip(*rows)
        rows = call.args[0].value if isinstance(call.args[0], ast.Starred) and len(step.keys) > 1 else None
        return [] if rows is None else [step.at(rows, (*step.keys[:-2], step.keys[-1], step.keys[-2]))]
    if name in ("dict", "SimpleNamespace", "Namespace") and step.keys:
        named = [step.at(each.value, step.keys[:-1]) for each in call.keywords if each.arg == step.keys[-1]]
        return named or [
            step.at(each) for each in (*call.args, *(part.value for part in call.keywords if not part.arg))
        ]
    return _find_items(step, call) if step.keys else []


def enter_call(step: SourceStep, call: ast.Call) -> CodeContext | None:
    """Return the context of the user's function that a call has run; None where it runs none."""
    function, owner = find_function_called(step, call)
    if function is None:
        return None
    before = None if step.before is None else step.before - 1
    called = look_up(step.context, call.func)
    is_hook = is_module(called) and find_result_hook(called) is function
    made = None if is_hook else SourceStep(step.context, call, before=before)
    context = step.context.program.enter(function, made, owner)
    is_own = isinstance(call.func, ast.Attribute) and text_of(call.func.value) == "self" and owner is MISSING
    return (
        replace(context, kind=step.context.kind, made=step.context.made) if context is not None and is_own else context
    )


def find_returned(context: CodeContext, keys: tuple[Key, ...]) -> list[SourceStep]:
    """Return the values that a function of the user's gives back, or yields."""
    if isinstance(context.scope, ast.Lambda):
        return [SourceStep(context, context.scope.body, keys)]
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
        dataset = next((each.value for each in call.keywords if each.arg == "dataset"), (*call.args, None)[0])
        whole = None if dataset is None else step.at(dataset)
        context = None if given is None else _enter_collate(step, given, whole)
        if context is not None:
            return find_returned(context, keys)
        return [] if whole is None else [whole]
    if name in ("Subset", "random_split") and call.args:
        return [step.at(call.args[0], step.keys if name == "Subset" else keys)]
    if name == "TensorDataset" and keys and isinstance(keys[-1], int) and keys[-1] < len(call.args):
        return [step.at(call.args[keys[-1]], keys[:-1])]
    if isinstance(kind, type) and hasattr(kind, "_fields") and isinstance(step.keys[-1], int):  # a named tuple
        place = step.keys[-1]
        for i, each in enumerate(call.args[: place + 1]):
            if i == place or isinstance(each, ast.Starred):
                return [step.at(each, (*keys, place - i) if isinstance(each, ast.Starred) else keys)]
    for method in ("__iter__", "__getitem__") if isinstance(kind, type) else ():
        function = unwrap(inspect.getattr_static(kind, method, None))
        context = None if function is None else step.context.program.enter(function, None)
        if context is not None:
            made = replace(context, made=SourceStep(step.context, call), kind=kind)
            return find_returned(made, step.keys if method == "__iter__" else keys)
    return []


def _enter_collate(step: SourceStep, given: ast.expr, samples: SourceStep | None) -> CodeContext | None:
    """Return the context of the user's function, or of a callable object, that makes a batch of samples."""
    program = step.context.program
    if isinstance(given, ast.Lambda):
        return CodeContext(step.source, given, program, samples=samples)
    function, owner = find_function_called(step, ast.copy_location(ast.Call(given, [], []), given))
    kind = look_up(step.context, given.func) if isinstance(given, ast.Call) else None  # of Collate(pad)
    if isinstance(kind, type):
        function = unwrap(inspect.getattr_static(kind, "__call__", None))
        context = None if function is None else program.enter(function, None)
        return None if context is None else replace(context, samples=samples, kind=kind, made=step.at(given, ()))
    context = None if function is None else program.enter(function, None, owner)
    return None if context is None else replace(context, samples=samples)


def find_samples(step: SourceStep, source: Operand) -> list[SourceStep]:
    """Return what the samples of a loader, or the items of an object of the user's class, are."""
    if source is MISSING or not step.keys or type(source) in (list, tuple, dict):
        return []
    program, keys = step.context.program, step.keys[:-1]
    held = getattr(source, "__dict__", {})
    dataset = held.get("dataset", MISSING)
    collate = held.get("collate_fn")
    if unwrap(collate) or unwrap(inspect.getattr_static(type(collate), "__call__", None)):
        made = program.find_construction(source)
        if made is None or not isinstance(made.node, ast.Call):
            return []
        return _find_items(replace(made, keys=step.keys), made.node)
    for owner, name in ((source, "__iter__"), (source, "__getitem__")):
        function = unwrap(inspect.getattr_static(type(owner), name, None))
        context = None if function is None else program.enter(function, None, owner)
        if context is not None:
            return find_returned(context, step.keys if name == "__iter__" else keys)
    return find_samples(replace(step, keys=step.keys), dataset) if dataset is not MISSING else []
