"""The call that made an object: found by the names and attributes that lead to it from the frames that run."""

from __future__ import annotations

import ast
from collections import deque
from types import ModuleType

from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.causes.attributes import find_attribute_of
from adjoint.diagnosis.causes.contexts import CodeContext, FailedProgram, Key, SourceStep, look_up
from adjoint.diagnosis.causes.steps import find_former, trace_back
from adjoint.diagnosis.operands import COMPREHENSIONS, MISSING, is_module
from adjoint.diagnosis.source_expressions import find_function, parse_source, text_of

MAX_OBJECTS = 2000
CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")


def find_construction(program: FailedProgram, value: Operand) -> SourceStep | None:
    """Return the call that made an object, in its context; None where the source does not show it."""
    for step in find_expressions(program, value):
        for each in trace_back(step):
            if not each.keys and isinstance(each.node, ast.Call) and makes(each, value):
                return each
    return None


def makes(step: SourceStep, value: Operand) -> bool:
    """Return whether a call is of the class of a value."""
    call = step.node
    if not isinstance(call, ast.Call):
        return False
    kind = look_up(step.context, call.func)
    if kind is MISSING and isinstance(call.func, (ast.Subscript, ast.IfExp)):  # of a table of classes
        kind = step.context.program.compute(step.at(call.func, ()))
    if isinstance(kind, type):
        return kind is type(value)
    return text_of(call.func).rpartition(".")[2] == type(value).__name__


def find_expressions(program: FailedProgram, value: Operand) -> list[SourceStep]:
    """Return the expressions that gave an object: of a name of a frame, or of an attribute on the way to it."""
    for i, place in enumerate(program.stack):
        code = place.frame.f_code
        if code.co_name in COMPREHENSIONS or not user_files[code.co_filename]:
            continue
        source = parse_source(code.co_filename, place.frame.f_globals)
        if source is None:
            continue
        scope = source.tree if code.co_name == "<module>" else find_function(source, code.co_firstlineno)
        if scope is None:
            continue
        context = CodeContext(source, scope, program, program.stack[i:])
        path = _find_path(value, place.frame.f_locals)
        if path is not None:
            found = _follow(context, path)
            if found:
                return found
    return []


def _find_path(value: Operand, names: dict[str, Operand]) -> list[tuple[Operand, Key]] | None:
    """Return the way to an object from names: pairs of an owner and its attribute or place; the first is a name."""
    seen = {id(names)}
    pending: deque[tuple[Operand, list[tuple[Operand, Key]]]] = deque()
    for name, held in list(names.items()):
        if held is value and name != "self" and not name.startswith("_"):
            return [(None, name)]
        pending.append((held, [(None, name)]))
    while pending and len(seen) < MAX_OBJECTS:
        owner, path = pending.popleft()
        if id(owner) in seen or len(path) > 7:
            continue
        seen.add(id(owner))
        for key, held in parts_of(owner):
            if held is value:
                return [*path, (owner, key)]
            pending.append((held, [*path, (owner, key)]))
    return None


def parts_of(owner: Operand) -> list[tuple[Key, Operand]]:
    """Return the objects that an object holds, by attribute, key or place."""
    if is_module(owner):
        modules = [(name, each) for name, each in vars(owner)["_modules"].items() if each is not None]
        if type(owner).__name__ in CONTAINERS:
            return [(int(name) if name.isdigit() else name, each) for name, each in modules]
        others = [(name, each) for name, each in vars(owner).items() if not name.startswith("_")]
        return [
            *modules,
            *((name, each) for name, each in others if hasattr(each, "__dict__") or type(each) in (list, tuple, dict)),
        ]
    if type(owner) is dict:
        return [(key, each) for key, each in list(owner.items())[:MAX_OBJECTS] if isinstance(key, (int, str))]
    if type(owner) in (list, tuple):
        return list(enumerate(owner[:64]))
    module = type(owner).__module__
    is_plain = isinstance(owner, (type, ModuleType)) or module in ("builtins", "types", "_frozen_importlib", "numpy")
    held = {} if is_plain or callable(owner) else getattr(owner, "__dict__", {})
    return [(name, each) for name, each in held.items() if not name.startswith("_")]


def _follow(context: CodeContext, path: list[tuple[Operand, Key]]) -> list[SourceStep]:
    """Return the expressions at the end of the way to an object."""
    (_, name), rest = path[0], path[1:]
    if name == "self" and rest:
        (owner, key), rest = rest[0], rest[1:]
        found = find_attribute_of(SourceStep(context, ast.Name("self", ast.Load())), owner, str(key))
    else:
        found = [SourceStep(context, ast.Name(str(name), ast.Load()))]
    for owner, key in rest:
        found = [each for step in found for each in _enter(step, owner, key)]
    return found


def _enter(step: SourceStep, owner: Operand, key: Key) -> list[SourceStep]:
    """Return the expressions that gave a part of what a step gives."""
    if type(owner) in (list, tuple, dict):
        return [SourceStep(step.context, step.node, (*step.keys, key))]
    if is_module(owner) and type(owner).__name__ in CONTAINERS:
        return _enter_container(step, owner, key)
    return find_attribute_of(step.at(step.node, ()), owner, str(key))


def _enter_container(step: SourceStep, owner: Operand, key: Key) -> list[SourceStep]:
    """Return the argument of `nn.Sequential(…)`, or what was appended, that is a part of it."""
    for each in trace_back(step):
        call = each.node
        if each.keys or not isinstance(call, ast.Call) or not makes(each, owner):
            continue
        starred = next((i for i, part in enumerate(call.args) if isinstance(part, ast.Starred)), None)
        if type(owner).__name__ == "Sequential" and starred is None and isinstance(key, int):
            return [SourceStep(each.context, call.args[key])] if key < len(call.args) else []
        if starred is not None and isinstance(key, int) and isinstance(call.args[starred], ast.Starred):
            inner = SourceStep(each.context, call.args[starred], (key - starred,))
            return _choose(inner, owner, key)
        if call.args:
            return _choose(SourceStep(each.context, call.args[0], (key,)), owner, key)
        return _choose(SourceStep(step.context, step.node, (key,)), owner, key)
    return _choose(SourceStep(step.context, step.node, (key,)), owner, key)


def _choose(step: SourceStep, owner: Operand, key: Key) -> list[SourceStep]:
    """Return the steps to calls that make a part like that which a container holds, the places of others left out."""
    parts = list(vars(owner)["_modules"].values())
    part = parts[key] if isinstance(key, int) else vars(owner)["_modules"].get(key)
    calls = [each for each in trace_back(step) if isinstance(each.node, ast.Call) and not each.keys]
    made = [each for each in calls if makes(each, part)]
    if made:
        alike = [parts.index(each) for each in parts if type(each) is type(part)]
        number = alike.index(parts.index(part)) if part in parts else 0
        return [made[number]] if len(made) == len(alike) and number < len(made) else made
    return find_former(step)


def find_owner(program: FailedProgram, value: Operand) -> tuple[Operand, str] | None:
    """Return the module of the frames to which a parameter or a buffer belongs, and its name there."""
    seen: set[int] = set()
    pending = deque(held for place in program.stack for held in place.frame.f_locals.values())
    while pending and len(seen) < MAX_OBJECTS:
        owner = pending.popleft()
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        if is_module(owner):
            for name, held in (*vars(owner)["_parameters"].items(), *vars(owner)["_buffers"].items()):
                if held is value:
                    return owner, name
        pending.extend(held for _, held in parts_of(owner))
    return None
