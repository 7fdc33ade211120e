"""The history of a line's operands: the statements that made them, those of the user's functions too."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType

from adjoint.diagnosis.causes.computing import open_program
from adjoint.diagnosis.causes.contexts import ITEM, SourceStep, find_step
from adjoint.diagnosis.causes.held_values import look_up
from adjoint.diagnosis.causes.results import enter_call, find_returned
from adjoint.diagnosis.causes.steps import find_former
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.source_expressions import SourceFile

MAX_STEPS_BACK = 30
NO_OPERANDS = (ModuleType, FunctionType, BuiltinFunctionType, type)


def walk_back(failure: Failure, describe: Callable[[Failure, SourceFile, ast.AST], str | None]) -> str | None:
    """Return what `describe` finds at the failing line, or at those that made its operands, nearest first."""
    program = open_program(failure)
    if not program.history:
        program.history = [*_find_history(find_step(program, failure.stack))]
    found = (describe(failure, source, node) for source, node in program.history)
    return next((each for each in found if each), None)


def _find_history(step: SourceStep | None) -> Iterator[tuple[SourceFile, ast.AST]]:
    """Yield the statements that made the operands of an expression, its own first."""
    pending, seen = [] if step is None else [step], set[ast.AST]()
    for _ in range(MAX_STEPS_BACK):
        if not pending:
            return
        step = pending.pop(0)
        statement = step.source.statement_of(step.node)
        is_again = bool(step.context.depth and statement in seen)  # an earlier call of the same function
        node: ast.AST = step.context.scope if is_again else statement
        if node in seen:
            continue
        seen.add(node)
        yield step.source, node
        for part in ast.walk(node):
            if isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Load):
                if not isinstance(look_up(step.context, part), NO_OPERANDS):
                    pending += [*find_former(step.at(part, ())), *find_former(step.at(part, (ITEM,)))]
            elif isinstance(part, ast.Call) and (context := enter_call(step.at(part, ()), part)) is not None:
                pending += find_returned(context, ())
