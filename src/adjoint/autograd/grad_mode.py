"""Grad modes: whether ops are recorded, for a block, a function, a generator, or from now on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Self, TypeVar

from adjoint.core.mode import Scope, mode, unusual

Function = TypeVar("Function", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """True if this thread records ops."""
    return mode.recording


class _GradMode:
    """A context, and a decorator of functions and of classes, whose making it covers.

    A decorated generator has the mode only while it runs, never while its caller does.
    """

    def __init__(self, recording: bool) -> None:
        self._scope = Scope(recording=recording)
        self._recording = recording

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._scope.__exit__(*error)

    def __call__(self, function: Function) -> Function:
        recording = self._recording
        if inspect.isclass(function):
            made: Any = function
            made.__init__ = self(made.__init__)
            return function
        if inspect.isgeneratorfunction(function):
            return _in_each_step(function, recording)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with Scope(recording=recording):
                return function(*args, **kwargs)

        decorated: Any = call
        return decorated


def _in_each_step(function: Any, recording: bool) -> Any:
    @wraps(function)
    def generate(*args: Any, **kwargs: Any) -> Any:
        steps = function(*args, **kwargs)
        resume: Callable[[], Any] = lambda: next(steps)  # noqa: E731  the way to resume changes from turn to turn
        try:
            while True:
                try:
                    with Scope(recording=recording):
                        item = resume()
                except StopIteration as stop:
                    return stop.value
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001  thrown in by the caller: the generator shall see it
                    resume = lambda error=error: steps.throw(error)  # type: ignore[misc] # noqa: E731
                else:
                    resume = lambda sent=sent: steps.send(sent)  # type: ignore[misc] # noqa: E731
        finally:
            with Scope(recording=recording):
                steps.close()

    return generate


class _Fixed(_GradMode):
    """A mode known by its class, which may stand above a function with or without brackets."""

    recording: bool

    def __init__(self, function: Any = None) -> None:
        super().__init__(self.recording)

    def __new__(cls, function: Any = None) -> Any:
        made = super().__new__(cls)
        if function is None:
            return made
        made.__init__()  # type: ignore[misc]
        return made(function)


class no_grad(_Fixed):
    """Ops are not recorded: `with no_grad():`, or above a function."""

    recording = False


class enable_grad(_Fixed):
    """Ops are recorded again, within `no_grad`: `with enable_grad():`, or above a function."""

    recording = True


class set_grad_enabled(_GradMode):
    """Switch recording on or off at once; as a context, until the end of the block."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self.before = is_grad_enabled()
        _set(mode)

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _set(self.before)

    def __call__(self, function: Function) -> Function:
        _set(self.before)  # a decorator changes nothing now
        return super().__call__(function)


def _set(recording: bool) -> None:
    """Change this thread's mode for good; a thread that does not record counts as unusual until it does again."""
    if mode.recording != recording:
        with unusual.lock:
            unusual.count += -1 if recording else 1
        mode.recording = recording
