"""Kernels along a dimension for eager calls: one text for all shapes, bound once for each layout of the operands."""

from __future__ import annotations

import ctypes
import os
from typing import NamedTuple

import numpy as np

from adjoint.compiler.cache.object_cache import compile_kernel
from adjoint.compiler.kernels.kernel_text import KernelMemo
from adjoint.compiler.kernels.rows.catalogue import plan_rows
from adjoint.compiler.kernels.rows.lowering import make_rows_text
from adjoint.compiler.kernels.rows.plan import RowOperand, RowPlan
from adjoint.compiler.llvm.jit.engine import Engine, load
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.memory_plan import aligned_bytes
from adjoint.compiler.runtime.native_entry import KernelCall, Segment
from adjoint.core.op.eager_kernels import kernel_provider, report_kernel_errors
from adjoint.core.runtime.threads import get_num_threads
from adjoint.core.typing import Array, Function, NumpyDtype, Operand, Params

MAX_LAYOUTS = 512  # bound at a time for an op
MAX_KEPT_SCRATCH_BYTES = 2**24  # bytes of scratch memory that wait for the next call


class _BoundRows(NamedTuple):
    """A kernel with a table of its own. `scratch`: bytes that a call brings; `copies`: of operands, row-major."""

    segment: Segment
    shape: tuple[int, ...]
    dtype: NumpyDtype
    scratch: int
    copies: bool


def row_kernel(name: str) -> Function:
    """Return an op's native function: of arrays and parameters a new array, or None if NumPy is to compute it."""
    bound: dict[object, _BoundRows | None] = {}

    def call(*operands: Array, **params: Operand) -> Array | None:
        if not kernel_provider.enabled:
            return None
        key = (*[(x.shape, x.strides, x.dtype) for x in operands], *params.values())
        try:
            kernel = bound.pop(key)  # nobody else has it while it runs
        except KeyError:
            if len(bound) >= MAX_LAYOUTS:
                bound.clear()
            kernel = _bind(name, operands, params)
        found = None if kernel is None else _run(kernel, operands)
        bound[key] = kernel
        return found

    return call


def _run(kernel: _BoundRows, operands: tuple[Array, ...]) -> Array:
    out = np.empty(kernel.shape, kernel.dtype)
    given = [x if x.flags.aligned else x.copy() for x in operands]
    if kernel.copies:
        given = [np.ascontiguousarray(x) for x in given]
    if not kernel.scratch:
        kernel.segment.call(*given, out)
        return out
    scratch = _scratch.pop() if _scratch else None
    if scratch is None or scratch.nbytes < kernel.scratch:
        scratch = aligned_bytes(kernel.scratch)
    kernel.segment.call(*given, out, scratch)
    if scratch.nbytes <= MAX_KEPT_SCRATCH_BYTES:
        _scratch.append(scratch)
    return out


_scratch: list[Array] = []
_memo: KernelMemo = {}
_engines: dict[str, Engine] = {}


def _bind(name: str, operands: tuple[Array, ...], params: Params) -> _BoundRows | None:
    """Bind a kernel to a layout of its operands; None if NumPy is to compute it."""
    with report_kernel_errors(name):
        copies, plan = False, _plan(name, operands, params)
        if plan is None:
            copies, plan = True, _plan(name, tuple(map(np.ascontiguousarray, operands)), params)
        return None if plan is None else _bind_plan(name, plan, operands, copies)
    return None


def _plan(name: str, operands: tuple[Array, ...], params: Params) -> RowPlan | None:
    if any(s % x.itemsize for x in operands for s in x.strides):
        return None
    layouts = [RowOperand(x.shape, x.dtype, tuple([s // x.itemsize for s in x.strides])) for x in operands]
    return plan_rows(name, layouts, params, host())


def _bind_plan(name: str, plan: RowPlan, operands: tuple[Array, ...], copies: bool) -> _BoundRows:
    count = len(operands)
    places, sizes = tuple(range(count)), tuple(x.itemsize for x in operands)
    symbol, code = make_rows_text(plan, places, sizes, host(), _memo)
    if symbol not in _engines:
        _engines[symbol] = load([compile_kernel(code)])
        _engines[symbol].keep()  # functions of Python may point to it until the process ends
    engine = _engines[symbol]
    threads = min(max(get_num_threads(), os.cpu_count() or 1), plan.tiles)
    extra = [plan.scratch] if plan.scratch else []
    words = [0] * (count + 1 + len(extra) + count) + extra + list(plan.numbers)
    table = (ctypes.c_int64 * len(words))(*words)
    first = ctypes.addressof(table)
    bindings = [(i, first + 8 * i) for i in range(count + 1 + len(extra))]
    step = KernelCall(engine.address(symbol), first, plan.tiles)
    divided = plan.seconds if plan.tiles > 1 else 0.0
    segment = Segment(bindings, [step], (engine, table), plan.seconds, divided, threads)
    return _BoundRows(segment, plan.shape, plan.dtype, plan.scratch * threads, copies)
