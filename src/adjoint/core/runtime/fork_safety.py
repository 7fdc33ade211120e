"""Locks across a fork: the new process has the locks of other threads, which nobody there releases.

The process forks only after other threads have released the locks of `hold_across_fork` and finished their imports of
the library's modules, for which Python has locks. A lock of `reset_after_fork` is open in the new process.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib import _bootstrap
from types import FrameType
from typing import Any, TypeVar
from weakref import WeakSet

from adjoint.core.graph.source_location import library_files

FORK_WAIT_SECONDS = 10.0  # seconds: a thread may import, compile or draw for ever
LOCK_WAIT_SECONDS = 0.01  # seconds: two threads may each wait for what the other holds
PACKAGE_NAME = __name__.partition(".")[0]

Lock = TypeVar("Lock")
T = TypeVar("T")
_locks_to_hold: WeakSet[Any] = WeakSet()
_locks_to_reset: WeakSet[Any] = WeakSet()
_acquired_locks: dict[int, list[Any]] = {}  # by the thread that forks


def hold_across_fork(lock: Lock) -> Lock:
    """Register a lock that a forking thread acquires for the time of the fork; return it."""
    _locks_to_hold.add(lock)
    return lock


def reset_after_fork(lock: Lock) -> Lock:
    """Register a lock that is open in a new process; return it."""
    _locks_to_reset.add(lock)
    return lock


class CachedProperty(functools.cached_property[T]):
    """A `functools.cached_property` whose lock, which Python 3.11 has for all instances, is open in a new process."""

    def __init__(self, function: Callable[..., T]) -> None:
        super().__init__(function)
        if hasattr(self, "lock"):
            reset_after_fork(self.lock)


def _acquire_locks() -> None:
    end = time.monotonic() + FORK_WAIT_SECONDS
    locks = list(_locks_to_hold)
    while True:
        held = _acquired_locks[threading.get_ident()] = [
            lock for lock in locks if lock.acquire(timeout=LOCK_WAIT_SECONDS)
        ]
        if (len(held) == len(locks) and not _is_importing()) or time.monotonic() > end:
            return
        _release_locks()
        time.sleep(LOCK_WAIT_SECONDS / 10)


def _release_locks() -> None:
    for lock in _acquired_locks.pop(threading.get_ident()):
        lock.release()


def _reset_child() -> None:
    held = _acquired_locks.pop(threading.get_ident())
    _acquired_locks.clear()
    for lock in held:
        lock.release()
    for lock in (*_locks_to_reset, *(lock for lock in _locks_to_hold if lock not in held)):
        lock._at_fork_reinit()
    _forget_imports()


def _forget_imports() -> None:
    """Allow imports of modules that another thread was importing when the process forked."""
    locks = getattr(_bootstrap, "_module_locks", {})
    for name, held in list(locks.items()):
        if getattr(held(), "owner", None) not in (None, threading.get_ident()):
            del locks[name]
            if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
                del sys.modules[name]


def _is_importing() -> bool:
    """Return whether another thread is importing one of our modules, or is in an import made by one."""
    me = threading.get_ident()
    return any(_is_frame_importing(frame) for thread, frame in sys._current_frames().items() if thread != me)


def _is_frame_importing(frame: FrameType | None) -> bool:
    importing = False
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib"):
            importing = True
            if code.co_name == "_find_and_load" and str(frame.f_locals.get("name")).partition(".")[0] == PACKAGE_NAME:
                return True
        elif importing:
            if library_files[code.co_filename]:
                return True
            importing = False
        frame = frame.f_back
    return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_acquire_locks, after_in_parent=_release_locks, after_in_child=_reset_child)
