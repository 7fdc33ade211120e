"""The slot of what explains errors: a layer above finds the user's names and lines, and says what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import TypeVar, cast

from adjoint.core.runtime.slot import Slot

Error = TypeVar("Error", bound=BaseException)
Function = TypeVar("Function", bound=Callable[..., object])


def _leave_as_it_is(error: BaseException) -> None:
    """Explain nothing, while the package is still imported."""


explanation_slot: Slot[Callable[[BaseException], None]] = Slot("explanation", _leave_as_it_is)


uncaught_slot: Slot[Callable[[BaseException, TracebackType | None], None]] = Slot("uncaught", lambda error, trace: None)


def explain_uncaught_errors() -> None:
    """Let errors that end the program be explained before they are shown, as they were shown before.

    Those that Python itself raises in the user's line, of what the library gave, leave no call of the library.
    """
    show = sys.excepthook

    def explain_and_show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, Exception):
            uncaught_slot.call(error, trace)
        show(kind, error, trace)

    sys.excepthook = explain_and_show


def with_explanation(error: Error) -> Error:
    """Return the error, about to be raised, with a note on what the user's line works on.

    Where calls are too many for a wrapper, the place that raises calls this.
    """
    explanation_slot.call(error)
    return error


def explain_errors(function: Function) -> Function:
    """Wrap a function that users call, so that its errors are explained."""

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            explanation_slot.call(error)
            raise

    return cast("Function", call)
