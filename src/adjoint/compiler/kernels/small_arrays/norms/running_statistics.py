"""Batch normalisation by running statistics, in one pass, and the step of these statistics towards those of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, UNLIMITED, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.llvm.types import Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder


def _normalize(b: Builder, x: Reg, shift: Reg, scale: Reg, weight: Reg, bias: Reg) -> Reg:
    return b.add(b.mul(b.mul(b.sub(x, shift), scale), weight), bias)


def _normalize_planes(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    mean: ArrayOperand,
    var: ArrayOperand,
    weight: ArrayOperand,
    bias: ArrayOperand,
    eps: Reg,
    out: ArrayOperand,
) -> None:
    """(x - mean) / √(var + eps) · weight + bias of (N, C, elements)."""
    with b.loop(0, b.floor_divide(x.size, b.mul(mean.size, x.last))) as sample, b.loop(0, mean.size) as channel:
        shift, spread, w, c = (b.load(b.gep(v.data, channel.index, kind), kind) for v in (mean, var, weight, bias))
        scale = b.rsqrt(b.add(spread, eps))
        start = b.mul(b.add(b.mul(sample.index, mean.size), channel.index), x.last)

        def write(index: Reg, mask: Reg | None) -> list[Reg]:
            at = b.add(start, index)
            element = b.load(b.gep(x.data, at, kind), kind.of(lanes), mask)
            result = _normalize(b, element, *(b.broadcast(each, lanes) for each in (shift, scale, w, c)))
            b.store(result, b.gep(out.data, at, kind), mask)
            return []

        sweep(b, x.last, lanes, [], write)


def _normalize_columns(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    mean: ArrayOperand,
    var: ArrayOperand,
    weight: ArrayOperand,
    bias: ArrayOperand,
    eps: Reg,
    out: ArrayOperand,
) -> None:
    """The same of (N, C)."""
    rows = b.floor_divide(x.size, x.last)

    def write(index: Reg, mask: Reg | None) -> list[Reg]:
        shift, spread, w, c = (
            b.load(b.gep(v.data, index, kind), kind.of(lanes), mask) for v in (mean, var, weight, bias)
        )
        scale = b.rsqrt(b.add(spread, b.broadcast(eps, lanes)))
        with b.loop(0, rows) as row:
            at = b.add(b.mul(row.index, x.last), index)
            element = b.load(b.gep(x.data, at, kind), kind.of(lanes), mask)
            b.store(_normalize(b, element, shift, scale, w, c), b.gep(out.data, at, kind), mask)
        return []

    sweep(b, x.last, lanes, [], write)


def _move_statistic(
    b: Builder,
    kind: Type,
    lanes: int,
    old: ArrayOperand,
    new: ArrayOperand,
    kept: Reg,
    factor: Reg,
    momentum: Reg,
    done: ArrayOperand,
) -> None:
    """Write old · kept + new · factor · momentum into `old`."""

    def write(index: Reg, mask: Reg | None) -> list[Reg]:
        before, batch = (b.load(b.gep(a.data, index, kind), kind.of(lanes), mask) for a in (old, new))
        moved = b.mul(b.mul(batch, b.broadcast(factor, lanes)), b.broadcast(momentum, lanes))
        b.store(b.add(b.mul(before, b.broadcast(kept, lanes)), moved), b.gep(old.data, index, kind), mask)
        return []

    sweep(b, old.size, lanes, [], write)


ROUTINES = {
    "running_norm": SmallArrayEntry("xxxxxf", _normalize_planes, most=UNLIMITED),
    "running_norm_columns": SmallArrayEntry("xxxxxf", _normalize_columns, most=UNLIMITED),
    "move_statistic": SmallArrayEntry("xxfff", _move_statistic, less=ALL_DIMS, alike=True),
}
