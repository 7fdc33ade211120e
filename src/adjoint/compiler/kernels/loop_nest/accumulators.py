"""The accumulators of a kernel's folds: where they start, how they take in a value, how they end.

Each lane folds its own elements. Long float32 sums are emptied into float64 totals, so that their error does not grow
with their length.
"""

from __future__ import annotations

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import F64, Reg, from_dtype

LANE_REDUCTIONS = {
    "add": "hsum",
    "mul": "hprod",
    "maximum": "hmax",
    "minimum": "hmin",
    "logical_or": "hor",
    "logical_and": "hand",
}


def identity(b: Builder, value: Value, lanes: int) -> Reg:
    """The start of a fold, in every lane."""
    kind = from_dtype(value.dtype).of(lanes)
    start = value.op.identity
    if kind.is_integer and isinstance(start, float):
        info = np.iinfo(value.dtype)
        start = info.min if start < 0 else info.max
    elif kind.is_bool and isinstance(start, float):
        start = start > 0
    return b.constant(start, kind)


def combine(b: Builder, value: Value, x: Reg, y: Reg) -> Reg:
    """Two partial folds as one."""
    combined: Reg = getattr(b, value.op.combine)(x, y)
    return combined


def accumulate(b: Builder, value: Value, total: Reg, source: Reg, mask: Reg | int | None) -> Reg:
    """The fold with the lanes of `source` taken in, only those on a mask (or the first so many) if there is one."""
    if value.op.combine.startswith("logical"):
        source = b.ne(source, 0)
    combined = combine(b, value, total, source)
    lanes = total.type.lanes
    if mask is None or lanes == 1:
        return combined
    return b.select(mask if isinstance(mask, Reg) else b.lane_mask(mask, lanes), combined, total)


def widen_start(b: Builder, value: Value, start: Reg) -> Reg:
    """The start of the total that blocks are gathered in."""
    return b.cast(start, F64) if _sums_wide(value) else start


def flush_block(b: Builder, value: Value, total: Reg, part: Reg) -> Reg:
    """The total with a block's fold added."""
    return combine(b, value, total, b.cast(part, F64) if _sums_wide(value) else part)


def finalize(b: Builder, value: Value, total: Reg, across: bool) -> Reg:
    """The result in its type; `across`: of all lanes, which have folded one element's dimension among them."""
    if across and total.type.lanes > 1:
        total = getattr(b, LANE_REDUCTIONS[value.op.combine])(total)
    return b.cast(total, from_dtype(value.dtype)) if total.type.is_float else total


def _sums_wide(value: Value) -> bool:
    return value.op.combine == "add" and value.dtype == np.float32
