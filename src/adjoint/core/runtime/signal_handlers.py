"""Signal handlers that interrupt the library: they wait where it is half-way, or run in another way.

Python calls a handler between any two instructions of the main thread. Within a block of these functions others take
the place of the program's handlers; Ctrl-C stays what it is unless the program has a handler of its own for it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]
# What is called in place of a handler, with the handler.
Replacement = Callable[[Handler, int, FrameType | None], object]


class ReplacedHandler:
    """A handler in whose place `replacement` is called, until that is None."""

    __slots__ = ("handler", "replacement")

    def __init__(self, handler: Handler, replacement: Replacement) -> None:
        self.handler = handler
        self.replacement: Replacement | None = replacement

    def __call__(self, number: int, frame: FrameType | None) -> object:
        if self.replacement is None:
            return self.handler(number, frame)
        return self.replacement(self.handler, number, frame)


@contextmanager
def handlers_replaced(replacement: Replacement) -> Iterator[None]:
    """A block in which `replacement(handler, number, frame)` is called where a signal handler would be."""
    signal = sys.modules.get("signal")  # whoever has set a handler has imported it
    replaced: dict[int, ReplacedHandler] = {}
    try:
        if signal is not None and threading.get_ident() == threading.main_thread().ident:
            for number in range(1, signal.NSIG):
                handler = signal.getsignal(number)
                if callable(handler) and handler is not signal.default_int_handler:
                    replaced[number] = ReplacedHandler(handler, replacement)
                    signal.signal(number, replaced[number])
        yield
    finally:
        for held in replaced.values():
            held.replacement = None  # at once for all: a handler may raise between the next lines
        for number, held in replaced.items():
            if signal is not None and signal.getsignal(number) is held:
                signal.signal(number, held.handler)


@contextmanager
def handlers_deferred() -> Iterator[None]:
    """A block at whose end the handlers run of the signals that came within it."""
    waiting: set[int] = set()

    def wait(handler: Handler, number: int, frame: FrameType | None) -> None:
        waiting.add(number)

    try:
        with handlers_replaced(wait):
            yield
    finally:
        _raise_signals(waiting)


def _raise_signals(numbers: set[int]) -> None:
    """Raise signals for this thread, all of them though a handler may raise an error."""
    if numbers:
        try:
            sys.modules["signal"].raise_signal(numbers.pop())
        finally:
            _raise_signals(numbers)
