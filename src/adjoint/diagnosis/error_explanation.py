"""Notes on errors: the user's line, its operands with the lines that made them, and what to do."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from types import CodeType, TracebackType

from adjoint.core.graph.source_location import library_files
from adjoint.core.op.op_errors import describe_misplaced_value
from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.diagnosis.call_stack import UserFrame, find_stack, release_locals
from adjoint.diagnosis.causes import Cause, closing_program, find_cause
from adjoint.diagnosis.failure import Failure, inspect_failure
from adjoint.diagnosis.operands import is_module
from adjoint.diagnosis.remedies import find_remedy
from adjoint.diagnosis.repairs.trial import running

EXPLANATION = "_adjoint_explanation"  # the attribute of an error that holds the note
# A program that catches the errors of a line reads none of the notes, each of which takes some 10 ms.
MAX_EXPLAINED_ERRORS_OF_LINE, SECONDS_BETWEEN_FURTHER_ONES = 20, 1.0


def add_explanation(error: BaseException) -> None:
    """Add a note to an error of the library that is about to leave it: what the user's line worked on, and a remedy.

    Calls further out, which know more, replace the note of a call further in.
    """
    if running.active:
        return
    with suppress(Exception):  # nothing may hide the error itself
        stack = find_stack(error.__traceback__) if _is_ours(error) else []
        if stack and _admit_explanation(stack[0]):
            try:
                failure = inspect_failure(error, stack)
                with closing_program(failure):
                    _replace_note(error, describe_failure(failure, _find_remedy(failure)))
            finally:
                release_locals(stack)


@dataclass
class _ExplainedErrors:
    """The number of errors of a line that have been explained, and the time of the last."""

    count: int = 0
    last: float = 0.0


_explained: dict[tuple[CodeType, int], _ExplainedErrors] = {}  # by code and the instruction in it


def _admit_explanation(place: UserFrame) -> bool:
    """Count one more explained error of an instruction; return False if it has had enough of them for now."""
    explained = _explained.setdefault((place.frame.f_code, place.offset), _ExplainedErrors())
    now = monotonic()
    if explained.count >= MAX_EXPLAINED_ERRORS_OF_LINE and now - explained.last < SECONDS_BETWEEN_FURTHER_ONES:
        return False
    explained.count, explained.last = explained.count + 1, now
    return True


def add_uncaught_explanation(error: BaseException, trace: TracebackType | None) -> None:
    """Add a note to an error that nothing has caught, if none was added when it left the library.

    One that Python raised in the user's own line gets it where there is a remedy, a value of the library's, or a value
    whose line is known.
    """
    with suppress(Exception):
        stack = find_stack(trace)
        if stack and EXPLANATION not in error.__dict__:
            failure = inspect_failure(error, stack)
            called = stack[0].called[0] if stack[0].called else None
            is_in_library = called is not None and library_files[called.f_code.co_filename]
            is_known = any(_is_of_library(each.value) or each.origin is not None for each in failure.operands)
            with closing_program(failure):
                remedy = _find_remedy(failure)
                note = describe_failure(failure, remedy)
            if remedy or is_known or is_in_library or "\ncause: " in note:
                _replace_note(error, note)


def _find_remedy(failure: Failure) -> str | None:
    """Return the remedy of the error as it was raised, or as it names the argument that is no tensor."""
    found = find_remedy(failure)
    is_named = _name_misplaced_value(failure.error)
    return find_remedy(failure) if is_named and found is None else found


def _name_misplaced_value(error: BaseException) -> bool:
    """Let the message name the argument that is no tensor, where an attribute of tensors was looked for in it.

    It is that of the outermost function of the library; of a module, where no function has it.
    """
    trace, told = error.__traceback__, ""
    while trace is not None and isinstance(error, AttributeError):
        frame = trace.tb_frame
        code, given = frame.f_code, frame.f_locals
        names, name = code.co_varnames[: code.co_argcount], code.co_name
        function = frame.f_globals.get(name)
        is_method = name == "forward" and is_module(given.get("self"))
        if is_method:
            name, function, names = type(given["self"]).__name__, type(given["self"]).forward, names[1:]
        is_public = library_files[code.co_filename] and frame.f_globals["__name__"].split(".")[1] in ("functions", "nn")
        annotations = getattr(function, "__annotations__", {}) if is_public else {}
        for place, label in enumerate(names, 1):
            kinds = str(annotations.get(label)).split(" | ")
            is_tensor = "Tensor" in kinds and type(error.obj).__name__ not in kinds and not name.startswith("_")
            if is_tensor and given.get(label, error) is error.obj and (not told or not is_method):
                told = describe_misplaced_value(name, label, place, error.obj)
                error.args = (told,)
                if not is_method:
                    return True
        trace = trace.tb_next
    return bool(told)


def describe_failure(failure: Failure, remedy: str | None) -> str:
    """Return the lines of a note."""
    lines = [] if failure.line is None else [f"at {failure.line.describe()}"]
    lines += [f"  {each}" for each in failure.describe_operands()]
    advice = [f"try: {remedy}"] if remedy else []
    cause = _find_cause(failure)
    if cause is not None:
        told = "\n".join([*lines, *advice])
        places = re.findall(r"[^\s,;()]+:\d+", cause.text)
        is_told = not cause.tells_more and all(re.search(rf"{re.escape(each)}\b", told) for each in places)
        is_where_it_failed = failure.line is not None and failure.line.describe().startswith(f"{cause.place}:")
        is_in_remedy = re.search(rf"{re.escape(cause.place)}\b", remedy or "") is not None
        if not is_told or not (is_where_it_failed or is_in_remedy):
            lines.append(f"cause: {cause.text}")
    return "\n".join([*lines, *advice])


def _find_cause(failure: Failure) -> Cause | None:
    """Return the line to blame; None too where the search for it raises an error of its own."""
    try:
        return find_cause(failure)
    except Exception as error:  # noqa: BLE001  it hides neither the error nor the rest of the note
        report_failed_search(error)
        return None


def report_failed_search(error: Exception) -> None:
    """Take the error of a search for a cause, the library's own fault: the user is not told of it, tests are."""


def _replace_note(error: BaseException, note: str) -> None:
    if EXPLANATION in error.__dict__:
        error.__notes__.remove(error.__dict__[EXPLANATION])
    error.__dict__[EXPLANATION] = note
    error.add_note(note)


def _is_of_library(value: object) -> bool:
    return is_name_of_package(type(value).__module__)


def _is_ours(error: BaseException) -> bool:
    """Return whether the library raised the error, and not code that it called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or library_files[trace.tb_frame.f_code.co_filename]
