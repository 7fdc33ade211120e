"""Notes on errors: the user's line, its operands with the lines that made them, and what to do."""

from __future__ import annotations

from contextlib import suppress
from types import FrameType, TracebackType

from adjoint.core.graph.source_location import library_files
from adjoint.diagnosis.call_stack import Stack, find_ended_stack, find_running_stack
from adjoint.diagnosis.failure import Failure, inspect_failure
from adjoint.diagnosis.remedies import find_remedy

EXPLANATION = "_adjoint_explanation"  # the attribute of an error: the frame that it was explained for, and the note


def add_explanation(error: BaseException) -> None:
    """Add a note to an error of the library that is about to leave it: what the user's line worked on, and a remedy.

    Calls further out, which know more, replace the note of a call within the same line of the user's.
    """
    with suppress(Exception):  # nothing may hide the error itself
        stack = find_running_stack() if _is_ours(error) else []
        if not stack or _explained_frame(error) not in (None, stack[0].frame):
            return  # the error comes from a line further in, which is the one to blame
        failure = inspect_failure(error, stack)
        _replace_note(error, stack, describe_failure(failure, find_remedy(failure)))


def add_uncaught_explanation(error: BaseException, trace: TracebackType | None) -> None:
    """Add a note to an error that nothing has caught, if none was added when it left the library.

    One that Python raised in the user's own line gets it only where there is a remedy.
    """
    with suppress(Exception):
        stack = find_ended_stack(trace)
        if stack and _explained_frame(error) is None:
            failure = inspect_failure(error, stack)
            remedy = find_remedy(failure)
            if remedy or (stack[0].called and library_files[stack[0].called[0].f_code.co_filename]):
                _replace_note(error, stack, describe_failure(failure, remedy))


def describe_failure(failure: Failure, remedy: str | None) -> str:
    """Return the lines of a note."""
    lines = [] if failure.line is None else [f"at {failure.line.describe()}"]
    lines += [f"  {each}" for each in failure.describe_operands()]
    return "\n".join([*lines, *([f"try: {remedy}"] if remedy else [])])


def _explained_frame(error: BaseException) -> FrameType | None:
    return error.__dict__.get(EXPLANATION, (None, ""))[0]


def _replace_note(error: BaseException, stack: Stack, note: str) -> None:
    if EXPLANATION in error.__dict__:
        error.__notes__.remove(error.__dict__[EXPLANATION][1])
    error.__dict__[EXPLANATION] = stack[0].frame, note
    error.add_note(note)


def _is_ours(error: BaseException) -> bool:
    """Return whether the library raised the error, and not code that it called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or library_files[trace.tb_frame.f_code.co_filename]
