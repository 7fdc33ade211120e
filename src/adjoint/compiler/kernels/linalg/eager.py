"""Factorizations and solutions for eager calls, of stacks of any shape: the kernels of compiled steps, called directly.

A function gives None for arrays that it does not take: other types, and stacks without a regular step.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np

from adjoint.compiler.kernels.linalg.plan import Layout, plan_stack
from adjoint.compiler.kernels.linalg.stack_kernels import STACK_KERNELS, write_stack_kernel
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.llvm.types import I64, NULL, PTR, U8, from_dtype
from adjoint.compiler.runtime.cpython_layout import CONTENTS, DATA, find_slot_offsets
from adjoint.compiler.runtime.native_function import NativeModule, api_addresses
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.typing import Array, NumpyDtype, Shape

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
MAX_GIL_HELD_FLOPS = 200_000  # beyond, other threads run meanwhile
API_FUNCTIONS = FROM_NUMBER, SAVE_THREAD, RESTORE_THREAD = range(3)  # what the entry is bound to: addresses
API_NAMES = ("PyLong_FromLongLong", "PyEval_SaveThread", "PyEval_RestoreThread")
Strides = tuple[int, ...]


class StackCall:
    """The kernel of one name as a function of arrays, for all shapes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._entries = {dtype: self._load_later(dtype) for dtype in FLOATS}

    def __call__(self, *arrays: Array, flags: tuple[int, ...]) -> tuple[Array, int] | None:
        """The result, a new array, and a number that is not 0 if a matrix has none; `flags`: the other numbers."""
        dtype = arrays[0].dtype
        entry = self._entries.get(dtype)
        layouts = []
        for x in arrays:
            if x.dtype is not dtype or not x.flags.aligned:
                return None
            layouts.append((x.shape, x.strides))
        if entry is None:
            return None
        plan = _plan_arrays(self._name, dtype.itemsize, tuple(layouts), flags)
        if plan is None:
            return None
        shape, scratch, numbers = plan
        out = np.empty(shape, dtype)
        return out, entry(numbers, *arrays, out, np.empty(scratch, np.uint8))

    def _load_later(self, dtype: NumpyDtype) -> Callable[..., int]:
        def load(*operands: object) -> int:
            entry = self._entries[dtype] = load_entry(self._name, dtype)
            return entry(*operands)

        return load


@cache
def load_stack_function(name: str) -> StackCall | None:
    """Return the function of one name; None where Python's layout is not known."""
    return None if find_slot_offsets() is None else StackCall(name)


@lru_cache(1024)
def _plan_arrays(
    name: str, itemsize: int, layouts: tuple[tuple[Shape, Strides], ...], flags: tuple[int, ...]
) -> tuple[Shape, int, bytes] | None:
    """The result's shape, the bytes of scratch memory, and words: whether to let other threads run, and the numbers.

    All matrices are one tile.
    """
    if any(step % itemsize for _, strides in layouts for step in strides):
        return None
    operands = tuple(Layout(s, tuple(step // itemsize for step in strides)) for s, strides in layouts)
    plan = plan_stack(name, operands, itemsize, flags)
    if plan is None:
        return None
    count, _, in_lanes, rows, columns, *rest = plan.numbers
    words = (count * rows * rows * columns > MAX_GIL_HELD_FLOPS, count, count, in_lanes, rows, columns, *rest)
    lead = broadcast_shapes(*[shape[:-2] for shape, _ in layouts])
    fixed = STACK_KERNELS[name].result_shape
    shape = (*lead, *((rows, columns) if fixed is None else fixed))
    return shape, plan.scratch, struct.pack(f"{len(words)}q", *words)


def load_entry(name: str, dtype: NumpyDtype) -> Callable[..., int]:
    """Return a function of a plan, the arrays and the result, which gives the table's last word."""
    module = NativeModule(f"stack {name} {dtype}", lambda: _write_entry(name, dtype))
    addresses = api_addresses(API_NAMES)
    entry: Callable[..., int] = module.function(f"adjoint_{name}", struct.pack(f"{len(addresses)}q", *addresses))
    return entry


def _write_entry(name: str, dtype: NumpyDtype) -> str:
    kernel, b = STACK_KERNELS[name], Builder(host())
    arrays, numbers = kernel.operands + 2, len(kernel.names)
    write_stack_kernel(b, name, "kernel", from_dtype(dtype), host(), tuple(range(kernel.operands + 1)))
    with b.function(f"adjoint_{name}", [PTR, PTR, I64], PTR, visible=True, unwinds=True) as (bound, args, _):
        api, plan = b.gep(bound, CONTENTS, U8), b.gep(b.argument(args, 0), CONTENTS, U8)
        table = b.stack(arrays + numbers, I64)
        for i in range(arrays):
            b.store(b.field(b.argument(args, 1 + i), DATA, PTR), b.gep(table, i, PTR))
        for i in range(numbers):
            b.store(b.number(plan, 1 + i), b.gep(table, arrays + i, I64))
        released = b.ne(b.number(plan, 0), 0)
        with b.when(released, [NULL]) as saving:
            saving.yields(b.call(b.argument(api, SAVE_THREAD), [], PTR))
        zero = b.constant(0, I64)
        b.call("kernel", [table, zero, zero])
        with b.when(released):
            b.call(b.argument(api, RESTORE_THREAD), [*saving.results])
        last = b.number(table, arrays + numbers - 1)
        b.returns(b.call(b.argument(api, FROM_NUMBER), [last], PTR))
    return b.text()
