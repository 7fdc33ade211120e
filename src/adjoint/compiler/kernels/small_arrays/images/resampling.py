"""Sums of few elements along a dimension, by positions and weights: what interpolation is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import UNLIMITED, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.kernels.small_arrays.gather_row import indices_are_within
from adjoint.compiler.llvm.types import I64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder

MAX_GATHERED_LANES = 8
Term = Callable[[Reg], Reg]  # of the first place of a tap among positions and weights: a register of its products


def _resample(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    weights: ArrayOperand,
    positions: ArrayOperand,
    shape: ArrayOperand,
    out: ArrayOperand,
) -> Reg:
    """out[l, j] = Σ over t of weights[t, j] · x[l, positions[t, j]], of (lead, old, trail) and (taps, new)."""
    new, trail = weights.last, x.last
    taps = b.floor_divide(weights.size, new)
    lead = b.floor_divide(out.size, b.mul(new, trail))
    old = b.floor_divide(x.size, b.mul(lead, trail))
    within = indices_are_within(b, positions, old, min(lanes, MAX_GATHERED_LANES))
    is_last = b.eq(trail, 1)

    def add_up(lanes: int, term: Term) -> Reg:
        with b.loop(0, taps, carried=[b.constant(0.0, kind.of(lanes))]) as loop:
            loop.yields(b.add(loop.carried[0], term(b.mul(loop.index, new))))
        return loop.results[0]

    with b.when(b.logical_and(within, is_last)), b.loop(0, lead) as row:
        source, target = (b.gep(a.data, b.mul(row.index, n), kind) for a, n in ((x, old), (out, new)))
        few = min(lanes, MAX_GATHERED_LANES)

        def write_elements(index: Reg, mask: Reg | None) -> list[Reg]:
            def term(first: Reg) -> Reg:
                at = b.add(first, index)
                place = b.load(b.gep(positions.data, at, I64), I64.of(few), mask)
                weight = b.load(b.gep(weights.data, at, kind), kind.of(few), mask)
                return b.mul(b.gather(source, place, kind.of(few), mask), weight)

            b.store(add_up(few, term), b.gep(target, index, kind), mask)
            return []

        sweep(b, new, few, [], write_elements)
    with b.when(b.logical_and(within, b.logical_not(is_last))), b.loop(0, lead) as row, b.loop(0, new) as column:
        source = b.gep(x.data, b.mul(row.index, b.mul(old, trail)), kind)
        target = b.gep(out.data, b.mul(b.add(b.mul(row.index, new), column.index), trail), kind)

        def write_row(index: Reg, mask: Reg | None) -> list[Reg]:
            def term(first: Reg) -> Reg:
                at = b.add(first, column.index)
                place = b.mul(b.load(b.gep(positions.data, at, I64), I64), trail)
                weight = b.broadcast(b.load(b.gep(weights.data, at, kind), kind), lanes)
                return b.mul(b.load(b.gep(source, b.add(place, index), kind), kind.of(lanes), mask), weight)

            b.store(add_up(lanes, term), b.gep(target, index, kind), mask)
            return []

        sweep(b, trail, lanes, [], write_row)
    return within


ROUTINES = {"resample": SmallArrayEntry("xxix", _resample, like=3, most=UNLIMITED)}
