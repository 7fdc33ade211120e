"""The gradient of the attention kernel: all of one head, a block of rows at a time, its weights computed again.

dv += wᵀ g, s = w (g vᵀ - Σ w g vᵀ), dq = s k · scale, dk += sᵀ q · scale. The weights w and the slopes s lie as in the
attention kernel. The sums over rows are in memory, in an order that depends on nothing but the shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from adjoint.compiler.kernels.attention.forward import offset_to_head, write_units
from adjoint.compiler.kernels.attention.plan import (
    AttentionPlan,
    AttentionScratch,
    MatrixStack,
    QueryBlock,
    range_of_keys,
    range_of_rows,
    split_scratch,
)
from adjoint.compiler.kernels.attention.softmax_block import weight_addresses, write_mask, write_weights
from adjoint.compiler.kernels.attention.tile_matmul import (
    SummedRange,
    Tile,
    TileMatrix,
    even_unroll,
    for_row_blocks,
    multiply,
    panels,
    run_range,
    store_tile,
)
from adjoint.compiler.kernels.attention.transpose import write_transposed
from adjoint.compiler.kernels.index_arithmetic import unravel_index
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg


class StridedPointer(NamedTuple):
    """A stack of matrices in memory: its first element, and the steps between elements."""

    pointer: Reg
    strides: tuple[int, ...]


def write_attention_gradient(
    b: Builder,
    plan: AttentionPlan,
    g: StridedPointer,
    q: Reg,
    k: Reg,
    v: Reg,
    mask: Reg | None,
    results: tuple[StridedPointer, StridedPointer, StridedPointer],
    scratch: Reg,
    tile: Reg,
) -> None:
    """One tile: dq, dk and dv of some heads, from g, which has the shape of the attention's result."""

    def unit(head: Reg) -> None:
        _write_head(b, plan, g, (q, k, v), mask, results, split_scratch(b, plan, scratch, gradient=True), head)

    write_units(b, plan, tile, unit)


def _write_head(
    b: Builder,
    plan: AttentionPlan,
    g: StridedPointer,
    operands: tuple[Reg, Reg, Reg],
    mask: Reg | None,
    results: tuple[StridedPointer, StridedPointer, StridedPointer],
    parts: AttentionScratch,
    head: Reg,
) -> None:
    lead = plan.q.shape[:-2]
    at = unravel_index(b, head, lead)

    def matrix(placed: StridedPointer) -> TileMatrix:
        return TileMatrix(
            offset_to_head(b, placed.pointer, MatrixStack(lead, placed.strides), at, plan), placed.strides[-2]
        )

    q, k, v = (
        matrix(StridedPointer(p, stack.strides)) for p, stack in zip(operands, (plan.q, plan.k, plan.v), strict=True)
    )
    given = HeadOperands(q, k, v, matrix(g))
    dq, dk, dv = (matrix(placed) for placed in results)
    one = not plan.is_ragged and plan.blocks == 1
    first = QueryBlock.of(b, plan, b.constant(0, I64))
    # A head that is one block of rows writes dk and dv once; several blocks add to them, from zero.
    covered = one and first.seen == plan.keys
    if not covered:
        for into, size, shape in ((dk, plan.q.shape[-1], plan.shapes[1]), (dv, plan.v.shape[-1], plan.shapes[2])):
            _clear_rows(b, plan, into, size, shape)
    base = None if mask is None or plan.mask is None else offset_to_head(b, mask, plan.mask, at, plan)
    if one:
        _write_row_block(b, plan, given, base, (dq, dk, dv), first, first.row, parts, add=not covered)
        return
    with b.loop(0, plan.blocks) as turn:
        block = QueryBlock.of(b, plan, turn.index)
        _write_row_block(b, plan, given, base, (dq, dk, dv), block, b.mul(turn.index, plan.high), parts, add=True)


class HeadOperands(NamedTuple):
    """The matrices of one head."""

    q: TileMatrix
    k: TileMatrix
    v: TileMatrix
    g: TileMatrix


def _clear_rows(b: Builder, plan: AttentionPlan, into: TileMatrix, columns: int, shape: tuple[int, int]) -> None:
    kind = plan.kind

    def rows(row: Reg, count: int) -> None:
        corner = b.gep(into.pointer, b.mul(row, into.row), kind.scalar)
        for first, vectors, mask, times in panels(columns, 1, kind.lanes):
            for c in range(times):
                for r in range(count):
                    place = b.gep(corner, first + r * into.row + c * vectors * kind.lanes, kind.scalar)
                    b.store(b.constant(0.0, kind), place, mask)

    for_row_blocks(b, plan.keys, plan.keys, 1, rows)


def _write_row_block(
    b: Builder,
    plan: AttentionPlan,
    given: HeadOperands,
    mask: Reg | None,
    results: tuple[TileMatrix, TileMatrix, TileMatrix],
    block: QueryBlock,
    start: Reg,
    parts: AttentionScratch,
    add: bool,
) -> None:
    """Add one block of rows to the gradients; without `add`, dk and dv are written for the first time.

    `start`: the first row that no block before has done.
    """
    kind, high, (dq, dk, dv) = plan.kind, plan.high, results
    row, count, seen = block

    def from_row(m: TileMatrix) -> TileMatrix:
        return (
            m._replace(pointer=b.gep(m.pointer, b.mul(row, m.row), kind.scalar))
            if plan.is_ragged or plan.blocks > 1
            else m
        )

    q, g = from_row(given.q), from_row(given.g)
    if mask is not None:
        write_mask(b, plan, mask, block, parts)
    inverse = write_weights(b, plan, q, given.k, block, parts)
    _write_slopes(b, plan, given.v, g, inverse, block, parts)
    # rows that an earlier block has done too count there
    overlaps = not plan.is_ragged and plan.rows > high and plan.rows % high
    rows = range_of_rows(b.sub(start, row) if overlaps else 0, count)
    across, wanted = TileMatrix(parts.weights, high), (plan.keys, seen)
    # With P the weights and S the gradient of the scores: dv = Pᵀ g, dk = scale · Sᵀ q, dq = scale · S k. The scores
    # are made again from q and k, as nothing of them was kept.
    size, width = plan.q.shape[-1], plan.v.shape[-1]
    multiply(b, kind, plan.shapes[2], across, g, wanted, width, rows, lambda t: store_tile(b, t, dv, add=add))
    across = TileMatrix(parts.slopes, high)

    def apply_scale(value: Reg, _: int) -> Reg:
        return b.mul(value, plan.scale)

    multiply(b, kind, plan.shapes[1], across, q, wanted, size, rows, lambda t: store_tile(b, t, dk, apply_scale, add))
    keys = range_of_keys(plan, 0, seen)
    into = from_row(dq)
    multiply(
        b,
        kind,
        plan.shapes[1],
        TileMatrix(parts.slopes, 1, high),
        given.k,
        (count, count),
        size,
        keys,
        lambda t: store_tile(b, t, into, apply_scale),
    )


def _write_slopes(
    b: Builder,
    plan: AttentionPlan,
    v: TileMatrix,
    g: TileMatrix,
    inverse: list[Reg],
    block: QueryBlock,
    parts: AttentionScratch,
) -> None:
    """The weights, divided by their sums, and what the scores' gradient is of them."""
    kind, width, high = plan.kind, plan.v.shape[-1], plan.high
    write_transposed(b, kind, g, block.present, width, parts.above, high)
    sums = [b.gep(parts.along, u * kind.lanes, kind.scalar) for u in range(len(inverse))]
    for place in sums:
        b.store(b.constant(0.0, kind), place)

    def finish(tile: Tile) -> None:
        """Store g vᵀ, and add it to the sums, weighed."""
        store_tile(b, tile, TileMatrix(parts.slopes, high))
        corner = b.gep(b.gep(parts.weights, b.mul(tile.row, high), kind.scalar), tile.column, kind.scalar)
        for u, place in enumerate(sums):
            total = b.load(place, kind)
            for r, values in enumerate(tile.values):
                weight = b.load(b.gep(corner, r * high + u * kind.lanes, kind.scalar), kind)
                total = b.fma(weight, values[u], total)
            b.store(total, place)

    depth = SummedRange(0, width, even_unroll(width))
    multiply(b, kind, plan.shapes[0], v, TileMatrix(parts.above, high), (plan.keys, block.seen), high, depth, finish)
    # S = P ∘ (g vᵀ - Σ P ∘ g vᵀ), the sum along the keys: it was taken while g vᵀ was stored.
    along = [b.mul(b.load(place, kind), i) for place, i in zip(sums, inverse, strict=True)]

    def divide_keys(key: Reg, step: int, sums: Sequence[Reg]) -> Sequence[Reg]:
        weights, slopes = (weight_addresses(b, plan, p, key, step) for p in (parts.weights, parts.slopes))
        for (weight, u), (slope, _) in zip(weights, slopes, strict=True):
            w = b.mul(b.load(weight, kind), inverse[u])
            b.store(w, weight)
            b.store(b.mul(w, b.sub(b.load(slope, kind), along[u])), slope)
        return sums

    run_range(b, range_of_keys(plan, 0, block.seen), (), divide_keys)
