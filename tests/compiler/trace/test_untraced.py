"""Calls that the observer does not follow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from adjoint.compiler.trace.untraced import SETTRACE_IS_CHEAP, without_frame_tracing


class Observer:
    """Notes the names of the functions whose frames it follows."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.is_following = True

    def trace(self, frame: Any, event: str, arg: Any) -> None:
        if self.is_following:
            self.names.append(frame.f_code.co_name)


@pytest.fixture
def seen() -> Iterator[list[str]]:
    observer = Observer()
    before = sys.gettrace()
    sys.settrace(observer.trace)
    try:
        yield observer.names
    finally:
        sys.settrace(before)


def inner() -> int:
    return 1


@without_frame_tracing
def outer(then: Callable[[], Any]) -> Any:
    """As it is called."""
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
    inner()
    assert seen[-1] == "inner"


def test_one_within_another(seen: list[str]) -> None:
    watching = sys.gettrace()
    assert outer(lambda: (outer(inner), inner())) == (1, 1)
    assert "inner" not in seen
    assert sys.gettrace() is watching


@pytest.mark.skipif(not SETTRACE_IS_CHEAP, reason="later Pythons have the observer look away instead")
def test_the_thread_has_no_trace_function_within(seen: list[str]) -> None:
    assert outer(sys.gettrace) is None


def test_it_keeps_its_name() -> None:
    assert (outer.__name__, outer.__doc__) == ("outer", "As it is called.")
