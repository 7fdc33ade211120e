"""`adjoint.futures`: results that one thread sets and others wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future as Promise
from concurrent.futures import InvalidStateError
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]
T = TypeVar("T")


class Future(Generic[T]):
    """Result that is set once, by `set_result` or `set_exception`. `devices` is accepted and ignored.

    Raises: RuntimeError for a second result, and for a `value` that is not there yet.
    """

    def __init__(self, *, devices: object = None) -> None:
        self._promise: Promise[T] = Promise()

    def done(self) -> bool:
        """Return whether there is a result or an error."""
        return self._promise.done()

    def wait(self) -> T:
        """Wait for the result and return it. Raises the error that was set instead."""
        return self._promise.result()

    def value(self) -> T:
        """Return the result. Raises RuntimeError if it is not there yet, and the error that was set instead."""
        if not self.done():
            raise RuntimeError("Future.value: the future is not completed: ask done() first, or wait()")
        return self._promise.result()

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """Return the future of callback(self), which runs once self is done: at once if it is done already."""
        after: Future[Any] = Future()

        def go_on(_: object) -> None:
            try:
                after.set_result(callback(self))
            except Exception as error:  # noqa: BLE001 (it is raised by those who wait)
                after.set_exception(error)

        self._promise.add_done_callback(go_on)
        return after

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Run callback(self) once self is done: at once if it is done already."""
        self._promise.add_done_callback(lambda _: callback(self))

    def set_result(self, result: T) -> None:
        """Set the result. Raises RuntimeError if there is one already, or an error."""
        try:
            self._promise.set_result(result)
        except InvalidStateError:
            raise RuntimeError("Future.set_result: the future is completed already") from None

    def set_exception(self, result: Exception) -> None:
        """Set an error. Raises AssertionError for anything but an exception, RuntimeError if the future is done."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        try:
            self._promise.set_exception(result)
        except InvalidStateError:
            raise RuntimeError("Future.set_exception: the future is completed already") from None


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return the future of all of them, which is done when the last of them is."""
    together: Future[list[Future[Any]]] = Future()
    left = list(futures)
    if not left:
        together.set_result([])

    def one_less(future: Future[Any]) -> None:
        left.remove(future)
        if not left:
            together.set_result(list(futures))

    for future in futures:
        future.add_done_callback(one_less)
    return together


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Return the results of all of them. Raises the first error among them."""
    return [future.wait() for future in collect_all(futures).wait()]
