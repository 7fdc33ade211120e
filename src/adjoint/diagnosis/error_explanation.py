"""Notes on errors: the user's line, its operands with the lines that made them, and what to do."""

from __future__ import annotations

from contextlib import suppress

from adjoint.core.graph.source_location import library_files
from adjoint.diagnosis.failure import Failure, inspect_failure
from adjoint.diagnosis.remedies import find_remedy

EXPLANATION = "_adjoint_explanation"  # the attribute of an error: the frame that it was explained for, and the note


def add_explanation(error: BaseException) -> None:
    """Add a note to an error of the library that is about to leave it: what the user's line worked on, and a remedy.

    Calls further out, which know more, replace the note of a call within the same line of the user's.
    """
    with suppress(Exception):  # nothing may hide the error itself
        failure = inspect_failure(error) if _is_ours(error) else None
        if failure is None:
            return
        frame, note = error.__dict__.get(EXPLANATION, (failure.frame, None))
        if frame is not failure.frame:
            return  # the error comes from a line further in, which is the one to blame
        with suppress(ValueError, AttributeError):
            error.__notes__.remove(note)
        note = describe_failure(failure)
        error.__dict__[EXPLANATION] = failure.frame, note
        if note:
            error.add_note(note)


def describe_failure(failure: Failure) -> str:
    """Return the lines of a note."""
    lines = [] if failure.line is None else [f"at {failure.line.describe()}"]
    lines += [f"  {each}" for each in failure.describe_operands()]
    remedy = find_remedy(failure)
    return "\n".join([*lines, *([f"try: {remedy}"] if remedy else [])])


def _is_ours(error: BaseException) -> bool:
    """Return whether the library raised the error, and not code that it called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or library_files[trace.tb_frame.f_code.co_filename]
