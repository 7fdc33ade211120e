"""A copy of this process, in which something is tried of which nothing is to remain: a fork that sends an answer."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable

from adjoint.core.typing import Operand

MAX_WAIT_SECONDS = 120.0
NO_FORK = "this system cannot copy a process (os.fork)"


class ProcessCopyError(RuntimeError):
    """A function that could not be called in a copy of the process; the message says why."""


def call_in_copy(function: Callable[[], object]) -> Operand:
    """Return what `function()` returns in a copy of this process, in which alone anything changes.

    What it prints is lost. Raises ProcessCopyError where the system has no copies, and for an error in the copy.
    """
    if not hasattr(os, "fork"):
        raise ProcessCopyError(NO_FORK)
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's, about threads: the copy needs none of them
        child = os.fork()
    if child == 0:
        _send_result(write, function)
    os.close(write)
    try:
        answer = _read_all(read, time.monotonic() + MAX_WAIT_SECONDS)
    finally:
        os.close(read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not answer:
        raise ProcessCopyError("the copy of this process did not answer")
    is_error, found = pickle.loads(answer)  # from this process's own copy
    if is_error:
        raise ProcessCopyError(found)
    return found


def _send_result(write: int, function: Callable[[], object]) -> None:
    """Write what `function` returns, and end this process, which is a copy, without what an interpreter does then."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        sys.stdout = sys.stderr = os.fdopen(nowhere, "w", encoding="utf-8")  # a notebook's own go elsewhere
        try:
            answer = pickle.dumps((False, function()))
        except BaseException as error:  # noqa: BLE001  it is told by the process that waits
            answer = pickle.dumps((True, f"{type(error).__name__}: {error}"))
        with os.fdopen(write, "wb") as file:
            file.write(answer)
    finally:
        os._exit(0)


def _read_all(pipe: int, end: float) -> bytes:
    """Return what is written into a pipe until it is closed; nothing if that takes too long."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return b""
        part = os.read(pipe, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
