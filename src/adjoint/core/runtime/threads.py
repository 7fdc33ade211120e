"""The number of threads that a compiled program may use, and NumPy's BLAS."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module

from adjoint.core.runtime.mode import guard_on, refuse_while_tracing

MAX_THREADS = 255  # more are not used

# What limits the threads of OpenBLAS (in NumPy's wheels, for long integers, and as systems have it), MKL, BLIS.
BLAS_LIMITS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
    "MKL_Set_Num_Threads",
    "bli_thread_set_num_threads",
)
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")  # for the user

count = array("q", [0])  # compiled code reads it where it lies; 0 until somebody asks


def get_num_threads() -> int:
    """Return the number of threads that a compiled program may use, as `set_num_threads` set it last.

    The default is $ADJOINT_NUM_THREADS, else $OMP_NUM_THREADS, else the physical cores on which the process may run.
    """
    if not count[0]:
        count[0] = _requested_threads() or _count_cores()
    return int(guard_on(count, _read_count, "number of threads"))


def set_num_threads(n: int) -> None:
    """Have compiled programs use at most `n` threads at once, and NumPy's BLAS; results do not depend on the former.

    Raises TypeError if `n` is not an int, RuntimeError if it is not positive or takes more than 32 bits.
    """
    if type(n) is not int:
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if not 0 < n < 2**31:
        raise RuntimeError("set_num_threads expects a positive integer")
    refuse_while_tracing("set_num_threads()")
    count[0] = n
    if (limit := _find_blas_limit()) is not None:
        limit(min(n, MAX_THREADS))


def limit_blas_beside_pool() -> None:
    """Leave NumPy's BLAS one thread, now that a compiled program has threads of its own, unless the user set a number.

    Either's threads spin while they wait for work, and on a machine without a processor for each they take the time of
    those that have some.
    """
    told = any(os.environ.get(name) for name in BLAS_VARIABLES)
    if get_num_threads() > 1 and not told and (limit := _find_blas_limit()) is not None:
        limit(1)


@cache
def _find_blas_limit() -> Callable[[int], object] | None:
    """Find the function of NumPy's BLAS that limits its threads; None if it has none that is known."""
    import ctypes  # few programs need it

    with suppress(OSError, ImportError):  # a search in NumPy's module is one in the libraries that it was linked to
        library = ctypes.CDLL(str(import_module("numpy._core._multiarray_umath").__file__))
        for name in BLAS_LIMITS:
            if hasattr(library, name):
                limit = library[name]
                limit.argtypes, limit.restype = [ctypes.c_int], None
                return limit
    return None


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
