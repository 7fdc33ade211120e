"""The number of threads that a compiled program may use."""

from __future__ import annotations

import os
import sys
from array import array
from contextlib import suppress

from adjoint.core.runtime.mode import guard_on, refuse_while_tracing

MAX_THREADS = 255  # more are not used

count = array("q", [0])  # compiled code reads it where it lies; 0 until somebody asks


def get_num_threads() -> int:
    """Return the number of threads that a compiled program may use, as `set_num_threads` set it last.

    The default is $ADJOINT_NUM_THREADS, else $OMP_NUM_THREADS, else the physical cores on which the process may run.
    """
    if not count[0]:
        count[0] = _requested_threads() or _count_cores()
    return int(guard_on(count, _read_count, "number of threads"))


def set_num_threads(n: int) -> None:
    """Have compiled programs use at most `n` threads at once; their results do not depend on it.

    Raises TypeError if `n` is not an int, RuntimeError if it is not positive or takes more than 32 bits.
    """
    if type(n) is not int:
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if not 0 < n < 2**31:
        raise RuntimeError("set_num_threads expects a positive integer")
    refuse_while_tracing("set_num_threads()")
    count[0] = n


def _read_count(held: array[int]) -> int:
    return held[0]


def _requested_threads() -> int:
    """Return the number in the environment; 0 for none. OpenMP's may be a list, one for each level of nesting."""
    for name in ("ADJOINT_NUM_THREADS", "OMP_NUM_THREADS"):
        first = os.environ.get(name, "").partition(",")[0].strip()
        if first.isdecimal() and int(first):
            return min(int(first), sys.maxsize)
    return 0


def _count_cores() -> int:
    """Count the physical cores: processors that share a core count once, if the system tells."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    processors = os.sched_getaffinity(0)
    cores = {str(number) for number in processors}
    with suppress(OSError):
        cores = {_siblings(number) for number in processors}
    return len(cores)


def _siblings(processor: int) -> str:
    with open(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list", encoding="ascii") as told:
        return told.read()
