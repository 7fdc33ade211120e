"""Parts of a trace that run nothing of the user's: the witness is not told of their calls, as that takes its time."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TypeVar, cast

Called = TypeVar("Called", bound=Callable[..., object])

# Later versions write all code anew whenever `settrace` changes: there it takes longer than it saves.
SETTRACE_IS_CHEAP = sys.version_info < (3, 12)


def without_frame_tracing(function: Called) -> Called:
    """`function`, not followed by this thread's trace function; nor is what it calls."""
    if not SETTRACE_IS_CHEAP:
        return function

    @functools.wraps(function)
    def call(*args: object) -> object:
        watching = sys.gettrace()
        if watching is None:
            return function(*args)
        sys.settrace(None)
        try:
            return function(*args)
        finally:
            sys.settrace(watching)

    return cast("Called", call)
