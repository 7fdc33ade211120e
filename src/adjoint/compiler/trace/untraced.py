"""Parts of a trace that run nothing of the user's to be observed: the observer does not follow their calls."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TypeVar, cast

Called = TypeVar("Called", bound=Callable[..., object])

# Later versions write all code anew whenever `settrace` changes: there it takes longer than to let the observer look
# away.
SETTRACE_IS_CHEAP = sys.version_info < (3, 12)


def without_frame_tracing(function: Called) -> Called:
    """`function`, not followed by the observer of this thread; nor is what it calls."""

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

    @functools.wraps(function)
    def call_unobserved(*args: object) -> object:
        observer = getattr(sys.gettrace(), "__self__", None)
        if observer is None or not getattr(observer, "is_following", False):
            return function(*args)
        observer.is_following = False
        try:
            return function(*args)
        finally:
            observer.is_following = True

    return cast("Called", call if SETTRACE_IS_CHEAP else call_unobserved)
