"""Contexts of expressions: a frame that runs, or a function that has returned, with the call that ran it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import CellType, EllipsisType, FrameType
from typing import TypeAlias

from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import Stack, UserFrame, user_files
from adjoint.diagnosis.operands import COMPREHENSIONS, MISSING, evaluate, is_module, read_attribute
from adjoint.diagnosis.source_expressions import (
    Scope,
    SourceFile,
    find_assignment,
    find_expression,
    find_function,
    parse_source,
    text_of,
)

MAX_DEPTH = 8  # of functions that have returned, within one another
Key: TypeAlias = "int | str | EllipsisType"  # which item of a value is meant; the ellipsis is any of them
ITEM = ...


@dataclass(eq=False)
class FailedProgram:
    """The user's frames of a program that has failed, and two searches in it, each done once for a value."""

    stack: Stack
    search: Callable[[FailedProgram, Operand], SourceStep | None]
    run: Callable[[SourceStep], Operand]
    constructions: dict[int, SourceStep | None] = field(default_factory=dict)

    def find_construction(self, value: Operand) -> SourceStep | None:
        """Return the call that made an object, in its context; None where the source does not show it."""
        key = id(value)
        if key not in self.constructions:
            self.constructions[key] = None  # while it is looked for
            self.constructions[key] = self.search(self, value)
        return self.constructions[key]

    def compute(self, step: SourceStep) -> Operand:
        """Return the value of an expression, computed again where no frame holds it; MISSING where it cannot be."""
        return self.run(step)

    def find_running(self, source: SourceFile, scope: Scope) -> CodeContext | None:
        """Return the context of a scope whose frame runs; None if it does not."""
        name = "<module>" if isinstance(scope, ast.Module) else getattr(scope, "name", "")
        first_lines = [getattr(each, "lineno", 0) for each in (scope, *getattr(scope, "decorator_list", ()))]
        for i, place in enumerate(self.stack):
            code = place.frame.f_code
            is_own = code.co_filename == source.name and code.co_name == name
            if is_own and (isinstance(scope, ast.Module) or code.co_firstlineno in first_lines):
                return CodeContext(source, scope, self, self.stack[i:])
        return None

    def enter(self, function: Operand, call: SourceStep | None, owner: Operand = MISSING) -> CodeContext | None:
        """Return the context of a user's function that has returned from a call."""
        code = function.__code__
        source = parse_source(code.co_filename)
        scope = None if source is None else find_function(source, code.co_firstlineno)
        if source is None or scope is None or (call is not None and call.context.depth >= MAX_DEPTH):
            return None
        return CodeContext(source, scope, self, (), call, owner, function)


@dataclass(frozen=True, eq=False)
class CodeContext:
    """The scope of an expression, and what gives its names their values.

    That are the frames which still run, from the scope's own outward; or, of a function that has returned, its call.
    """

    source: SourceFile
    scope: Scope
    program: FailedProgram
    stack: Stack = ()
    call: SourceStep | None = None
    owner: Operand = MISSING  # what `self` is
    function: Operand = None
    kind: Operand = None  # the class of `self`, of an object that no frame holds
    made: SourceStep | None = None  # the call that made it

    @property
    def depth(self) -> int:
        """The number of calls around it that have returned."""
        inner = self.call or self.made
        return 0 if inner is None else 1 + inner.context.depth

    @cached_property
    def closure(self) -> dict[str, Operand]:
        """The names of the functions around that a function has kept."""
        code, cells = getattr(self.function, "__code__", None), getattr(self.function, "__closure__", None) or ()
        held = zip(() if code is None else code.co_freevars, cells, strict=False)
        return {name: cell.cell_contents for name, cell in held if _is_filled(cell)}

    @cached_property
    def current(self) -> ast.AST | None:
        """The expression that the frame of the scope carries out."""
        place = _frames_of_scope(self.stack)[-1]
        found = find_expression(place)
        return None if found is None else found[1]

    def is_overwritten(self, node: ast.Name) -> bool:
        """Return whether a statement has given a name another value since the expression had it."""
        is_read = node in self.source.parents and isinstance(node.ctx, ast.Load)
        if not is_read or self.current is None or isinstance(self.scope, ast.ClassDef):
            return False
        every = self.source.assignments_in(self.scope).get(node.id, [])
        if not every or self.source.scope_of(node) is not self.scope:
            return False
        then = find_assignment(self.source, self.scope, node.id, node)
        now = find_assignment(self.source, self.scope, node.id, self.current)
        return then is not now

    @property
    def names(self) -> dict[str, Operand]:
        """The names of its module."""
        if self.function is not None:
            table: dict[str, Operand] = getattr(self.function, "__globals__", {})
            return table
        return next(
            (each.frame.f_globals for each in self.program.stack if each.frame.f_code.co_filename == self.source.name),
            {},
        )


@dataclass(frozen=True, eq=False)
class SourceStep:
    """An expression that gave a value, and which item of it is meant: the outermost key is the last."""

    context: CodeContext
    node: ast.expr
    keys: tuple[Key, ...] = field(default=())
    is_default: bool = False  # of a parameter that the call leaves out

    @property
    def source(self) -> SourceFile:
        """The file of the expression."""
        return self.context.source

    def at(self, node: ast.expr, keys: tuple[Key, ...] | None = None) -> SourceStep:
        """Return the step to another expression of the same scope."""
        return replace(self, node=node, keys=self.keys if keys is None else keys, is_default=False)

    def find_part(self, text: str) -> SourceStep | None:
        """Return the step to the part of the expression that is written so."""
        parts = (each for each in ast.walk(self.node) if isinstance(each, ast.expr) and text_of(each) == text)
        part = next(parts, None)
        return None if part is None else self.at(part, ())

    def place(self) -> str:
        """Return the file and the line."""
        return self.source.place_of(self.node)

    def line(self) -> str:
        """Return the place and the text of the statement: `train.py:9: self.fc = nn.Linear(8, 4)`."""
        statement = self.source.statement_of(self.node)
        is_def = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef))
        around = self.source.parents.get(self.node)
        if is_def or (isinstance(around, ast.Dict) and getattr(statement, "lineno", 0) != self.node.lineno):
            lines, number = self.source.lines, self.node.lineno - 1
            text = lines[number].decode().partition("  #")[0] if number < len(lines) else ""
            return f"{self.place()}: {text.strip().rstrip(',')}"
        return f"{self.place()}: {self.source.text_of(self.node)}"


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  an empty one raises
    except ValueError:
        return False
    return True


def find_step(program: FailedProgram, stack: Stack) -> SourceStep | None:
    """Return the expression that the innermost frame of a stack carries out, in its context."""
    found = find_expression(stack[0]) if stack else None
    if found is None or not isinstance(found[1], (ast.expr, ast.stmt)):
        return None
    source, node = found
    context = CodeContext(source, source.scope_of(node), program, stack)
    expression = node if isinstance(node, ast.expr) else getattr(node, "value", getattr(node, "iter", None))
    return SourceStep(context, expression) if isinstance(expression, ast.expr) else None


def look_up(context: CodeContext, node: ast.expr) -> Operand:
    """Return the value that a frame, an object or a module holds for an expression; MISSING where none does."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if context.stack:
            values = (evaluate(node, place.frame) for place in _frames_of_scope(context.stack))
            value = next((each for each in values if each is not MISSING), MISSING)
            return MISSING if value is not MISSING and context.is_overwritten(node) else value
        if node.id == "self":
            return context.owner
        is_local = not isinstance(context.scope, ast.Module) and (
            node.id in context.source.assignments_in(context.scope) or node.id in _all_parameters(context.scope)
        )
        return MISSING if is_local else context.closure.get(node.id, context.names.get(node.id, MISSING))
    if isinstance(node, ast.Attribute):
        owner = look_up(context, node.value)
        return MISSING if owner is MISSING else read_attribute(owner, node.attr)
    if isinstance(node, ast.Subscript):
        return read_item(look_up(context, node.value), look_up(context, node.slice))
    return MISSING


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


def _frames_of_scope(stack: Stack) -> Stack:
    """Return the frames of the comprehensions that run, and of the function around them."""
    count = 1
    while count < len(stack) and stack[count - 1].frame.f_code.co_name in COMPREHENSIONS:
        count += 1
    return stack[:count]


def caller_of(stack: Stack) -> Stack:
    """Return the frames from the caller of a function's outward."""
    return stack[len(_frames_of_scope(stack)) :]


def frame_of(stack: Stack) -> FrameType:
    """Return the frame of the function in which a stack begins."""
    place: UserFrame = _frames_of_scope(stack)[-1]
    return place.frame


def _all_parameters(scope: Scope) -> list[str]:
    if isinstance(scope, (ast.ClassDef, ast.Module)):
        return []
    given = scope.args
    starred = [each.arg for each in (given.vararg, given.kwarg) if each is not None]
    return [*(each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)), *starred]


def find_function_called(step: SourceStep, call: ast.Call) -> tuple[Operand, Operand]:
    """Return the user's function that a call runs, and the object whose method it is; None where there is none."""
    called = look_up(step.context, call.func)
    owner: Operand = MISSING
    if called is MISSING and isinstance(call.func, ast.Name):
        called = step.context.program.compute(step.at(call.func, ()))
        called = _find_last_item(step, call.func) if called is MISSING else called
    if called is MISSING and isinstance(call.func, ast.Attribute):
        owner = step.context.program.compute(step.at(call.func.value, ()))
        made = call.func.value.func if isinstance(call.func.value, ast.Call) else None
        kind = look_up(step.context, made) if made is not None else MISSING
        if text_of(call.func.value) == "super()":
            owner = look_up(step.context, ast.Name("self", ast.Load()))
            called = _find_in_bases(step, owner, call.func.attr)
        elif owner is MISSING and text_of(call.func.value) == "self" and step.context.kind is not None:
            called = inspect.getattr_static(step.context.kind, call.func.attr, MISSING)
        elif owner is not MISSING and not inspect.ismodule(owner):
            kinds = owner if isinstance(owner, type) else type(owner)
            called = inspect.getattr_static(kinds, call.func.attr, MISSING)
        elif isinstance(kind, type):
            called = inspect.getattr_static(kind, call.func.attr, MISSING)
    if isinstance(called, type):
        return None, MISSING
    if is_module(called):
        return unwrap(type(called).forward), called
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


def _find_last_item(step: SourceStep, node: ast.Name) -> Operand:
    """Return the last item of what a loop goes through, for its variable in a function that has returned."""
    is_held = bool(step.context.stack) or isinstance(step.context.scope, ast.ClassDef)
    loops = [] if is_held else step.source.assignments_in(step.context.scope).get(node.id, [])
    loop = loops[-1] if len(loops) == 1 else None
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        return MISSING
    items = step.context.program.compute(step.at(loop.iter, ()))
    return items[-1] if type(items) in (list, tuple) and items else MISSING


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
