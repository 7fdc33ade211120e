"""The weights of a block of rows: scores, what hides keys, and their exponentials.

They are kept with the keys down and the rows across the lanes. So maxima and sums over keys need no step between
lanes. Rows beyond the last are lanes to be ignored, and products read the weights element by element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.kernels.attention.plan import AttentionPlan, AttentionScratch, QueryBlock, range_of_keys
from adjoint.compiler.kernels.attention.tile_matmul import (
    SummedRange,
    TileMatrix,
    even_unroll,
    multiply,
    run_range,
    store_tile,
)
from adjoint.compiler.kernels.attention.transpose import write_transposed
from adjoint.compiler.kernels.index_arithmetic import as_index, lane_offsets
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.math.exponential import DOUBLE, LN2_HIGH, LN2_HIGH_32, LN2_LOW, LN2_LOW_32, SINGLE
from adjoint.compiler.llvm.types import BOOL, I32, I64, Reg


def write_weights(
    b: Builder,
    plan: AttentionPlan,
    rows: TileMatrix,
    keys: TileMatrix,
    block: QueryBlock,
    parts: AttentionScratch,
) -> list[Reg]:
    """e^(score - largest score) of a block of rows into `parts.weights`; one over their sums, in registers."""
    kind, high = plan.kind, plan.high
    write_transposed(b, kind, rows, block.present, plan.q.shape[-1], parts.rows, high, plan.scale)
    into = TileMatrix(parts.weights, high)
    size = plan.q.shape[-1]
    multiply(
        b,
        kind,
        plan.shapes[0],
        keys,
        TileMatrix(parts.rows, high),
        (plan.keys, block.seen),
        high,
        SummedRange(0, size, even_unroll(size)),
        lambda t: store_tile(b, t, into),
    )
    largest = _find_row_maxima(b, plan, block, parts)
    largest = [b.select(b.eq(m, -math.inf), 0.0, m) for m in largest]

    # The plain loop: for key, row: weights[key, row] = exp(scores[key, row] - largest[row]); totals[row] += that.
    # Unrolled: a register of rows at a time, for several keys in one turn.
    def add_keys(key: Reg, step: int, carried: Sequence[Reg]) -> Sequence[Reg]:
        totals = list(carried)
        for place, u in weight_addresses(b, plan, parts.weights, key, step):
            e = exp_nonpositive(b, b.sub(b.load(place, kind), largest[u]))
            b.store(e, place)
            totals[u] = b.add(totals[u], e)
        return totals

    zeros = [b.constant(0.0, kind)] * len(largest)
    totals = run_range(b, range_of_keys(plan, 0, block.seen), zeros, add_keys)
    return [b.div(1.0, b.select(b.eq(total, 0.0), 1.0, total)) for total in totals]


def weight_addresses(b: Builder, plan: AttentionPlan, base: Reg, key: Reg, steps: int) -> list[tuple[Reg, int]]:
    """The registers of weights for `steps` keys: their addresses, and which rows they have."""
    corner = b.gep(base, b.mul(key, plan.high), plan.kind.scalar)
    offsets = range(0, steps * plan.high, plan.kind.lanes)
    return [(b.gep(corner, o, plan.kind.scalar), o % plan.high // plan.kind.lanes) for o in offsets]


def _find_row_maxima(b: Builder, plan: AttentionPlan, block: QueryBlock, parts: AttentionScratch) -> list[Reg]:
    """The largest score of each row, NaN left out; masked scores are stored on the way."""
    kind, (row, count, seen) = plan.kind, block
    largest = [b.constant(-math.inf, kind)] * (plan.high // kind.lanes)

    def over(low: Reg | int, high: Reg | int, hidden: bool) -> None:
        def compare_keys(first: Reg, step: int, carried: Sequence[Reg]) -> Sequence[Reg]:
            found = list(carried)
            masked = None if plan.mask is None else [p for p, _ in weight_addresses(b, plan, parts.mask, first, step)]
            for i, (place, u) in enumerate(weight_addresses(b, plan, parts.weights, first, step)):
                score = b.load(place, kind)
                if masked is not None:
                    score = b.add(score, b.load(masked[i], kind))
                if hidden:
                    key = b.add(first, i * kind.lanes // plan.high)
                    score = b.select(b.lt(numbers[u], b.cast(key, I32)), -math.inf, score)
                if hidden or masked is not None:
                    b.store(score, place)
                found[u] = b.select(b.gt(score, found[u]), score, found[u])
            return found

        largest[:] = run_range(b, range_of_keys(plan, low, high), largest, compare_keys)

    if not plan.causal:
        over(0, seen, hidden=False)
        return largest
    last = plan.high - 1 if isinstance(count, Reg) else count - 1  # lanes beyond are ignored
    numbers = [
        b.add(b.vector([min(u * kind.lanes + i, last) for i in range(kind.lanes)], I32), b.cast(row, I32))
        for u in range(len(largest))
    ]
    # Keys up to the block's first row are seen by all its rows: only the few after them need a comparison of numbers.
    below: Reg | int = 0  # all rows see these keys
    if plan.is_ragged or plan.blocks > 1:
        even = b.bitwise_and(row, -2) if range_of_keys(plan, 0, seen).unroll == 2 else row
        below = b.minimum(even, seen)
        over(0, below, hidden=False)
    over(below, seen, hidden=True)
    return largest


def write_mask(b: Builder, plan: AttentionPlan, mask: Reg, block: QueryBlock, parts: AttentionScratch) -> None:
    """The part of the mask for a block of rows, as numbers to be added, transposed."""
    assert plan.mask is not None
    kind, scalar = plan.kind, plan.kind.scalar
    (rows, keys), (down, along) = plan.mask.shape[-2:], plan.mask.strides[-2:]
    down, along = (0 if rows == 1 else down), (0 if keys == 1 else along)
    source = b.gep(mask, b.mul(block.row, down), BOOL if plan.truths else scalar)
    given = TileMatrix(source, down, along)
    if plan.truths:
        given = TileMatrix(parts.plain_mask, plan.keys)

        def as_numbers(place: Reg, into: Reg, mask: Reg | int | None) -> None:
            if along == 1:
                taken = b.load(place, BOOL.of(kind.lanes), mask)
            elif along:
                taken = b.gather(place, lane_offsets(b, kind.lanes, along), BOOL, mask)
            else:
                taken = b.broadcast(b.load(place, BOOL), kind.lanes)
            b.store(b.select(taken, b.constant(0.0, kind), -math.inf), into, mask)

        with b.loop(0, block.present) as turn:
            line = b.gep(source, b.mul(turn.index, down), BOOL)
            into = b.gep(parts.plain_mask, b.mul(turn.index, plan.keys), scalar)
            whole = plan.keys - plan.keys % kind.lanes
            if is_symbolic_size(whole) or whole:
                with b.loop(0, whole, kind.lanes) as piece:
                    as_numbers(b.gep(line, b.mul(piece.index, along), BOOL), b.gep(into, piece.index, scalar), None)
            if is_symbolic_size(whole):
                rest = b.lane_mask(as_index(b, plan.keys - whole), kind.lanes)
                as_numbers(b.gep(line, whole * along, BOOL), b.gep(into, whole, scalar), rest)
            elif whole < plan.keys:
                as_numbers(b.gep(line, whole * along, BOOL), b.gep(into, whole, scalar), plan.keys - whole)
    write_transposed(b, kind, given, block.present, plan.keys, parts.mask, plan.high)


def exp_nonpositive(b: Builder, x: Reg) -> Reg:
    """e^x for x <= 0 or NaN; 0 where it would be denormal. Without the care for ends of the range that `exp` takes."""
    wide = x.type.bits == 64
    digits, integer = (52, I64) if wide else (23, I32)
    rounder, bias = (6755399441055744.0, 1023) if wide else (12582912.0, 127)
    high, low = (LN2_HIGH, LN2_LOW) if wide else (LN2_HIGH_32, LN2_LOW_32)
    shifted = b.fma(x, 1.0 / math.log(2.0), rounder)
    n = b.sub(shifted, rounder)
    r = b.fma(n, -low, b.fma(n, -high, x))
    p = b.fma(b.mul(r, r), b.horner(r, DOUBLE if wide else SINGLE), r)
    # the low bits of `shifted` are the exponent: moved into place, they push out the rest
    power = b.bitcast(b.add(b.shl(b.bitcast(shifted, integer), digits), bias << digits), x.type.scalar)
    return b.select(b.lt(x, -708.0 if wide else -87.0), 0.0, b.fma(power, p, power))
