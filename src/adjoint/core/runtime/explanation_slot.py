"""The slot of what explains errors: a layer above finds the user's names and lines, and says what to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from adjoint.core.runtime.slot import Slot

Error = TypeVar("Error", bound=BaseException)
Function = TypeVar("Function", bound=Callable[..., Any])


def _leave_as_it_is(error: BaseException) -> None:
    """Explain nothing, while the package is still imported."""


explanation_slot: Slot[Callable[[BaseException], None]] = Slot("explanation", _leave_as_it_is)


def with_explanation(error: Error) -> Error:
    """Return the error, about to be raised, with a note on what the user's line works on."""
    explanation_slot.call(error)
    return error


def explain_errors(function: Function) -> Function:
    """Wrap a function that users call, so that its errors are explained."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            explanation_slot.call(error)
            raise

    return cast("Function", call)
