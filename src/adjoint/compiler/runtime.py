"""The entry into native code: one call binds the arrays that change and runs a list of kernels.

The entry is a METH_FASTCALL function written in LLVM assembly, 0.1 µs a call where ctypes takes 1 µs and more. It
reads an ndarray's data pointer from the object itself; where that is not known to be possible (other Pythons, free
threading), a ctypes entry with the same behaviour takes its place.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from adjoint.compiler.cache import compile_kernel
from adjoint.compiler.llvm.engine import Engine, load

DATA_OFFSET = object.__basicsize__  # of the data pointer in an ndarray object
PLAN_OFFSET = bytes.__basicsize__ - 1  # of the contents in a bytes object, which is the entry's `self`
METH_FASTCALL = 0x80

# `plan` is an array of words: the addresses of None and of Py_IncRef, the number of bindings, that many (argument,
# address of its pointer), the number of kernels, that many (function, table of pointers).
ENTRY = f"""
define void @adjoint_run(ptr %plan, ptr %args) {{
entry:
  %counts = getelementptr i64, ptr %plan, i64 2
  %count = load i64, ptr %counts
  %first = getelementptr i64, ptr %plan, i64 3
  br label %bind
bind:
  %i = phi i64 [ 0, %entry ], [ %i1, %bound ]
  %p = phi ptr [ %first, %entry ], [ %p2, %bound ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %binding, label %kernels
binding:
  %which = load i64, ptr %p
  %p1 = getelementptr i64, ptr %p, i64 1
  %slot = load ptr, ptr %p1
  %p2 = getelementptr i64, ptr %p, i64 2
  %held = getelementptr ptr, ptr %args, i64 %which
  %array = load ptr, ptr %held
  %field = getelementptr i8, ptr %array, i64 {DATA_OFFSET}
  %data = load ptr, ptr %field
  store ptr %data, ptr %slot
  br label %bound
bound:
  %i1 = add i64 %i, 1
  br label %bind
kernels:
  %number = load i64, ptr %p
  %start = getelementptr i64, ptr %p, i64 1
  br label %next
next:
  %k = phi i64 [ 0, %kernels ], [ %k1, %running ]
  %q = phi ptr [ %start, %kernels ], [ %q2, %running ]
  %left = icmp slt i64 %k, %number
  br i1 %left, label %running, label %done
running:
  %function = load ptr, ptr %q
  %q1 = getelementptr i64, ptr %q, i64 1
  %table = load ptr, ptr %q1
  call void %function(ptr %table, i64 0, i64 0)
  %q2 = getelementptr i64, ptr %q, i64 2
  %k1 = add i64 %k, 1
  br label %next
done:
  ret void
}}

define ptr @adjoint_entry(ptr %self, ptr %args, i64 %n) {{
  %plan = getelementptr i8, ptr %self, i64 {PLAN_OFFSET}
  call void @adjoint_run(ptr %plan, ptr %args)
  %none = load ptr, ptr %plan
  %keep = getelementptr i64, ptr %plan, i64 1
  %increment = load ptr, ptr %keep
  call void %increment(ptr %none)
  ret ptr %none
}}
"""


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


class Segment:
    """Kernels that run one after another in one call. Keeps alive all memory that the call touches."""

    __slots__ = ("_keep", "call")

    def __init__(self, bindings: Sequence[tuple[int, int]], kernels: Sequence[tuple[int, int]], keep: Any) -> None:
        pairs = [*(w for pair in bindings for w in pair), len(kernels), *(w for pair in kernels for w in pair)]
        increment = ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value or 0
        plan = struct.pack(f"{3 + len(pairs)}q", id(None), increment, len(bindings), *pairs)
        make = _native_entry if _reads_ndarrays() else _ctypes_entry
        self.call: Callable[..., None]
        self.call, held = make(plan, [address for _, address in bindings], [which for which, _ in bindings])
        self._keep = (plan, held, keep)


@cache
def _entry() -> Engine:
    return load([compile_kernel(ENTRY)])


@cache
def _definition() -> _MethodDef:
    """What Python's functions of the entry point to, and look at while they die: one for all, and for ever."""
    return _MethodDef(b"segment", _entry().address("adjoint_entry"), METH_FASTCALL, None)


@cache
def _reads_ndarrays() -> bool:
    """True if an ndarray's data pointer can be read from the object: CPython with its lock, and NumPy as we know it."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    probe = np.empty(1)
    return ctypes.c_void_p.from_address(id(probe) + DATA_OFFSET).value == probe.ctypes.data


def _native_entry(plan: bytes, slots: list[int], which: list[int]) -> tuple[Callable[..., None], Any]:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(_definition()), plan, None), None


def _ctypes_entry(plan: bytes, slots: list[int], which: list[int]) -> tuple[Callable[..., None], Any]:
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(_entry().address("adjoint_run"))
    pointers = [ctypes.c_void_p.from_address(slot) for slot in slots]
    # no bindings for the native part: the pointers are stored here
    words = struct.unpack(f"{len(plan) // 8}q", plan)[3 + 2 * len(slots) :]
    tail = (ctypes.c_int64 * (3 + len(words)))(0, 0, 0, *words)

    def call(*arrays: Any) -> None:
        for pointer, i in zip(pointers, which, strict=True):
            pointer.value = arrays[i].ctypes.data
        native(ctypes.addressof(tail), None)

    return call, (native, tail)
