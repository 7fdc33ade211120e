"""The attention kernel: blocks of rows of each head against all keys that they see, the weights in a cache.

Keys that no row of a block sees are left out: an infinite value there does not become NaN, as 0 · inf does in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjoint.compiler.kernels.attention.plan import (
    AttentionPlan,
    AttentionScratch,
    MatrixStack,
    QueryBlock,
    Strides,
    range_of_keys,
    split_scratch,
)
from adjoint.compiler.kernels.attention.softmax_block import write_mask, write_weights
from adjoint.compiler.kernels.attention.tile_matmul import TileMatrix, multiply, store_tile
from adjoint.compiler.kernels.index_arithmetic import divmod_index, is_one, unravel_index
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, I64, Reg


def write_attention(
    b: Builder,
    plan: AttentionPlan,
    q: Reg,
    k: Reg,
    v: Reg,
    mask: Reg | None,
    out: Reg,
    strides: Strides,
    scratch: Reg,
    tile: Reg,
) -> None:
    """One tile: blocks of rows of `out`, which has the shape of q but for the last size, that of v, and `strides`."""

    def unit(number: Reg) -> None:
        _write_rows(b, plan, (q, k, v), mask, out, strides, split_scratch(b, plan, scratch), number)

    write_units(b, plan, tile, unit)


def _write_rows(
    b: Builder,
    plan: AttentionPlan,
    given: tuple[Reg, Reg, Reg],
    mask: Reg | None,
    out: Reg,
    strides: Strides,
    parts: AttentionScratch,
    number: Reg,
) -> None:
    """One block of rows of a head."""
    head, place = divmod_index(b, number, plan.blocks)
    at = unravel_index(b, head, plan.q.shape[:-2])
    block = QueryBlock.of(b, plan, place)
    row = block.row
    pointers = [offset_to_head(b, p, s, at, plan) for p, s in zip(given, (plan.q, plan.k, plan.v), strict=True)]
    across = TileMatrix(b.gep(pointers[0], b.mul(row, plan.q.strides[-2]), plan.kind.scalar), plan.q.strides[-2])
    if mask is not None and plan.mask is not None:
        write_mask(b, plan, offset_to_head(b, mask, plan.mask, at, plan), block, parts)
    inverse = write_weights(b, plan, across, TileMatrix(pointers[1], plan.k.strides[-2]), block, parts)
    for u, total in enumerate(inverse):
        b.store(total, b.gep(parts.inverse, u * plan.kind.lanes, plan.kind.scalar))
    placed = b.gep(
        offset_to_head(b, out, MatrixStack(plan.q.shape, strides), at, plan), b.mul(row, strides[-2]), plan.kind.scalar
    )

    multiply(
        b,
        plan.kind,
        plan.shapes[2],
        TileMatrix(parts.weights, 1, plan.high),
        TileMatrix(pointers[2], plan.v.strides[-2]),
        (block.present, block.present),
        plan.v.shape[-1],
        range_of_keys(plan, 0, block.seen),
        lambda t: store_tile(
            b, t, TileMatrix(placed, strides[-2]), make_row_scaler(b, b.gep(parts.inverse, t.row, plan.kind))
        ),
    )


def write_units(b: Builder, plan: AttentionPlan, tile: Reg, unit: Callable[[Reg], None]) -> None:
    """`unit(number)` for the pieces of work of a tile."""
    if is_one(plan.each):
        unit(tile)
        return
    low = b.mul(tile, plan.each)
    with b.loop(low, b.minimum(b.add(low, plan.each), plan.units)) as turn:
        unit(turn.index)


def offset_to_head(b: Builder, pointer: Reg, stack: MatrixStack, at: Sequence[Reg], plan: AttentionPlan) -> Reg:
    """Return the address of a head's matrix."""
    total = b.constant(0, I64)
    for index, stride, size in zip(at, stack.strides, stack.shape, strict=False):
        if stride and size > 1:
            step = b.mul(index, stride)
            total = step if total.is_constant else b.add(total, step)
    kind = BOOL if stack is plan.mask and plan.truths else plan.kind.scalar
    return pointer if total.is_constant else b.gep(pointer, total, kind)


def make_row_scaler(b: Builder, inverse: Reg) -> Callable[[Reg, int], Reg]:
    """A change of a tile's registers: each row times its number, the first of them at `inverse`."""

    def change(value: Reg, r: int) -> Reg:
        kind = value.type
        return b.mul(value, b.broadcast(b.load(b.gep(inverse, r, kind.scalar), kind.scalar), kind.lanes))

    return change
