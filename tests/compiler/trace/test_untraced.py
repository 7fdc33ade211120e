"""Calls that the thread's trace function is not told of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from adjoint.compiler.trace.untraced import SETTRACE_IS_CHEAP, without_frame_tracing

pytestmark = pytest.mark.skipif(not SETTRACE_IS_CHEAP, reason="this version of Python is told of all calls")


@pytest.fixture
def seen() -> Iterator[list[str]]:
    names: list[str] = []

    def trace(frame: Any, event: str, arg: Any) -> None:
        names.append(frame.f_code.co_name)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield names
    finally:
        sys.settrace(before)


def inner() -> int:
    return 1


@without_frame_tracing
def outer(then: Callable[[], Any]) -> Any:
    """As it is called."""
    assert sys.gettrace() is None
    return then()


def test_what_it_calls_is_not_seen_and_what_follows_is(seen: list[str]) -> None:
    watching = sys.gettrace()
    assert outer(inner) == 1
    assert "inner" not in seen
    assert sys.gettrace() is watching
    inner()
    assert seen[-1] == "inner"


def test_after_an_error_the_thread_is_watched_again(seen: list[str]) -> None:
    watching = sys.gettrace()
    with pytest.raises(ZeroDivisionError):
        outer(lambda: 1 // 0)
    assert sys.gettrace() is watching


def test_one_within_another(seen: list[str]) -> None:
    watching = sys.gettrace()
    assert outer(lambda: (outer(inner), sys.gettrace())) == (1, None)
    assert sys.gettrace() is watching


def test_it_keeps_its_name() -> None:
    assert (outer.__name__, outer.__doc__) == ("outer", "As it is called.")
