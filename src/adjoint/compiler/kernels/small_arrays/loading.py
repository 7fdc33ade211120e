"""A routine as a function for Python: from code that an earlier process left on disk, else written now."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from importlib import import_module

import numpy as np

from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.native_function import NativeModule, api_addresses
from adjoint.core.typing import Function

PY_ARRAY_NEW, PY_ARRAY_NEW_COPY, PY_ARRAY_NEW_LIKE, PY_ARRAY_COPY_INTO = 93, 85, 277, 50


@cache
def routine(name: str) -> Function | None:
    """Load a routine, which gives None for operands that are not for it; None where Python's layout is not known."""

    def write() -> str:
        from adjoint.compiler.kernels.small_arrays.catalogue import write_routine

        return write_routine(name)

    return load_routine(name, write)


@cache
def arithmetic(name: str, otherwise: Function) -> Function | None:
    """Load a function of two arrays or numbers that leaves all other operands to `otherwise`; None as above."""

    def write() -> str:
        from adjoint.compiler.kernels.small_arrays.broadcast_arithmetic import write_arithmetic
        from adjoint.compiler.llvm.jit.target import host

        return write_arithmetic(name, f"adjoint_{name}", host())

    functions = api_addresses(("PyLong_AsDouble", "PyObject_Vectorcall"))
    words = [id(int), *functions, id(otherwise)]
    return load_routine(name, write, struct.pack(f"{len(words)}q", *words))


def load_routine(name: str, write: Callable[[], str], further_words: bytes = b"") -> Function | None:
    """Load a routine by its name, or compile the text that `write` gives."""
    if cpython_layout.find_slot_offsets() is None:
        return None
    return NativeModule(f"routine {name}", write).function(f"adjoint_{name}", _words() + further_words)


@cache
def _words() -> bytes:
    """Pack the addresses that routines compare with and call, in the order of entry.WORDS."""
    kinds = [id(np.dtype(kind)) for kind in (np.float32, np.float64, np.int64, np.bool_)]
    threads = api_addresses(("PyEval_SaveThread", "PyEval_RestoreThread"))
    words = [
        id(None),
        *api_addresses(("Py_IncRef", "Py_DecRef", "PyErr_Clear")),
        *_array_functions(PY_ARRAY_NEW, PY_ARRAY_NEW_COPY, PY_ARRAY_NEW_LIKE, PY_ARRAY_COPY_INTO),
        *threads,
        id(np.ndarray),
        id(float),
        *kinds,
    ]
    return struct.pack(f"{len(words)}q", *words)


def _array_functions(*places: int) -> list[int]:
    """The addresses of functions of NumPy's C interface, whose places in its table are part of that."""
    table = import_module("numpy._core._multiarray_umath")._ARRAY_API
    unpack = ctypes.pythonapi.PyCapsule_GetPointer
    unpack.restype, unpack.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    first = unpack(table, None)
    return [cpython_layout.read_word(first + 8 * place) for place in places]
