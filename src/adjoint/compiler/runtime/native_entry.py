"""The entry into native code: one call binds the arrays that change and runs a list of kernels and checks.

The entry is a METH_FASTCALL function written in LLVM assembly, 0.1 µs a call where ctypes takes 1 µs and more. It
reads an ndarray's data pointer from the object itself; where that is not known to be possible (other Pythons, free
threading), a ctypes entry with the same behaviour takes its place.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, NULL, PTR, U8, U64
from adjoint.compiler.runtime import cpython_layout, thread_pool
from adjoint.compiler.runtime.native_function import NativeModule, api_addresses
from adjoint.core.runtime.threads import MAX_THREADS
from adjoint.core.typing import Array

API_FUNCTIONS = ("Py_IncRef", "PyLong_FromLongLong", "PyEval_SaveThread", "PyEval_RestoreThread")
MAX_GIL_HELD_SECONDS = 20e-6  # seconds up to which a segment keeps Python's lock
MIN_SHARED_SECONDS = 50e-6  # seconds in kernels of several tiles from which other threads are asked to help

# `plan` is an array of words: the addresses of None, Py_IncRef and PyLong_FromLongLong, of PyEval_SaveThread and
# PyEval_RestoreThread (0: the lock is kept), of the pool, and the most threads; then the number of bindings, that many
# (argument, address of its pointer); then the number of steps, that many (function, table of pointers, tiles), where a
# check has no function and its number in place of the tiles.
NONE, INCREF, FROM_NUMBER, SAVE_THREAD, RESTORE_THREAD, POOL, THREAD_LIMIT, HEAD_WORDS = range(8)


def text() -> str:
    """The module: `adjoint_entry` for Python, `adjoint_run` for ctypes."""
    b = Builder()
    thread_pool.write_pool(b)
    _write_bind(b)
    _write_run(b)
    with b.function("adjoint_run", [PTR, PTR], I64, visible=True) as (plan, args):
        b.returns(b.call("run", [plan, b.call("bind", [plan, args], PTR)], I64))
    with b.function("adjoint_entry", [PTR, PTR, I64], PTR, visible=True, unwinds=True) as (bound, args, _):
        plan = b.gep(bound, cpython_layout.CONTENTS, U8)
        steps = b.call("bind", [plan, args], PTR)
        save = b.argument(plan, SAVE_THREAD)
        released = b.ne(save, NULL)
        with b.when(released, [NULL]) as saving:
            saving.yields(b.call(save, [], PTR))
        failed = b.call("run", [plan, steps], I64)
        with b.when(released):
            b.call(b.argument(plan, RESTORE_THREAD), [*saving.results])
        with b.when(b.lt(failed, 0)):
            none = b.argument(plan, NONE)
            b.call(b.argument(plan, INCREF), [none])
            b.return_now(none)
        b.returns(b.call(b.argument(plan, FROM_NUMBER), [failed], PTR))
    return b.text()


def _write_bind(b: Builder) -> None:
    """`bind(plan, args)`: store the addresses of the arrays' memory; gives the steps, which follow the bindings."""
    with b.function("bind", [PTR, PTR], PTR) as (plan, args):
        with b.loop(0, b.number(plan, HEAD_WORDS), carried=[b.gep(plan, HEAD_WORDS + 1, PTR)]) as loop:
            (binding,) = loop.carried
            array = b.argument(args, b.number(binding, 0))
            b.store(b.field(array, cpython_layout.DATA, PTR), b.argument(binding, 1))
            loop.yields(b.gep(binding, 2, PTR))
        b.returns(loop.results[0])


def _write_run(b: Builder) -> None:
    """`run(plan, steps)`: run kernels and checks; gives the number of the check that failed, or -1."""
    zero = b.constant(0, I64)
    with b.function("run_kernel", [PTR, PTR, PTR, I64, I64]) as (pool, function, table, given, threads):
        with b.when(b.lt(given, 0), [given]) as counted:
            counted.yields(b.number(table, given))
        (tiles,) = counted.results
        divided = b.lt(b.cast(b.sub(tiles, 2), U64), thread_pool.TILE_COUNT_LIMIT - 2)
        with b.when(b.logical_and(b.gt(threads, 1), divided)):
            b.call("adjoint_phase", [pool, function, table, tiles, threads])
            b.return_now()
        with b.loop(0, b.maximum(tiles, 1)) as loop:
            b.call(function, [table, loop.index, zero])
    with b.function("run_steps", [PTR, PTR, I64], I64) as (pool, steps, threads):
        with b.loop(0, b.number(steps, 0), carried=[b.gep(steps, 1, PTR)]) as loop:
            (step,) = loop.carried
            function, table, tiles = b.argument(step, 0), b.argument(step, 1), b.number(step, 2)
            is_check = b.eq(function, NULL)
            with b.when(is_check):
                b.return_if(b.eq(b.load(b.load(table, PTR), U8), 0), tiles)
            with b.when(b.logical_not(is_check)):
                b.call("run_kernel", [pool, function, table, tiles, threads])
            loop.yields(b.gep(step, 3, PTR))
        b.returns(b.constant(-1, I64))
    with b.function("run", [PTR, PTR], I64) as (plan, steps):
        pool, limit = b.argument(plan, POOL), b.number(plan, THREAD_LIMIT)
        with b.when(b.gt(limit, 1), [b.constant(1, I64)]) as opening:
            opening.yields(b.call("adjoint_open", [pool, limit], I64))
        (threads,) = opening.results
        failed = b.call("run_steps", [pool, steps, threads], I64)
        with b.when(b.gt(threads, 1)):
            b.call("adjoint_close", [pool])
        b.returns(failed)


class KernelCall(NamedTuple):
    """A kernel to be called for each of its tiles: the addresses of its function and of its table.

    A negative number of tiles is the row, in front of the table, in which that number is found.
    """

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
        self,
        bindings: Sequence[tuple[int, int]],
        steps: Sequence[KernelCall | Check],
        keep: object,
        seconds: float = 0.0,
        divided: float = 0.0,
        threads: int = 1,
    ) -> None:
        calls = api_addresses(API_FUNCTIONS if seconds > MAX_GIL_HELD_SECONDS else API_FUNCTIONS[:2])
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


def _native_entry(plan: bytes, bindings: Sequence[tuple[int, int]]) -> tuple[Callable[..., int | None], object]:
    return _module.function("adjoint_entry", plan), None


def _ctypes_entry(plan: bytes, bindings: Sequence[tuple[int, int]]) -> tuple[Callable[..., int | None], object]:
    native = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(_module.engine.address("adjoint_run"))
    pointers = [(ctypes.c_void_p.from_address(slot), i) for i, slot in bindings]
    # no bindings for the native part: the pointers are stored here
    words = struct.unpack(f"{len(plan) // 8}q", plan)
    words = (*words[:HEAD_WORDS], 0, *words[HEAD_WORDS + 1 + 2 * len(bindings) :])
    tail = (ctypes.c_int64 * len(words))(*words)

    def call(*arrays: Array) -> int | None:
        for pointer, i in pointers:
            pointer.value = arrays[i].ctypes.data
        failed = native(ctypes.addressof(tail), None)
        return None if failed < 0 else int(failed)

    return call, (native, tail)


_module = NativeModule("entry", text)
