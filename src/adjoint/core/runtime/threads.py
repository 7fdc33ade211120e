"""The number of threads that this library may use, and how NumPy's BLAS is held to one.

The threads of a BLAS wait for one another in loops, many times in a product. Where one of them has lost its processor
to another program, all spend milliseconds at each such point. So no call of this library leaves work to them: it holds
BLAS to one thread while it calls it, and gives the number back. `core/op/thread_crew.py` shares large products.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable
from contextlib import ContextDecorator, suppress
from functools import cache
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.core.graph.source_location import warn_user
from adjoint.core.runtime.fork_safety import reset_after_fork
from adjoint.core.runtime.mode import guard_on, refuse_while_tracing

if TYPE_CHECKING:
    from ctypes import CDLL

MAX_THREADS = 255  # more are not used
IN_BROWSER = sys.platform == "emscripten"  # Python as WebAssembly: neither threads nor processes can be started

# What sets and tells the threads of OpenBLAS (in NumPy's wheels, for long integers, and as systems have it), MKL, BLIS.
BLAS_SETTERS = {
    "scipy_openblas_set_num_threads64_": "scipy_openblas_get_num_threads64_",
    "scipy_openblas_set_num_threads": "scipy_openblas_get_num_threads",
    "openblas_set_num_threads64_": "openblas_get_num_threads64_",
    "openblas_set_num_threads": "openblas_get_num_threads",
    "MKL_Set_Num_Threads": "MKL_Get_Max_Threads",
    "bli_thread_set_num_threads": "bli_thread_get_num_threads",
}
GEMM_LETTERS = {"f": "s", "d": "d"}  # by NumPy's

count = array("q", [0])  # compiled code reads it where it lies; 0 until somebody asks


def get_num_threads() -> int:
    """Return the number of threads that compiled programs and eager calls may use, as `set_num_threads` set it last.

    The default is $ADJOINT_NUM_THREADS, else $OMP_NUM_THREADS, else the physical cores on which the process may run.
    """
    if not count[0]:
        count[0] = _requested_threads() or _count_cores()
    return int(guard_on(count, _read_count, "number of threads"))


def set_num_threads(n: int) -> None:
    """Have compiled programs and eager calls use at most `n` threads at once, and NumPy's BLAS in the whole process.

    The results of this library do not depend on it.


    Raises TypeError if `n` is not an int, RuntimeError if it is not positive or takes more than 32 bits.
    """
    if type(n) is not int:
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if not 0 < n < 2**31:
        raise RuntimeError("set_num_threads expects a positive integer")
    refuse_while_tracing("set_num_threads()")
    count[0] = n
    one_blas_thread.set_limit(min(n, MAX_THREADS))


class _Blas(NamedTuple):
    """The functions of a BLAS that set and tell the number of its threads, the name of the former, and the library."""

    set: Callable[[int], None]
    get: Callable[[], int]
    setter: str
    library: CDLL


class _OneBlasThread(ContextDecorator):
    """A context, or a decorator, in which NumPy's BLAS has one thread; any number of threads may be in it.

    BLAS has one number for the whole process. So NumPy's own calls in other threads of the program find one thread too,
    as long as one of ours is here. Afterwards BLAS has the number back that it had.
    """

    __slots__ = ("_before", "_depth", "_lock")

    def __init__(self) -> None:
        self._lock, self._depth, self._before = reset_after_fork(RLock()), 0, 1

    def is_needless(self) -> bool:
        """Return whether BLAS has one thread anyway, at a tenth of the time of the context."""
        blas = _find_blas()
        return not self._depth and blas is not None and blas.get() == 1

    def __enter__(self) -> None:
        is_inside = False
        try:
            blas = _find_blas()
            with self._lock:
                self._depth += 1
                is_inside = True
                if self._depth == 1 and blas is not None:
                    self._before = blas.get()
                    if self._before > 1:
                        blas.set(1)
        except BaseException:  # a handler of a signal has raised it
            if is_inside:
                self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        ends: list[None] = []
        try:
            self._leave(ends)
        finally:
            if not ends:  # likewise
                self._leave(ends)

    def _leave(self, ends: list[None]) -> None:
        """Leave the context once. A signal's handler that comes meanwhile may be in it too, and leaves it.

        Python calls handlers after calls only: so the last two lines are one step.
        """
        blas = _find_blas()
        with self._lock:
            if self._depth == 1 and blas is not None and self._before > 1:
                blas.set(self._before)
            self._depth -= self._depth > 0  # 0 in a forked process, which was given the number back
            ends.append(None)

    def set_limit(self, n: int) -> None:
        """Give BLAS `n` threads; within the context, when it ends."""
        blas = _find_blas()
        with self._lock:
            self._before = n
            if not self._depth and blas is not None:
                blas.set(n)

    def count_threads(self) -> int | None:
        """Return how many threads BLAS may have outside of the context; None if it does not tell."""
        blas = _find_blas()
        with self._lock:
            return None if blas is None else self._before if self._depth else blas.get()

    def leave_in_child(self) -> None:
        """Give the number back in a forked process, which lacks the threads that are in the context."""
        if self._depth:
            self._depth = 1
            self._leave([])


one_blas_thread = _OneBlasThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.leave_in_child)


def count_product_threads() -> int:
    """Return how many threads may share a product: no more than the program, nor than BLAS may have; 1 if unknown."""
    return min(get_num_threads(), one_blas_thread.count_threads() or 1)


@cache
def find_gemm(char: str) -> tuple[int, int] | None:
    """Return the address of BLAS's product of matrices of a type, "f" or "d", and the bits of its integers, if known.

    Only where a name tells which integers it takes.
    """
    found = _find_by_name(f"cblas_{GEMM_LETTERS[char]}gemm", "") if char in GEMM_LETTERS else None
    if found is None:
        return None
    from ctypes import c_void_p, cast

    return cast(found[0], c_void_p).value or 0, found[1]


@cache
def find_lapack(routine: str, arguments: int) -> tuple[Callable[..., None], int] | None:
    """Return a routine, such as "sgeqrf", of the LAPACK that lies in NumPy's BLAS, and the bits of its integers.

    None where a name does not tell which integers it takes. All its `arguments` are addresses, or go for such.
    """
    found = _find_by_name(routine, "_")
    if found is None:
        return None
    from ctypes import c_void_p

    function = found[0]
    function.argtypes, function.restype = [c_void_p] * arguments, None
    return function, found[1]


def _find_by_name(name: str, suffix: str) -> tuple[Any, int] | None:
    """Return a function of NumPy's BLAS, and the bits of its integers; None if it has none, or its names tell none."""
    blas = _find_blas()
    if blas is None or not blas.setter.startswith(("scipy", "openblas_set_num_threads64_")):
        return None
    is_wide = blas.setter.endswith("64_")
    full = f"{'scipy_' * blas.setter.startswith('scipy')}{name}{suffix}{'64_' * is_wide}"
    return (blas.library[full], 64 if is_wide else 32) if hasattr(blas.library, full) else None


@cache
def _find_blas() -> _Blas | None:
    """Find the functions of NumPy's BLAS that set and tell its threads; None if it has none that are known."""
    import ctypes  # few programs need it

    with suppress(OSError, ImportError):  # a search in NumPy's module is one in the libraries that it was linked to
        library = ctypes.CDLL(str(import_module("numpy._core._multiarray_umath").__file__))
        for setter, getter in BLAS_SETTERS.items():
            if hasattr(library, setter) and hasattr(library, getter):
                library[setter].argtypes, library[setter].restype = [ctypes.c_int], None
                library[getter].argtypes, library[getter].restype = [], ctypes.c_int
                return _Blas(library[setter], library[getter], setter, library)
    return None


def warn_without_gil() -> None:
    """Warn on a Python that runs without its lock: counters, logs of writes and lists of aliases here rest on it."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        warn_user(
            "adjoint was never run on a Python without its global lock, and several threads that use it at once may "
            "get wrong results there: call it from one thread, or start Python with PYTHON_GIL=1",
            RuntimeWarning,
        )


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
    """Count the physical cores: processors that share a core count once, if the system tells.

    Of Apple's processors the faster cores are counted: the last tile would be that of a slow one.
    """
    if IN_BROWSER:
        return 1
    if sys.platform == "darwin" and (told := read_sysctl("hw.perflevel0.physicalcpu")):
        return int.from_bytes(told, sys.byteorder) or 1
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    processors = os.sched_getaffinity(0)
    cores = {str(number) for number in processors}
    with suppress(OSError):
        cores = {_siblings(number) for number in processors}
    return len(cores)


def read_sysctl(name: str) -> bytes:
    """Return what macOS tells under a name, as it lies in memory; nothing where it does not know the name."""
    import ctypes

    ask = getattr(ctypes.CDLL(None), "sysctlbyname", None)
    size = ctypes.c_size_t(0)
    if ask is None or ask(name.encode(), None, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return b""
    held = ctypes.create_string_buffer(size.value)
    failed = ask(name.encode(), held, ctypes.byref(size), None, ctypes.c_size_t(0))
    return b"" if failed else held.raw[: size.value]


def _siblings(processor: int) -> str:
    with open(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list", encoding="ascii") as told:
        return told.read()
