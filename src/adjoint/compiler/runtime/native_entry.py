"""The entry into native code: one call binds the arrays that change and runs a list of kernels and checks.

The entry is a METH_FASTCALL function written in LLVM assembly, 0.1 µs a call where ctypes takes 1 µs and more. It
reads an ndarray's data pointer from the object itself; where that is not known to be possible (other Pythons, free
threading), a ctypes entry with the same behaviour takes its place.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from adjoint.compiler.cache.object_cache import compile_kernel
from adjoint.compiler.llvm.jit.engine import Engine, load
from adjoint.compiler.llvm.jit.target import FAST_COMPILE_MARK
from adjoint.compiler.runtime import cpython_layout, thread_pool
from adjoint.compiler.runtime.native_function import METH_FASTCALL, MethodDef
from adjoint.core.runtime.threads import MAX_THREADS

MAX_GIL_HELD_SECONDS = 20e-6  # seconds up to which a segment keeps Python's lock
MIN_SHARED_SECONDS = 50e-6  # seconds in kernels of several tiles from which other threads are asked to help

# `plan` is an array of words: the addresses of None, Py_IncRef and PyLong_FromLongLong, of PyEval_SaveThread and
# PyEval_RestoreThread (0: the lock is kept), of the pool, and the most threads; then the number of bindings, that many
# (argument, address of its pointer); then the number of steps, that many (function, table of pointers, tiles), where a
# check has no function and its number in place of the tiles.
HEAD_WORDS = 7
ENTRY_IR = f"""
define internal ptr @bind(ptr %plan, ptr %args) {{
entry:
  %counts = getelementptr i64, ptr %plan, i64 {HEAD_WORDS}
  %count = load i64, ptr %counts
  %first = getelementptr i64, ptr %plan, i64 {HEAD_WORDS + 1}
  br label %bind
bind:
  %i = phi i64 [ 0, %entry ], [ %i1, %binding ]
  %p = phi ptr [ %first, %entry ], [ %p2, %binding ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %binding, label %done
binding:
  %which = load i64, ptr %p
  %p1 = getelementptr i64, ptr %p, i64 1
  %slot = load ptr, ptr %p1
  %p2 = getelementptr i64, ptr %p, i64 2
  %held = getelementptr ptr, ptr %args, i64 %which
  %array = load ptr, ptr %held
  %field = getelementptr i8, ptr %array, i64 {cpython_layout.DATA}
  %data = load ptr, ptr %field
  store ptr %data, ptr %slot
  %i1 = add i64 %i, 1
  br label %bind
done:
  ret ptr %p
}}

define internal i64 @run(ptr %plan, ptr %steps) {{
entry:
  %fifth = getelementptr i64, ptr %plan, i64 5
  %pool = load ptr, ptr %fifth
  %sixth = getelementptr i64, ptr %plan, i64 6
  %limit = load i64, ptr %sixth
  %several = icmp sgt i64 %limit, 1
  br i1 %several, label %opening, label %begin
opening:
  %opened = call i64 @adjoint_open(ptr %pool, i64 %limit)
  br label %begin
begin:
  %threads = phi i64 [ 1, %entry ], [ %opened, %opening ]
  %number = load i64, ptr %steps
  %start = getelementptr i64, ptr %steps, i64 1
  br label %next
next:
  %k = phi i64 [ 0, %begin ], [ %k1, %stepped ]
  %q = phi ptr [ %start, %begin ], [ %q3, %stepped ]
  %left = icmp slt i64 %k, %number
  br i1 %left, label %step, label %end
step:
  %function = load ptr, ptr %q
  %q1 = getelementptr i64, ptr %q, i64 1
  %table = load ptr, ptr %q1
  %q2 = getelementptr i64, ptr %q, i64 2
  %tiles = load i64, ptr %q2
  %q3 = getelementptr i64, ptr %q, i64 3
  %is_check = icmp eq ptr %function, null
  br i1 %is_check, label %check, label %kernel
check:
  %address = load ptr, ptr %table
  %holds = load i8, ptr %address
  %fails = icmp eq i8 %holds, 0
  br i1 %fails, label %end, label %stepped
kernel:
  %shared = icmp sgt i64 %threads, 1
  %above = sub i64 %tiles, 2
  %divided = icmp ult i64 %above, {thread_pool.TILE_COUNT_LIMIT - 2}
  %both = and i1 %shared, %divided
  br i1 %both, label %phase, label %alone
phase:
  call void @adjoint_phase(ptr %pool, ptr %function, ptr %table, i64 %tiles, i64 %threads)
  br label %stepped
alone:
  %tile = phi i64 [ 0, %kernel ], [ %tile1, %alone ]
  call void %function(ptr %table, i64 %tile, i64 0)
  %tile1 = add i64 %tile, 1
  %again = icmp slt i64 %tile1, %tiles
  br i1 %again, label %alone, label %stepped
stepped:
  %k1 = add i64 %k, 1
  br label %next
end:
  %failed = phi i64 [ -1, %next ], [ %tiles, %check ]
  %held = icmp sgt i64 %threads, 1
  br i1 %held, label %closing, label %out
closing:
  call void @adjoint_close(ptr %pool)
  br label %out
out:
  ret i64 %failed
}}

define i64 @adjoint_run(ptr %plan, ptr %args) {{
  %steps = call ptr @bind(ptr %plan, ptr %args)
  %failed = call i64 @run(ptr %plan, ptr %steps)
  ret i64 %failed
}}

define ptr @adjoint_entry(ptr %self, ptr %args, i64 %n) uwtable {{
entry:
  %plan = getelementptr i8, ptr %self, i64 {cpython_layout.CONTENTS}
  %steps = call ptr @bind(ptr %plan, ptr %args)
  %third = getelementptr i64, ptr %plan, i64 3
  %save = load ptr, ptr %third
  %brief = icmp eq ptr %save, null
  br i1 %brief, label %keeping, label %releasing
keeping:
  %kept = call i64 @run(ptr %plan, ptr %steps)
  br label %ran
releasing:
  %state = call ptr %save()
  %freely = call i64 @run(ptr %plan, ptr %steps)
  %fourth = getelementptr i64, ptr %plan, i64 4
  %restore = load ptr, ptr %fourth
  call void %restore(ptr %state)
  br label %ran
ran:
  %failed = phi i64 [ %kept, %keeping ], [ %freely, %releasing ]
  %fine = icmp slt i64 %failed, 0
  br i1 %fine, label %nothing, label %failure
nothing:
  %none = load ptr, ptr %plan
  %first = getelementptr i64, ptr %plan, i64 1
  %increment = load ptr, ptr %first
  call void %increment(ptr %none)
  ret ptr %none
failure:
  %second = getelementptr i64, ptr %plan, i64 2
  %integer = load ptr, ptr %second
  %told = call ptr %integer(i64 %failed)
  ret ptr %told
}}
"""


class KernelCall(NamedTuple):
    """A kernel to be called for each of its tiles: the addresses of its function and of its table."""

    function: int
    table: int
    tiles: int = 1


class Check(NamedTuple):
    """A step that ends the call where the truth value to which its table points is false."""

    table: int


class Segment:
    """Kernels and checks that run one after another in one call. Keeps alive all memory that the call touches.

    `call(*arrays)` gives None, or the number of the check that failed, counted among the checks. `bindings`: which
    array's address goes where. `seconds`: how long it may take, and `divided` in kernels of several tiles; these run
    on up to `threads` threads.
    """

    __slots__ = ("_keep", "call")

    def __init__(
        self, bindings: Sequence[tuple[int, int]], steps: Sequence[KernelCall | Check], keep: Any, seconds: float = 0.0,
        divided: float = 0.0, threads: int = 1,
    ) -> None:  # fmt: skip
        api = ctypes.pythonapi
        names = [api.Py_IncRef, api.PyLong_FromLongLong]
        names += [api.PyEval_SaveThread, api.PyEval_RestoreThread] if seconds > MAX_GIL_HELD_SECONDS else []
        calls = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in names]
        shared = divided > MIN_SHARED_SECONDS and threads > 1 and thread_pool.pool_address()
        head = [
            id(None),
            *calls,
            *[0] * (4 - len(calls)),
            *((thread_pool.pool_address(), min(threads, MAX_THREADS)) if shared else (0, 1)),
        ]
        words: list[int] = [len(steps)]
        checks = 0
        for step in steps:
            words += (0, step.table, checks) if isinstance(step, Check) else step
            checks += isinstance(step, Check)
        pairs = [word for pair in bindings for word in pair]
        plan = struct.pack(f"{HEAD_WORDS + 1 + len(pairs) + len(words)}q", *head, len(bindings), *pairs, *words)
        make = _native_entry if cpython_layout.can_read_arrays() else _ctypes_entry
        self.call: Callable[..., int | None]
        self.call, held = make(plan, bindings)
        self._keep = (plan, held, keep)


@cache
def _entry() -> Engine:
    engine = load([compile_kernel(FAST_COMPILE_MARK + thread_pool.text() + ENTRY_IR)])
    engine.keep()  # workers are in it until the process ends
    return engine


@cache
def _definition() -> MethodDef:
    """What Python's functions of the entry point to, and look at while they die: one for all, and for ever."""
    return MethodDef(b"segment", _entry().address("adjoint_entry"), METH_FASTCALL, None)


def _native_entry(plan: bytes, bindings: Sequence[tuple[int, int]]) -> tuple[Callable[..., int | None], Any]:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(_definition()), plan, None), None


def _ctypes_entry(plan: bytes, bindings: Sequence[tuple[int, int]]) -> tuple[Callable[..., int | None], Any]:
    native = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(_entry().address("adjoint_run"))
    pointers = [(ctypes.c_void_p.from_address(slot), i) for i, slot in bindings]
    # no bindings for the native part: the pointers are stored here
    words = struct.unpack(f"{len(plan) // 8}q", plan)
    words = (*words[:HEAD_WORDS], 0, *words[HEAD_WORDS + 1 + 2 * len(bindings) :])
    tail = (ctypes.c_int64 * len(words))(*words)

    def call(*arrays: Any) -> int | None:
        for pointer, i in pointers:
            pointer.value = arrays[i].ctypes.data
        failed = native(ctypes.addressof(tail), None)
        return None if failed < 0 else int(failed)

    return call, (native, tail)
