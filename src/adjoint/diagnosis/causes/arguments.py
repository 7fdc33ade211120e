"""Arguments of the user's functions: what the call of a function gives for a parameter, or leaves to its default."""

from __future__ import annotations

import ast
from dataclasses import replace

from adjoint.core.graph.source_location import library_files
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.causes.called_functions import find_function_called
from adjoint.diagnosis.causes.contexts import CodeContext, Key, SourceStep, caller_of, find_step, frame_of
from adjoint.diagnosis.causes.held_values import find_parts, look_up
from adjoint.diagnosis.operands import MISSING, MODULE_CALLS, is_module
from adjoint.diagnosis.source_expressions import SourceFile, find_function, parameter_names, parse_source, text_of

MAX_CALLS = 6  # of one name, of which one is looked for


def find_argument(context: CodeContext, name: str, keys: tuple[Key, ...] = ()) -> SourceStep | None:
    """Return the argument of the call of a function, or the default, for one of its parameters."""
    scope = context.scope
    if isinstance(scope, (ast.ClassDef, ast.Module)):
        return None
    if context.samples is not None and name in own_parameters(scope)[:1]:
        return context.samples.at(context.samples.node, keys)
    call = find_call(context)
    return None if call is None else _bind(context, scope, call, name, keys)


def find_call(context: CodeContext) -> SourceStep | None:
    """Return the user's call that runs, or has run, the function of a context."""
    if not context.stack:
        return context.call or _find_only_call(context)
    outer = caller_of(context.stack)
    step = find_step(context.program, outer)
    if step is None or not isinstance(step.node, ast.Call):
        return None
    made, _ = find_function_called(step, step.node)
    part = frame_of(context.stack).f_locals.get("self")
    place = next((i for i, each in enumerate(find_parts(look_up(step.context, step.node.func))) if each is part), None)
    if place is not None and made is None:
        return replace(step, before=place)
    kind = look_up(step.context, step.node.func)
    is_made = isinstance(kind, type) and frame_of(context.stack).f_code.co_name == "__init__"
    is_own = made is not None and made.__code__ is frame_of(context.stack).f_code
    is_through = all(
        library_files[each.f_code.co_filename] and each.f_code.co_name in MODULE_CALLS for each in outer[0].called
    )
    return step if is_made or is_own or is_through else None


def _find_only_call(context: CodeContext) -> SourceStep | None:
    """Return the only call to a function, or to the class whose `__init__` it is; of a method, of the same object."""
    name = getattr(context.scope, "name", "")
    is_maker = name == "__init__"
    name = getattr(context.source.parents.get(context.scope), "name", "") if is_maker else name
    program = context.program
    sources = [context.source, *(each for each in program.sources if each is not context.source)]
    calls = [(source, call) for source in sources for call in source.calls.get(name, ())]
    if len({text_of(each) for _, each in calls}) > MAX_CALLS:
        return None
    found = [SourceStep(program.find_context(source, source.scope_of(call)), call) for source, call in calls]
    if context.owner is not MISSING and not is_maker:
        found = [each for each in found if _is_method_of(each, context.owner)]
    return found[0] if len({text_of(each.node) for each in found}) == 1 else None


def _is_method_of(step: SourceStep, owner: Operand) -> bool:
    """Return whether a call can be of a method of an object."""
    call = step.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    held = step.context.program.compute(step.at(call.func.value, ()))
    return held is MISSING or held is owner


def _bind(
    context: CodeContext, scope: ast.AST, step: SourceStep, name: str, keys: tuple[Key, ...]
) -> SourceStep | None:
    """Return what a call gives for a parameter: an argument, an item of a starred one, or the default."""
    call, arguments = step.node, getattr(scope, "args", None)
    if not isinstance(call, ast.Call) or not isinstance(arguments, ast.arguments):
        return None
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    is_method = positional[:1] == ["self"] or (
        positional[:1] == ["cls"] and isinstance(context.source.parents.get(scope), ast.ClassDef)
    )
    if step.before and is_method and name == positional[1]:
        return replace(step, keys=keys)
    if is_method and name == positional[0]:
        is_bound = isinstance(call.func, ast.Attribute) and not is_module(look_up(step.context, call.func))
        inner = call.func.value if is_bound and isinstance(call.func, ast.Attribute) else call.func
        return SourceStep(step.context, inner, keys)
    if arguments.kwarg is not None and name == arguments.kwarg.arg:
        given = next((each.value for each in call.keywords if keys and each.arg == keys[-1]), None)
        if given is not None:
            return SourceStep(step.context, given, keys[:-1])
        whole = next((each.value for each in call.keywords if each.arg is None), None)
        return None if whole is None else SourceStep(step.context, whole, keys)
    named = next((each.value for each in call.keywords if each.arg == name), None)
    place = positional.index(name) - is_method if name in positional else -1
    if arguments.vararg is not None and name == arguments.vararg.arg:
        first = len(positional) - is_method
        key = keys[-1] if keys else None
        if isinstance(key, int) and first + key < len(call.args):
            return SourceStep(step.context, call.args[first + key], keys[:-1])
        return None
    for i, each in enumerate(call.args):
        if isinstance(each, ast.Starred) and 0 <= i <= place and named is None:
            return SourceStep(step.context, each.value, (*keys, place - i))
    if named is None and 0 <= place < len(call.args):
        named = call.args[place]
    if named is not None:
        return SourceStep(step.context, named, keys)
    for each in (each.value for each in call.keywords if each.arg is None):
        table = look_up(step.context, each)
        if not isinstance(table, dict) or name in table:
            return SourceStep(step.context, each, (*keys, name))
    default = find_default(arguments, name)
    outer = CodeContext(context.source, context.source.scope_of(scope), context.program)
    return None if default is None else SourceStep(outer, default, keys, is_default=True)


def find_default(arguments: ast.arguments, name: str) -> ast.expr | None:
    """Return the default of a parameter."""
    places = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    defaults: dict[str, ast.expr | None] = dict(zip(places[::-1], arguments.defaults[::-1], strict=False))
    defaults |= {each.arg: value for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)}
    return defaults.get(name)


def defines(function: Operand) -> tuple[SourceFile, ast.FunctionDef] | None:
    """Return the definition of a user's function."""
    code = getattr(function, "__code__", None)
    source = parse_source(code.co_filename) if code is not None and user_files[code.co_filename] else None
    scope = None if source is None or code is None else find_function(source, code.co_firstlineno)
    return None if source is None or scope is None else (source, scope)


def own_parameters(scope: ast.AST) -> list[str]:
    """Return the parameters of a function, without the object that it belongs to."""
    names = parameter_names(scope) if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) else []
    return [each for each in names if each not in ("self", "cls")]
