"""Turns: a compiled function runs one call at a time, and a step is traced while no other call runs.

From its first check to its last effect a call is alone with what the calls of a function share: the arena, the tables
of pointers, the memory of gradients, the state. While a step is traced its tensors hold symbols, and what it wrote is
undone at the end: until then the calls of all compiled functions wait. So no two threads follow frames at once, which
Python before 3.13 does not survive.

A signal handler runs between two lines of the thread that it interrupts, and must not wait for that: it finds the turn
taken, and its call runs eagerly.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, cast
from weakref import WeakValueDictionary

from adjoint.core.runtime.fork_safety import reset_after_fork
from adjoint.core.typing import Operand

# What a program gives in place of results when an op of it fails, before it writes.
COMPUTATION_FAILED: object = type("Failure", (), {"__repr__": lambda self: "<an op failed>"})()


class Unfinished(NamedTuple):
    """A call that did not go a way to its end, or failed before it wrote anything: what had taken place until then."""

    log: list[Operand]  # of outcomes
    error: BaseException | None = None


class OwnedLock(Protocol):
    """A lock that knows its owner, who may acquire it again: `threading.RLock`."""

    def acquire(self, blocking: bool = True) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> object: ...
    def __exit__(self, *error: object) -> None: ...
    def _is_owned(self) -> bool: ...
    def _at_fork_reinit(self) -> None: ...


class CallTurn:
    """The turn of the calls of one compiled function. `is_running` and `is_dispatching` belong to who has `lock`."""

    __slots__ = ("__weakref__", "is_dispatching", "is_running", "lock")

    def __init__(self) -> None:
        self.lock = cast("OwnedLock", threading.RLock())
        self.is_running = self.is_dispatching = False
        _turns[id(self)] = reset_after_fork(self)

    def is_taken(self) -> bool:
        """Return whether this thread, which has the lock, was interrupted in a call."""
        return self.is_running or self.is_dispatching

    def complete_acquire(self) -> None:
        """Acquire the lock if an exception kept this thread from it: in a `try` whose `finally` releases it."""
        if not self.lock._is_owned():
            self.lock.acquire()

    def _at_fork_reinit(self) -> None:
        if not self.lock._is_owned():  # a thread that the new process lacks may have it
            self.lock._at_fork_reinit()
            self.is_running = self.is_dispatching = False


_turns: WeakValueDictionary[int, CallTurn] = WeakValueDictionary()
_trace_lock = cast("OwnedLock", reset_after_fork(threading.RLock()))


@contextmanager
def tracing_alone() -> Iterator[bool]:
    """Wait until no other thread calls a compiled function, and let none begin within the block.

    False where this thread is in such a call itself, or traces already, and would have to wait for others: they may
    wait for it.
    """
    turns = [turn.lock for held in _turns.valuerefs() if (turn := held()) is not None]
    locks = [lock for lock in (_trace_lock, *turns) if not lock._is_owned()]
    try:
        yield not _trace_lock._is_owned() and _acquire_all(locks, wait=len(locks) > len(turns))
    finally:
        _release_owned(locks)


def _acquire_all(locks: list[OwnedLock], wait: bool) -> bool:
    """Acquire locks of which other threads may hold some, and want others."""
    while (held := next((lock for lock in locks if not lock.acquire(blocking=False)), None)) is not None:
        _release_owned(locks)
        if not wait:
            return False
        with held:
            pass
    return True


def _release_owned(locks: list[OwnedLock]) -> None:
    """Release those that this thread has: Ctrl-C may have come between any two lines."""
    for lock in locks:
        while lock._is_owned():
            lock.release()
