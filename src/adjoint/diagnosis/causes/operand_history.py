"""The history of a line's operands: the statements that made them, those of the user's functions too."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable

from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, Origin, evaluate, find_origin, is_module
from adjoint.diagnosis.source_expressions import SourceFile, parse_source

MAX_STEPS_BACK = 12


def walk_back(failure: Failure, describe: Callable[[Failure, SourceFile, ast.AST], str | None]) -> str | None:
    """Return what `describe` finds at the failing line, or at those that made its operands, nearest first."""
    if failure.line is None:
        return None
    pending: list[Origin] = [failure.line]
    seen: set[ast.AST] = set()
    for _ in range(MAX_STEPS_BACK):
        if not pending:
            return None
        origin = pending.pop(0)
        if origin.node in seen:
            continue
        seen.add(origin.node)
        found = describe(failure, origin.source, origin.node)
        if found:
            return found
        for node in ast.walk(origin.value or origin.node):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                further = find_origin(origin.source, node, failure.stack)
                if further is not None and not isinstance(further.node, ast.For):
                    pending.append(further)
            if isinstance(node, ast.Call):
                pending.extend(_find_function(node, origin.source, failure))
    return None


def _find_function(call: ast.Call, source: SourceFile, failure: Failure) -> list[Origin]:
    """Return the definition of the user's function, or of the forward of the module, that is called."""
    found = (evaluate(call.func, place.frame) for place in failure.stack)
    called: Operand = next((each for each in found if each is not MISSING), MISSING)
    made = evaluate(call.func.func, failure.frame) if isinstance(call.func, ast.Call) else None
    if called is MISSING and isinstance(call.func, ast.Attribute):
        owners = (evaluate(call.func.value, place.frame) for place in failure.stack)
        owner = next((each for each in owners if each is not MISSING), None)
        called = inspect.getattr_static(type(owner), call.func.attr, MISSING)
    if isinstance(made, type):  # of Net()(x)
        code = getattr(getattr(made, "forward", None), "__code__", None)
    elif is_module(called):
        code = getattr(type(called).forward, "__code__", None)
    else:
        code = getattr(inspect.unwrap(called), "__code__", None) if inspect.isfunction(called) else None
    if code is None or not user_files[code.co_filename]:
        return []
    home = parse_source(code.co_filename) or source
    return [
        Origin(home, node)
        for node in home.nodes_of(ast.FunctionDef)
        if code.co_firstlineno in (node.lineno, *(decorator.lineno for decorator in node.decorator_list))
    ]
