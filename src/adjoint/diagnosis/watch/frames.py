"""Expressions and names of frames that run: what explains errors, for a program that goes on."""

from __future__ import annotations

import ast
from types import FrameType

from adjoint.diagnosis import operands, source_expressions
from adjoint.diagnosis.call_stack import Stack, UserFrame, find_stack
from adjoint.diagnosis.findings import Place, place_of_origin
from adjoint.diagnosis.operands import NamedValue
from adjoint.diagnosis.source_expressions import SourceFile


def stack_from(frame: FrameType) -> Stack:
    """Return the user's frames from `frame` outward."""
    stack = list(find_stack(None))
    start = next((i for i, each in enumerate(stack) if each.frame is frame), None)
    return [UserFrame(frame, frame.f_lasti, ()), *stack] if start is None else stack[start:]


def user_frames(frame: FrameType) -> list[FrameType]:
    """Return the user's frames from `frame` outward, bare."""
    return [each.frame for each in stack_from(frame)]


def find_expression(frame: FrameType) -> tuple[SourceFile, ast.AST] | None:
    """Return the expression or statement that the frame carries out, and its file."""
    return source_expressions.find_expression(UserFrame(frame, frame.f_lasti, ()))


def find_operands(frame: FrameType) -> list[NamedValue]:
    """Return the parts of the frame's expression that are tensors, modules or numbers."""
    return operands.find_operands(stack_from(frame))[1]


def find_origin_place(source: SourceFile, node: ast.expr, frame: FrameType) -> Place | None:
    """Return the line that gave a name or an attribute its value."""
    return place_of_origin(operands.find_origin(source, node, stack_from(frame)))
