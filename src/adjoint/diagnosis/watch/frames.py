"""Expressions and names of frames that run: what explains errors, for a program that goes on."""

from __future__ import annotations

import ast
import sys
from types import FrameType

from adjoint.core.graph.source_location import library_files
from adjoint.diagnosis import line_operands, operands, source_expressions
from adjoint.diagnosis.call_stack import Stack, UserFrame, find_stack
from adjoint.diagnosis.findings import Place, place_of_origin
from adjoint.diagnosis.operands import NamedValue, Origin
from adjoint.diagnosis.source_expressions import SourceFile

MAX_DEPTH = 24


def stack_from(frame: FrameType) -> Stack:
    """Return the user's frames from `frame` outward."""
    stack = list(find_stack(None))
    start = next((i for i, each in enumerate(stack) if each.frame is frame), None)
    return [UserFrame(frame, frame.f_lasti, ()), *stack] if start is None else stack[start:]


def user_frames(frame: FrameType) -> list[FrameType]:
    """Return the user's frames from `frame` outward, bare."""
    return [each.frame for each in stack_from(frame)]


def is_constructor(frame: FrameType, made: object) -> bool:
    """Return whether a frame is the `__init__` of an object, of a class that the program derived."""
    return frame.f_code.co_name == "__init__" and any(value is made for value in frame.f_locals.values())


def find_expression(frame: FrameType) -> tuple[SourceFile, ast.AST] | None:
    """Return the expression or statement that the frame carries out, and its file."""
    return source_expressions.find_expression(UserFrame(frame, frame.f_lasti, ()))


def find_operands(frame: FrameType) -> list[NamedValue]:
    """Return the parts of the frame's expression that are tensors, modules or numbers."""
    return line_operands.find_operands(stack_from(frame))[1]


def find_origin_place(source: SourceFile, node: ast.expr, frame: FrameType) -> Place | None:
    """Return the line that gave a name or an attribute its value."""
    return place_of_origin(operands.find_origin(source, node, stack_from(frame)))


def find_library_call(*names: str) -> FrameType | None:
    """Return the frame of a library's function of one of these names, within the user's innermost line."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(MAX_DEPTH):
        if frame is None or not library_files[frame.f_code.co_filename]:
            return None
        if frame.f_code.co_name in names:
            return frame
        frame = frame.f_back
    return None


def place_of_attribute(owner: object, key: str) -> Place | None:
    """Return the line that set an attribute in a class of the user's."""
    found = source_expressions.find_attribute_assignment(owner, key)
    return None if found is None else place_of_origin(Origin(*found))


def place_of_class_attribute(kind: type, key: str) -> Place | None:
    """Return the line in the body of a class that set an attribute."""
    function = vars(kind).get("__init__") or vars(kind).get("forward")
    code = getattr(function, "__code__", None)
    source = None if code is None else source_expressions.parse_source(code.co_filename)
    for node in ast.walk(source.tree) if source is not None else ():
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            for line in node.body:
                if isinstance(line, ast.Assign) and any(isinstance(t, ast.Name) and t.id == key for t in line.targets):
                    return place_of_origin(Origin(source, line)) if source is not None else None
    return None
