"""Contexts of expressions: a frame that runs, or a function that has returned, with the call that ran it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import resolve_name
from pathlib import PurePath
from types import CellType, CodeType, EllipsisType, FrameType, ModuleType
from typing import TypeAlias

from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import Stack, UserFrame, user_files
from adjoint.diagnosis.operands import COMPREHENSIONS, MISSING, read_attribute
from adjoint.diagnosis.source_expressions import (
    Scope,
    SourceFile,
    find_assignment,
    find_expression,
    find_function,
    parameter_names,
    parse_source,
    text_of,
)

MAX_FILES = 8  # that are searched
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
    values: dict[tuple[object, ...], Operand] = field(default_factory=dict)  # that were computed again
    history: list[tuple[SourceFile, ast.AST]] = field(default_factory=list)  # of the operands of the line
    is_spent: bool = False  # too many were: some values are missing that could be known

    def close(self) -> None:
        """Forget what was found, which keeps frames alive."""
        self.constructions.clear()
        self.values.clear()
        self.history.clear()

    @cached_property
    def modules(self) -> dict[str, dict[str, Operand]]:
        """The names of the user's modules, by their files; those of the frames first, innermost first."""
        found = {each.frame.f_code.co_filename: each.frame.f_globals for each in self.stack}
        for module in list(sys.modules.values()):
            file = vars(module).get("__file__") if type(module) is ModuleType else None  # a lazy one would load all
            if isinstance(file, str) and user_files[file]:
                found.setdefault(file, vars(module))
        return found

    @cached_property
    def sources(self) -> list[SourceFile]:
        """The files of the frames, innermost first, and those that they import."""
        running = dict.fromkeys(each.frame.f_code.co_filename for each in self.stack)
        found = [source for name in running if (source := parse_source(name)) is not None]
        imported = dict.fromkeys(name for each in found for name in self.find_imported_files(each))
        others = [name for name in imported if name not in running][: MAX_FILES - len(found)]
        return found + [source for name in others if (source := parse_source(name)) is not None]

    def find_imported_files(self, source: SourceFile) -> list[str]:
        """Return the user's files that a file imports."""
        named = [each.module or "" for each in source.nodes_of(ast.ImportFrom)]
        named += [alias.name for each in source.nodes_of(ast.Import) for alias in each.names]
        names = {each.rpartition(".")[2] for each in named}
        return [file for file in self.modules if file != source.name and PurePath(file).stem in names]

    def find_import(self, context: CodeContext, name: str) -> tuple[Operand, str]:
        """Return the module from which a file imports a name, and the name there; None where it imports none."""
        package = str(context.names.get("__package__") or context.names.get("__name__") or "")
        for statement in context.source.nodes_of(ast.ImportFrom):
            for alias in statement.names:
                if name == (alias.asname or alias.name) and (package or not statement.level):
                    whole = resolve_name("." * statement.level + (statement.module or ""), package)
                    return sys.modules.get(whole), alias.name
        return None, name

    def enter_module(self, module: Operand) -> CodeContext | None:
        """Return the context of the statements of a user's module."""
        file = vars(module).get("__file__") if type(module) is ModuleType else None  # a lazy one would load all
        source = parse_source(file) if isinstance(file, str) and user_files[file] else None
        return None if source is None else self.find_context(source, source.tree)

    @cached_property
    def owners(self) -> dict[str, list[Operand]]:
        """The objects whose methods run, and those that they or the frames hold, by the names of their classes."""
        found: dict[int, Operand] = {}
        for place in self.stack:
            for held in list(place.frame.f_locals.values()):
                inner = vars(held).values() if _has_attributes(held) else ()
                found |= {id(each): each for each in (held, *inner) if _has_attributes(each)}
        named: dict[str, list[Operand]] = {}
        for each in found.values():
            named.setdefault(type(each).__name__, []).append(each)
        return named

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

    def find_context(self, source: SourceFile, scope: Scope) -> CodeContext:
        """Return the context of a scope: its frame that runs; else with the only object of its class as the owner."""
        kind = source.parents.get(scope)
        owners = self.owners.get(kind.name, []) if isinstance(kind, ast.ClassDef) else []
        owner = owners[0] if len(owners) == 1 else MISSING
        return self.find_running(source, scope) or CodeContext(source, scope, self, owner=owner)

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
        scope = None if source is None else _find_scope(source, code)
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
    samples: SourceStep | None = None  # of a function that collates: the data set
    turn: tuple[ast.For, int] | None = None  # a loop, and how many of its turns before the last that is meant

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
    def stored_names(self) -> dict[str, Operand]:
        """The names of a method that has returned whose only value an attribute of the object still holds."""
        found: dict[str, Operand] = {}
        kind = getattr(self.source.parents.get(self.scope), "name", "")
        assigned = self.source.assignments_in(self.scope)
        for statement in getattr(self.scope, "body", ()) if self.owner is not MISSING else ():
            if not isinstance(statement, ast.Assign):
                continue
            for target, name in pair_targets(statement):
                is_own = isinstance(target, ast.Attribute) and text_of(target.value) == "self"
                if not is_own or not isinstance(target, ast.Attribute) or not isinstance(name, ast.Name):
                    continue
                given = len(assigned.get(name.id, ())) + (name.id in parameter_names(self.scope))
                if given == 1 and len(self.source.attribute_assignments.get((kind, target.attr), ())) == 1:
                    value = read_attribute(self.owner, target.attr)
                    found |= {} if value is MISSING else {name.id: value}
        return found

    @cached_property
    def current(self) -> ast.AST | None:
        """The expression that the frame of the scope carries out."""
        place = frames_of_scope(self.stack)[-1]
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
        return self.program.modules.get(self.source.name, {})


@dataclass(frozen=True, eq=False)
class SourceStep:
    """An expression that gave a value, and which item of it is meant: the outermost key is the last."""

    context: CodeContext
    node: ast.expr
    keys: tuple[Key, ...] = field(default=())
    is_default: bool = False  # of a parameter that the call leaves out
    before: int | None = None  # of the call of a Sequential, so many parts of it

    @property
    def source(self) -> SourceFile:
        """The file of the expression."""
        return self.context.source

    @property
    def mark(self) -> tuple[ast.expr, int, int, int | None]:
        """The key of a step among others of a way back: the expression, and the calls and turns in which it is."""
        turn = self.context.turn
        return self.node, self.context.depth, 0 if turn is None else turn[1], self.before

    def at(self, node: ast.expr, keys: tuple[Key, ...] | None = None) -> SourceStep:
        """Return the step to another expression of the same scope."""
        return replace(self, node=node, keys=self.keys if keys is None else keys, is_default=False, before=None)

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
        is_entry = isinstance(around, ast.Dict) or isinstance(self.node, ast.Constant)
        if is_def or (is_entry and getattr(statement, "lineno", 0) != self.node.lineno):
            lines, number = self.source.lines, self.node.lineno - 1
            text = lines[number].decode().partition("  #")[0] if number < len(lines) else ""
            return f"{self.place()}: {text.strip().rstrip(',')}"
        return f"{self.place()}: {self.source.text_of(self.node)}"


def _has_attributes(value: Operand) -> bool:
    """Return whether a value is an object with attributes of its own, other than a module, which may be a lazy one."""
    is_plain = isinstance(value, (ModuleType, type)) or type(value).__module__ == "builtins"
    return not is_plain and hasattr(value, "__dict__")


def pair_targets(statement: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """Return the targets of an assignment, each with the expression that it gets."""
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [*zip(target.elts, value.elts, strict=True)]
    return [(each, value) for each in statement.targets]


def _find_scope(source: SourceFile, code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """Return the definition of a function, or the lambda expression, of which a code object is."""
    if code.co_name != "<lambda>":
        return find_function(source, code.co_firstlineno)
    places = {(line, column) for line, _, column, _ in code.co_positions() if line is not None}
    for each in source.nodes_of(ast.Lambda):
        if any((part.lineno, part.col_offset) in places for part in ast.walk(each.body) if isinstance(part, ast.expr)):
            return each
    return None


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
    node = source.statement_of(node) if isinstance(getattr(node, "ctx", None), ast.Store) else node  # an unpacking
    expression = node if isinstance(node, ast.expr) else getattr(node, "value", getattr(node, "iter", None))
    return SourceStep(context, expression) if isinstance(expression, ast.expr) else None


def frames_of_scope(stack: Stack) -> Stack:
    """Return the frames of the comprehensions that run, and of the function around them."""
    count = 1
    while count < len(stack) and stack[count - 1].frame.f_code.co_name in COMPREHENSIONS:
        count += 1
    return stack[:count]


def caller_of(stack: Stack) -> Stack:
    """Return the frames from the caller of a function's outward."""
    return stack[len(frames_of_scope(stack)) :]


def frame_of(stack: Stack) -> FrameType:
    """Return the frame of the function in which a stack begins."""
    place: UserFrame = frames_of_scope(stack)[-1]
    return place.frame
