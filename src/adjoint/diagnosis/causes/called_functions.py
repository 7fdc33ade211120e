"""The user's function that a call runs."""

from __future__ import annotations

import ast
import inspect
import re
from types import CellType, CodeType, FunctionType

from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.causes.contexts import ITEM, CodeContext, SourceStep
from adjoint.diagnosis.causes.held_values import find_last_item, find_parts, look_up
from adjoint.diagnosis.operands import MISSING, is_module
from adjoint.diagnosis.source_expressions import find_result, parse_source, text_of

JOINING = re.compile(r"stack|[vhd]stack|cat|concat|concatenate|pad_sequence")


def find_function_called(step: SourceStep, call: ast.Call) -> tuple[Operand, Operand]:
    """Return the user's function that a call runs, and the object whose method it is; None where there is none."""
    called = look_up(step.context, call.func)
    owner: Operand = MISSING
    if step.before and is_module(called):
        called = find_parts(called)[step.before - 1]
    if called is MISSING and isinstance(call.func, ast.Name):
        called = step.context.program.compute(step.at(call.func, ()))
        called = find_last_item(step.context, call.func.id) if called is MISSING else called
        called = _find_inner_function(step.context, call.func.id) if called is MISSING else called
    if called is MISSING and isinstance(call.func, ast.Attribute):
        owner = step.context.program.compute(step.at(call.func.value, ()))
        kind = _find_kind_made(step, call.func.value)
        if text_of(call.func.value) == "super()":
            owner = look_up(step.context, ast.Name("self", ast.Load()))
            called = _find_in_bases(step, owner, call.func.attr)
        elif owner is MISSING and text_of(call.func.value) == "self" and step.context.kind is not None:
            called = inspect.getattr_static(step.context.kind, call.func.attr, MISSING)
            called = step.context.program.compute(step.at(call.func, ())) if called is MISSING else called
        elif owner is not MISSING and not inspect.ismodule(owner):
            kinds = owner if isinstance(owner, type) else type(owner)
            called = inspect.getattr_static(kinds, call.func.attr, MISSING)
        elif isinstance(kind, type):
            called = inspect.getattr_static(kind, call.func.attr, MISSING)
    if called is MISSING and isinstance(call.func, ast.Call):  # of Net()(x)
        called = inspect.getattr_static(_find_kind_made(step, call.func), "forward", MISSING)
    if isinstance(called, type):
        return None, MISSING
    if is_module(called):
        hook = find_result_hook(called)
        return (hook, MISSING) if hook is not None else (unwrap(type(called).forward), called)
    if inspect.ismethod(called):
        return unwrap(called.__func__), called.__self__
    if isinstance(called, (staticmethod, classmethod)):
        called = called.__func__
    if inspect.isfunction(called):
        return unwrap(called), owner
    own = inspect.getattr_static(type(called), "__call__", None)
    if called is not MISSING and inspect.isfunction(own):
        return unwrap(own), called
    return None, MISSING


def _find_inner_function(context: CodeContext, name: str) -> Operand:
    """Return the function of a name that is defined within a function which has returned; MISSING if none is."""
    outer = getattr(context.function, "__code__", None)
    codes = [each for each in outer.co_consts if isinstance(each, CodeType)] if outer is not None else []
    code = next((each for each in codes if each.co_name == name), None)
    if code is None:
        return MISSING
    return FunctionType(code, context.names, name, None, tuple(CellType() for _ in code.co_freevars))


def _find_kind_made(step: SourceStep, node: ast.expr) -> Operand:
    """Return the class of which `Scaler().fit(x)` makes an object; MISSING where it makes none."""
    while isinstance(node, ast.Call):
        kind = look_up(step.context, node.func)
        if isinstance(kind, type) or not isinstance(node.func, ast.Attribute):
            return kind
        node = node.func.value
    return MISSING


def find_result_hook(module: Operand) -> Operand:
    """Return the user's hook that puts something in place of what a module gives; None where there is none."""
    hooks = [unwrap(each) for each in vars(module).get("_forward_hooks", {}).values()]
    return next((each for each in hooks[::-1] if each is not None and _gives_something(each)), None)


def _gives_something(function: Operand) -> bool:
    source = parse_source(function.__code__.co_filename)
    result = None if source is None else find_result(source, function.__code__.co_firstlineno)
    value = getattr(result, "value", None)
    return value is not None and not (isinstance(value, ast.Constant) and value.value is None)


def _find_in_bases(step: SourceStep, owner: Operand, name: str) -> Operand:
    """Return the method of the class after that of the scope, in the order of the object's classes."""
    around = getattr(step.source.scope_of(step.context.scope), "name", "")
    kinds = [] if owner is MISSING else list(type(owner).__mro__)
    names = [kind.__name__ for kind in kinds]
    later = kinds[names.index(around) + 1 :] if around in names else []
    return next((vars(kind)[name] for kind in later if name in vars(kind)), MISSING)


def unwrap(function: Operand) -> Operand:
    """Return the user's function behind a decorator; None where it is none of the user's."""
    inner = inspect.unwrap(function) if inspect.isfunction(function) else None
    code = getattr(inner, "__code__", None)
    return inner if code is not None and user_files[code.co_filename] else None


def find_input(step: SourceStep, call: ast.Call) -> SourceStep | None:
    """Return the tensor that a call of the library's takes: the object of a method, or the first argument.

    Of a list of tensors that are joined it is one of them.
    """
    called = look_up(step.context, call.func)
    base = look_up(step.context, call.func.value) if isinstance(call.func, ast.Attribute) else None
    is_method = isinstance(call.func, ast.Attribute) and not hasattr(base, "__spec__") and not is_module(called)
    inner = call.func.value if is_method and isinstance(call.func, ast.Attribute) else next(iter(call.args), None)
    if isinstance(inner, (ast.List, ast.Tuple)):
        inner = next(iter(inner.elts), None)
    elif inner is not None and JOINING.fullmatch(text_of(call.func).rpartition(".")[2]):
        return step.at(inner, (ITEM,))
    return None if inner is None else step.at(inner, ())
