"""The way of a value through a program: assignments, arguments, results of functions, items, and attributes."""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from adjoint.core.typing import Operand, Shape
from adjoint.diagnosis.call_stack import Stack, user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.line_operands import find_frames_around
from adjoint.diagnosis.operands import MISSING, Origin, evaluate, find_origin, is_module
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import (
    SourceFile,
    find_assignment,
    find_function,
    parameter_names,
    parse_source,
    text_of,
)

MAX_STEPS = 24
MAX_CALLS = 4  # of functions that have returned, within one another


@dataclass(frozen=True)
class ValueStep:
    """An expression that gave a value: where it stands, and what gives its names their values.

    That are the frames which still run, or, in a function that has returned, the call of it.
    """

    source: SourceFile
    node: ast.expr
    stack: Stack
    call: ValueStep | None = None
    function: Operand = None
    keys: tuple[int | str, ...] = field(default=())  # which items of the value are meant, the outermost last

    @property
    def depth(self) -> int:
        """The number of functions around it that have returned."""
        return 0 if self.call is None else 1 + self.call.depth

    def place(self) -> str:
        """Return the file and the line."""
        return self.source.place_of(self.node)

    def origin(self) -> Origin:
        """Return the statement around it."""
        return Origin(self.source, self.node)

    def compute(self, node: ast.expr) -> Operand:
        """Return the value of an expression of the same place; MISSING where it cannot be computed again."""
        if self.call is None:
            values = (compute(node, place.frame) for place in self.stack[:1])
            return next(values, MISSING)
        return self.call.compute(self.bind(node))

    def bind(self, node: ast.expr) -> ast.expr:
        """Return an expression of a function that has returned, with the arguments in place of its parameters."""
        given: dict[int, ast.expr] = {}
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and self.call is not None:
                argument = _find_argument(self, each.id)
                made = find_assignment(self.source, self.source.scope_of(each), each.id, each) if not argument else None
                value = getattr(made, "value", None)
                if argument is not None:
                    given[id(each)] = argument
                elif isinstance(value, (ast.Dict, ast.List, ast.Tuple, ast.Constant)):  # a table of the function's own
                    given[id(each)] = value
        bound: ast.expr = given.get(id(node)) or copy.deepcopy(node, given)
        return bound


def trace_value(failure: Failure, node: ast.expr) -> Iterator[ValueStep]:
    """Yield the expressions that gave the value of one of the failing line, nearest first."""
    if failure.line is not None:
        yield from trace_step(ValueStep(failure.line.source, node, failure.stack))


def trace_step(first: ValueStep) -> Iterator[ValueStep]:
    """Yield a step, and those before it, nearest first."""
    pending, seen = [first], set[tuple[ast.AST, int]]()
    while pending and len(seen) < MAX_STEPS:
        step = pending.pop(0)
        if (step.node, step.depth) in seen:
            continue
        seen.add((step.node, step.depth))
        yield step
        pending += _find_former(step)


def _find_former(step: ValueStep) -> list[ValueStep]:
    node = step.node
    if isinstance(node, ast.IfExp):
        return [replace(step, node=node.body), replace(step, node=node.orelse)]
    if isinstance(node, ast.Subscript):
        key = node.slice.value if isinstance(node.slice, ast.Constant) else step.compute(node.slice)
        return [replace(step, node=node.value, keys=(*step.keys, key) if isinstance(key, (int, str)) else ())]
    if isinstance(node, (ast.Tuple, ast.List)):
        place = step.keys[-1] if step.keys else None
        if isinstance(place, int) and -len(node.elts) <= place < len(node.elts):
            return [replace(step, node=node.elts[place], keys=step.keys[:-1])]
        return []
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        named = {each.value: value for each, value in pairs if isinstance(each, ast.Constant)}
        found = named.get(step.keys[-1]) if step.keys else None
        return [] if found is None else [replace(step, node=found, keys=step.keys[:-1])]
    if isinstance(node, ast.Call):
        return _find_results(step, node)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _find_assigned(step, node)
    return []


def _find_assigned(step: ValueStep, node: ast.Name | ast.Attribute) -> list[ValueStep]:
    """Return the expression that a statement, or a call, gave a name or an attribute."""
    name = text_of(node)
    owner = step.compute(node.value) if isinstance(node, ast.Attribute) else MISSING
    static = inspect.getattr_static(type(owner), getattr(node, "attr", ""), None) if owner is not MISSING else None
    getter = getattr(static, "fget", getattr(static, "func", None))
    if isinstance(node, ast.Attribute) and inspect.isfunction(getter):  # of a property
        return _find_results(step, ast.copy_location(ast.Call(node, [], []), node), getter)
    if step.call is None and step.stack:
        origin = find_origin(step.source, node, step.stack)
        around = None if origin is None else find_frames_around(origin, step.stack)
        return [] if origin is None else _enter(replace(step, source=origin.source, stack=around or ()), origin, name)
    scope = step.source.scope_of(node)
    if isinstance(node, ast.Attribute):
        kind = getattr(step.source.scope_of(scope), "name", "")
        made = step.source.attribute_assignments.get((kind, node.attr), []) if text_of(node.value) == "self" else []
        return _enter(step, Origin(step.source, made[0]), name) if made else []
    statement = find_assignment(step.source, scope, name, node)
    if statement is not None:
        return _enter(step, Origin(step.source, statement), name)
    argument = _find_argument(step, name)
    if argument is not None and step.call is not None:
        is_default = any(each is argument for each in ast.walk(scope))
        return [replace(step, node=argument) if is_default else replace(step.call, node=argument, keys=step.keys)]
    statement = find_assignment(step.source, step.source.tree, name, None)
    return [] if statement is None else _enter(step, Origin(step.source, statement), name)


def _enter(step: ValueStep, origin: Origin, name: str) -> list[ValueStep]:
    """Return the value that a statement assigns, as a step."""
    value, place = origin.value_of(name), origin.place_in_tuple(name)
    if isinstance(origin.node, (ast.For, ast.AsyncFor)):
        return _enter_loop(step, origin.node, place)
    if value is None or value is step.node:
        return []
    is_whole = place is None or value is not origin.value
    return [replace(step, node=value, keys=step.keys if is_whole or place is None else (*step.keys, place))]


def _enter_loop(step: ValueStep, loop: ast.For | ast.AsyncFor, place: int | None) -> list[ValueStep]:
    """Return what a loop takes its items from, and which of them the name has: of `d.items()` by the key."""
    whole, target = loop.iter, loop.target
    parts = target.elts if isinstance(target, ast.Tuple) else []
    called = whole.func.attr if isinstance(whole, ast.Call) and isinstance(whole.func, ast.Attribute) else ""
    if called == "items" and place == 1 and isinstance(whole, ast.Call) and isinstance(whole.func, ast.Attribute):
        key = step.compute(parts[0])
        return [replace(step, node=whole.func.value, keys=(key,) if isinstance(key, (int, str)) else ())]
    name = text_of(whole.func) if isinstance(whole, ast.Call) else ""
    if name == "zip" and place is not None and isinstance(whole, ast.Call) and place < len(whole.args):
        return [replace(step, node=whole.args[place], keys=())]
    if name in ("enumerate", "tqdm", "iter") and isinstance(whole, ast.Call) and whole.args:
        return [replace(step, node=whole.args[0], keys=())]
    return [replace(step, node=whole, keys=())]


def find_root(first: ValueStep, size: int) -> tuple[str, str] | None:
    """Return the name and the place of what a value of so many rows was computed from, through layers and functions."""
    step, found = first, None
    for _ in range(MAX_STEPS):
        shape: Shape = getattr(step.compute(step.node), "shape", ()) if isinstance(step.node, ast.Name) else ()
        if isinstance(step.node, ast.Name) and (step.call is not None or shape[:1] == (size,)):
            origin = find_origin(step.source, step.node, step.stack) if step.call is None and step.stack else None
            if origin is not None and not isinstance(origin.node, (ast.For, ast.AsyncFor)):
                found = text_of(step.node), origin.place()
        former = _find_former(step)
        if not former and isinstance(step.node, ast.Call):
            call = step.node
            is_method = isinstance(call.func, ast.Attribute) and step.call is not None
            owner = MISSING if not isinstance(call.func, ast.Attribute) else step.compute(call.func.value)
            is_method = is_method or (owner is not MISSING and not inspect.ismodule(owner) and not is_module(owner))
            first_argument = next(iter(call.args), None)
            inner = call.func.value if is_method and isinstance(call.func, ast.Attribute) else first_argument
            former = [] if inner is None else [replace(step, node=inner, keys=())]
        if not former:
            return found
        step = former[0]
    return found


def _find_results(step: ValueStep, call: ast.Call, getter: Operand = None) -> list[ValueStep]:
    """Return what the user's function that is called returns."""
    function = find_called(step, call) if getter is None else getter
    code = getattr(function, "__code__", None)
    source = parse_source(code.co_filename) if code is not None and user_files[code.co_filename] else None
    scope = None if source is None or code is None else find_function(source, code.co_firstlineno)
    if source is None or scope is None or step.depth >= MAX_CALLS:
        return []
    found = [each for each in ast.walk(scope) if isinstance(each, ast.Return) and source.scope_of(each) is scope]
    whole = replace(step, node=call, keys=())
    return [ValueStep(source, each.value, step.stack, whole, function, step.keys) for each in found[::-1] if each.value]


def find_called(step: ValueStep, call: ast.Call) -> Operand:
    """Return the function that a call runs: of a module its forward; MISSING where it cannot be told."""
    called: Operand = MISSING
    if step.call is None:
        found = (evaluate(call.func, place.frame) for place in step.stack)
        called = next((each for each in found if each is not MISSING), MISSING)
        if called is MISSING and isinstance(call.func, ast.Attribute):
            owners = (evaluate(call.func.value, place.frame) for place in step.stack)
            owner = next((each for each in owners if each is not MISSING), None)
            made = call.func.value.func if isinstance(call.func.value, ast.Call) else None
            kinds = [] if made is None else [evaluate(made, place.frame) for place in step.stack]
            owner = next((each for each in kinds if isinstance(each, type)), owner)  # of Model().fit(…)
            called = inspect.getattr_static(owner if isinstance(owner, type) else type(owner), call.func.attr, MISSING)
    elif isinstance(call.func, ast.Name):
        called = getattr(step.function, "__globals__", {}).get(call.func.id, MISSING)
    elif isinstance(call.func, ast.Attribute) and text_of(call.func.value) == "self":
        names = getattr(step.function, "__globals__", {})
        owner = names.get(getattr(step.source.scope_of(step.source.scope_of(call)), "name", ""))
        called = inspect.getattr_static(owner, call.func.attr, MISSING) if isinstance(owner, type) else MISSING
    function = type(called).forward if is_module(called) else getattr(called, "__func__", called)
    return inspect.unwrap(function) if inspect.isfunction(function) else function


def _find_argument(step: ValueStep, name: str) -> ast.expr | None:
    """Return the argument of the call of a function that has returned, or the default, for one of its parameters."""
    code = getattr(step.function, "__code__", None)
    scope = None if code is None else find_function(step.source, code.co_firstlineno)
    call = None if step.call is None else step.call.node
    names = [] if scope is None else parameter_names(scope)
    if scope is None or not isinstance(call, ast.Call) or name not in names:
        return None
    if names[0] == name == "self" and isinstance(call.func, ast.Attribute):
        return call.func.value
    named = next((each.value for each in call.keywords if each.arg == name), None)
    is_starred = any(isinstance(each, ast.Starred) for each in call.args)
    place = names.index(name) - (names[0] in ("self", "cls"))
    if named is None and not is_starred and 0 <= place < len(call.args):
        named = call.args[place]
    if named is None and not is_starred and all(each.arg for each in call.keywords):
        defaults = dict(zip(names[::-1], scope.args.defaults[::-1], strict=False)) if not scope.args.kwonlyargs else {}
        named = defaults.get(name)
    return named
