"""A routine as a function for Python: from code that an earlier process left on disk, else written now."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from adjoint.compiler.cache.hashing import digest
from adjoint.compiler.cache.object_cache import compile_kernel
from adjoint.compiler.cache.source_fingerprint import source_fingerprint
from adjoint.compiler.kernels.kernel_text import KernelText
from adjoint.compiler.llvm.jit.engine import load
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.native_entry import METH_FASTCALL, MethodDef

PY_ARRAY_NEW = 93


@cache
def routine(name: str) -> Callable[..., Any] | None:
    """What gives a routine's result, or None where its operands are not for it; None where Python is not as known."""
    if cpython_layout.find_slot_offsets() is None:
        return None
    engine = load([compile_kernel(_code(name))])
    engine.keep()  # functions of Python's point to it
    definition = MethodDef(name.encode(), engine.address(f"adjoint_{name}"), METH_FASTCALL, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))  # whatever Python's shutdown takes apart
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    _definitions.append(definition)
    function: Callable[..., Any] = make(ctypes.addressof(definition), _words(), None)
    return function


_definitions: list[MethodDef] = []


def _code(name: str) -> KernelText:
    """The module of a routine, which is written where its object is not there yet."""

    def write() -> str:
        from adjoint.compiler.kernels.small_arrays.catalogue import write_routine

        return write_routine(name)

    facts = ("routine", name, source_fingerprint(), host().fingerprint())
    return KernelText(digest("\0".join(facts)), write)


@cache
def _words() -> bytes:
    """What routines compare with and call, in the order of entry.WORDS; all of it is there as long as the process."""
    api = ctypes.pythonapi
    keep, drop = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (api.Py_IncRef, api.Py_DecRef))
    kinds = [id(np.dtype(kind)) for kind in (np.float32, np.float64, np.int64, np.bool_)]
    words = [id(None), keep, drop, _new_array(), id(np.ndarray), id(float), *kinds]
    return struct.pack(f"{len(words)}q", *words)


def _new_array() -> int:
    """The address of PyArray_New, whose place in the table of NumPy's C interface is part of that."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    unpack = ctypes.pythonapi.PyCapsule_GetPointer
    unpack.restype, unpack.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return cpython_layout.read_word(unpack(_multiarray_umath._ARRAY_API, None) + 8 * PY_ARRAY_NEW)
