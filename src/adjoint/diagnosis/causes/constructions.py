"""The call that made an object: found by the names and attributes that lead to it from the frames that run."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.causes.attributes import find_attribute_of
from adjoint.diagnosis.causes.contexts import ITEM, CodeContext, FailedProgram, Key, SourceStep
from adjoint.diagnosis.causes.held_values import find_turn, look_up
from adjoint.diagnosis.causes.steps import find_former, trace_back
from adjoint.diagnosis.operands import COMPREHENSIONS, MISSING, is_module
from adjoint.diagnosis.source_expressions import find_function, parameters_of, parse_source, text_of

MAX_OBJECTS = 2000
CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")


def find_construction(program: FailedProgram, value: Operand) -> SourceStep | None:
    """Return the call that made an object, in its context; None where the source does not show it."""
    for step in find_expressions(program, value):
        for each in trace_back(step):
            made = None if each.keys else find_making(each, value)
            if made is not None:
                return made
        around, call = step.source.parents.get(step.node), step.node
        is_stored = isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Subscript)  # net[2] = …
        if is_stored and isinstance(call, ast.Call) and text_of(call.func).endswith(type(value).__name__):
            return step
    return None


def find_making(step: SourceStep, value: Operand) -> SourceStep | None:
    """Return the step of a call that makes a value: of one in a loop that has ended, in the turn that made it."""
    if not isinstance(step.node, ast.Call):
        return None
    around: ast.AST | None = step.source.parents.get(step.node)
    while around is not None and around is not step.context.scope and not isinstance(around, ast.For):
        around = step.source.parents.get(around)
    loop = around if isinstance(around, ast.For) and not step.context.stack and step.context.turn is None else None
    last = None if loop is None else find_turn(step.context, loop)
    turns = [(loop, back) for back in range(last, -1, -1)] if loop is not None and last else []
    is_refuted = False  # in each turn it makes another
    for turn in turns:
        moved = replace(step, context=replace(step.context, turn=turn))
        compute = moved.context.program.compute
        given = [compute(moved.at(each, ())) for each in step.node.args if not isinstance(each, ast.Constant)]
        is_known = any(type(each) is int for each in given)
        if is_known and makes(moved, value):
            return moved
        is_refuted = is_refuted or is_known
    return step if not is_refuted and makes(step, value) else None


def makes(step: SourceStep, value: Operand) -> bool:
    """Return whether a call is of the class of a value, and gives no other numbers than a layer has."""
    call, compute = step.node, step.context.program.compute
    if not isinstance(call, ast.Call):
        return False
    kind = look_up(step.context, call.func)
    if kind is MISSING and isinstance(call.func, (ast.Subscript, ast.IfExp)):  # of a table of classes
        kind = compute(step.at(call.func, ()))
    if not isinstance(kind, type):
        return text_of(call.func).rpartition(".")[2] == type(value).__name__
    if kind is not type(value):
        return False
    names = parameters_of(kind.__init__)[1:] if is_module(value) and is_name_of_package(kind.__module__) else ()
    for name, each in zip(names, call.args, strict=False):
        own = getattr(value, name, None)
        given = compute(step.at(each, ())) if type(own) is int and not isinstance(each, ast.Starred) else own
        if type(given) is int and given != own:
            return False
    return True


def find_expressions(program: FailedProgram, value: Operand) -> list[SourceStep]:
    """Return the expressions that gave an object: of a name of a frame, or of an attribute on the way to it."""
    for context, names in _find_namespaces(program):
        path = _find_path(value, names)
        found = [] if path is None else _follow(context, path)
        if found:
            return found
    return []


def _find_namespaces(program: FailedProgram) -> Iterator[tuple[CodeContext, dict[str, Operand]]]:
    """Yield the names of the frames, innermost first, and of the modules that their files import."""
    for i, place in enumerate(program.stack):
        code = place.frame.f_code
        is_own = code.co_name not in COMPREHENSIONS and user_files[code.co_filename]
        source = parse_source(code.co_filename, place.frame.f_globals) if is_own else None
        is_whole = code.co_name == "<module>"
        scope = None if source is None else source.tree if is_whole else find_function(source, code.co_firstlineno)
        if source is not None and scope is not None:
            yield CodeContext(source, scope, program, program.stack[i:]), place.frame.f_locals
    for source in program.sources:
        if program.find_running(source, source.tree) is None:
            yield CodeContext(source, source.tree, program), program.modules[source.name]


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
    found = [SourceStep(context, ast.Name(str(name), ast.Load()))]
    origins: list[tuple[SourceStep, Operand, str]] = []  # of what was found last, where an attribute gave it
    for owner, key in rest:
        if type(owner) in (list, tuple, dict):
            found = [replace(step, keys=(*step.keys, key)) for step in found]
            origins = []
        elif is_module(owner) and type(owner).__name__ in CONTAINERS:
            filled = [
                each
                for step, holder, label in origins
                for each in find_attribute_of(step.at(step.node, (key,)), holder, label)
            ]
            found = [each for step in found for each in _enter_container(step, owner, key, filled)]
            origins = []
        else:
            origins = [(step.at(step.node, ()), owner, str(key)) for step in found]
            found = [each for step, holder, label in origins for each in find_attribute_of(step, holder, label)]
    return found


def _enter_container(step: SourceStep, owner: Operand, key: Key, filled: list[SourceStep]) -> list[SourceStep]:
    """Return the argument of `nn.Sequential(…)`, or what was appended, that is a part of it."""
    for each in trace_back(step):
        call = each.node
        if each.keys or not isinstance(call, ast.Call) or not makes(each, owner):
            continue
        starred = next((i for i, part in enumerate(call.args) if isinstance(part, ast.Starred)), None)
        if type(owner).__name__ == "Sequential" and starred is None and isinstance(key, int):
            made = SourceStep(each.context, call.args[key]) if key < len(call.args) else None
            part = list(vars(owner)["_modules"].values())[key]
            is_own = made is not None and any(makes(former, part) for former in trace_back(made))
            stored = [] if is_own else _find_stored(each, owner, key)
            return stored or ([] if made is None else [made])
        if starred is not None and isinstance(key, int) and key < starred:
            return _choose([SourceStep(each.context, call.args[key])], owner, key)
        if starred is not None and isinstance(key, int):
            first = call.args[starred]
            exact = [SourceStep(each.context, first, (key - starred,))] if starred == len(call.args) - 1 else []
            parts = [(part, (ITEM,) if isinstance(part, ast.Starred) else ()) for part in call.args[starred:]]
            return _choose(exact or [SourceStep(each.context, part, keys) for part, keys in parts], owner, key)
        if call.args:
            return _choose([SourceStep(each.context, call.args[0], (key,))], owner, key)
        break
    stored = _find_stored(step, owner, key)
    if stored:
        return stored
    return _choose(filled or [SourceStep(step.context, step.node, (*step.keys, key))], owner, key)


def _find_stored(step: SourceStep, owner: Operand, key: Key) -> list[SourceStep]:
    """Return what a statement such as `model.net[2] = nn.Linear(8, 2)` has put into a container in a part's place."""
    part = list(vars(owner)["_modules"].values())[key] if isinstance(key, int) else vars(owner)["_modules"].get(key)
    program = step.context.program
    for source in program.sources:
        for statement in source.nodes_of(ast.Assign):
            target, value = statement.targets[0], statement.value
            is_item = isinstance(target, ast.Subscript) and isinstance(value, ast.Call)
            if is_item and isinstance(value, ast.Call) and text_of(value.func).endswith(type(part).__name__):
                return [SourceStep(program.find_context(source, source.scope_of(statement)), value)]
    return []


def _choose(steps: list[SourceStep], owner: Operand, key: Key) -> list[SourceStep]:
    """Return the steps to calls that make a part like that which a container holds, the places of others left out."""
    parts = list(vars(owner)["_modules"].values())
    part = parts[key] if isinstance(key, int) else vars(owner)["_modules"].get(key)
    every = [each for step in steps for each in trace_back(step)]
    found = [find_making(each, part) for each in every if not each.keys]
    made = [each for each in found if each is not None]
    if made:
        alike = [parts.index(each) for each in parts if type(each) is type(part)]
        number = alike.index(parts.index(part)) if part in parts else 0
        return [made[number]] if len(made) == len(alike) and number < len(made) else made
    return [former for step in steps for former in find_former(step)]


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
