"""A fork while other threads are at work: the new process has their locks, and nobody there lets go of them.

What another thread does under a lock of `awaited` is done before the process forks; so is an import of this library's
modules, which hold a lock of Python's each. A lock of `renewed` only keeps threads apart: the new process has it open.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from importlib import _bootstrap
from types import FrameType
from typing import Any
from weakref import WeakSet

from adjoint.core.graph.source_location import inside

PATIENCE = 10.0  # seconds: a thread may import, compile or draw for ever
A_WHILE = 0.01  # seconds: two threads may each wait for what the other holds
OURS = __name__.partition(".")[0]

_awaited: WeakSet[Any] = WeakSet()
_renewed: WeakSet[Any] = WeakSet()
_held: dict[int, list[Any]] = {}  # by the thread that forks


def awaited(lock: Any) -> Any:
    """This lock, which a thread that forks holds meanwhile."""
    _awaited.add(lock)
    return lock


def renewed(lock: Any) -> Any:
    """This lock, which is open in a new process."""
    _renewed.add(lock)
    return lock


def _hold() -> None:
    end = time.monotonic() + PATIENCE
    locks = list(_awaited)
    while True:
        held = _held[threading.get_ident()] = [lock for lock in locks if lock.acquire(timeout=A_WHILE)]
        if (len(held) == len(locks) and not _importing()) or time.monotonic() > end:
            return
        _let_go()
        time.sleep(A_WHILE / 10)


def _let_go() -> None:
    for lock in _held.pop(threading.get_ident()):
        lock.release()


def _begin_anew() -> None:
    held = _held.pop(threading.get_ident())
    _held.clear()
    for lock in held:
        lock.release()
    for lock in (*_renewed, *(lock for lock in _awaited if lock not in held)):
        lock._at_fork_reinit()
    _forget_imports()


def _forget_imports() -> None:
    """Let modules be imported that another thread had begun with as the process forked, after `_importing`."""
    locks = getattr(_bootstrap, "_module_locks", {})
    for name, held in list(locks.items()):
        if getattr(held(), "owner", None) not in (None, threading.get_ident()):
            del locks[name]
            if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
                del sys.modules[name]


def _importing() -> bool:
    """True if another thread is at an import of ours: of one of our modules, or by one."""
    me = threading.get_ident()
    return any(_imports(frame) for thread, frame in sys._current_frames().items() if thread != me)


def _imports(frame: FrameType | None) -> bool:
    importing = False
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib"):
            importing = True
            if code.co_name == "_find_and_load" and str(frame.f_locals.get("name")).partition(".")[0] == OURS:
                return True
        elif importing:
            if inside[code.co_filename]:
                return True
            importing = False
        frame = frame.f_back
    return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_begin_anew)
