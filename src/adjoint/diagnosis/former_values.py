"""The statement that gave a name its value, where several give it one: turns of loops, and kinds of values."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import TypeAlias, cast

from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.source_expressions import SCOPES, Scope, SourceFile, find_value_of, text_of

Lookup: TypeAlias = Callable[[ast.expr], Operand]  # gives the value of an expression; None where no frame holds one


def find_former_turn(source: SourceFile, node: ast.Name, look: Lookup) -> ast.stmt | None:
    """Return the statement, such as `x = block(x)`, by which a former turn of a loop gave a name its value."""
    found = find_turn_before(source, source.scope_of(node), node, lambda loop: _is_later_turn(loop, look))
    return None if found is None else found[1]


def find_turn_before(
    source: SourceFile, scope: Scope, node: ast.Name, is_later: Callable[[ast.For], bool]
) -> tuple[ast.For, ast.stmt] | None:
    """Return the loop whose former turn gave a name its value, by a statement at or after the name, and that."""
    statements = source.assignments_in(scope).get(node.id, [])
    own, child = source.statement_of(node), cast("ast.AST", node)
    loop: ast.AST | None = source.parents.get(node) if statements else None
    while loop is not None and loop is not scope and not isinstance(loop, SCOPES):
        if isinstance(loop, ast.For) and child is not loop.iter:
            first, last = loop.lineno, loop.end_lineno or loop.lineno
            inside = [each for each in statements if first < each.lineno <= last]
            is_given = any(each is not own and each.lineno <= getattr(own, "lineno", 0) for each in inside)
            if is_given or loop in statements:
                return None
            if inside and is_later(loop):
                return loop, inside[-1]
        child, loop = loop, source.parents.get(loop)
    return None


def is_in_first_turn(source: SourceFile, node: ast.AST, later: ast.stmt | None, look: Lookup) -> bool:
    """Return whether a loop over numbers from 0 around a name has not come to the statement that changes it yet."""
    loop: ast.AST | None = source.parents.get(node)
    while loop is not None and not isinstance(loop, (ast.For, ast.FunctionDef, ast.Lambda, ast.ClassDef)):
        loop = source.parents.get(loop)
    if not isinstance(loop, ast.For) or later is None or later.lineno <= getattr(node, "lineno", 0):
        return False
    is_counted = isinstance(loop.iter, ast.Call) and text_of(loop.iter.func) == "range" and len(loop.iter.args) == 1
    return is_counted and look(loop.target) == 0


def _is_later_turn(loop: ast.For, look: Lookup) -> bool:
    """Return whether a loop over parts, or over numbers from 0, has come beyond its first turn."""
    first, held, number = loop.target, loop.iter, loop.target
    if isinstance(held, ast.Call) and text_of(held.func) == "enumerate" and isinstance(first, ast.Tuple) and held.args:
        number, first, held = first.elts[0], first.elts[-1], held.args[0]
    is_counted = isinstance(loop.iter, ast.Call) and text_of(loop.iter.func) in ("range", "enumerate")
    if is_counted and isinstance(place := look(number), int):
        start = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and loop.iter.args else loop.iter
        begin = look(start) if len(getattr(loop.iter, "args", ())) > 1 else 0
        return isinstance(begin, int) and place > begin
    parts, part = look(held), look(first)
    parts = list(getattr(parts, "__dict__", {}).get("_modules", {}).values()) or parts
    return type(parts) in (list, tuple) and len(parts) > 1 and part is not None and part is not parts[0]


def leave_other_kinds(
    source: SourceFile, scope: Scope, node: ast.Name, assignment: ast.stmt | None, look: Lookup
) -> ast.stmt | None:
    """Return the statement; or another of its name, where it makes an object of another class than the name has."""
    value = look(node)
    if assignment is None or value is None or not makes_other(assignment, node.id, value, look):
        return assignment
    every = source.assignments_in(scope).get(node.id, [])
    return next((each for each in every[::-1] if not makes_other(each, node.id, value, look)), assignment)


def makes_other(statement: ast.stmt, name: str, value: Operand, look: Lookup) -> bool:
    """Return whether a statement `name = Class(…)` makes an object of another class than the value's."""
    made = find_value_of(statement, name) or getattr(statement, "value", None)
    is_whole = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    kind = look(made.func) if isinstance(made, ast.Call) and is_whole else None
    return isinstance(kind, type) and makes_only(kind) and not isinstance(value, kind)


def makes_only(kind: type) -> bool:
    """Return whether calls of something make objects of that class alone: one of the user's, or of modules."""
    if "__new__" in vars(kind):
        return False
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or "<frozen>"
    return (hasattr(kind, "forward") and hasattr(kind, "register_buffer")) or user_files[file]
