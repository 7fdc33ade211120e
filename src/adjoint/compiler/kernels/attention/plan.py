"""The plan of an attention kernel: blocks of rows, tiles, scratch memory; or the reason against one."""

from __future__ import annotations

import math
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import has_symbols, is_symbolic_size, size_value
from adjoint.compiler.kernels.attention.tile_matmul import SummedRange, even_unroll, tile_shape
from adjoint.compiler.kernels.index_arithmetic import as_index
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I64, Reg, Type

Strides = tuple[int, ...]
MAX_SCRATCH_BYTES = 2**23  # bytes for a thread, beyond which the weights of a block of rows are in no cache
TILE_SECONDS = 5e-6  # seconds that a tile is to take, if there is as much to do


class MatrixStack(NamedTuple):
    """Matrices (…, rows, columns): element (i, j, …) lies `i · strides[0] + j · strides[1] + …` elements on."""

    shape: tuple[int, ...]
    strides: Strides


class AttentionPlan(NamedTuple):
    """The plan of attention of `kind`; with a `reason` against it there is no kernel."""

    kind: Type  # a register of elements
    q: MatrixStack
    k: MatrixStack
    v: MatrixStack
    mask: MatrixStack | None
    truths: bool  # the mask is one of bools, not of numbers to be added
    scale: float
    causal: bool
    high: int  # rows done at a time, across the lanes
    shapes: tuple[tuple[int, int], ...]  # in registers: of what lies across rows, across E, across Ev
    units: int  # pieces of work: blocks of rows of every head, or heads for the gradient
    each: int  # of these in a tile
    tiles: int
    scratch: int  # bytes for each thread
    reason: str

    @property
    def rows(self) -> int:
        return self.q.shape[-2]

    @property
    def keys(self) -> int:
        return self.k.shape[-2]

    @property
    def blocks(self) -> int:
        """Blocks of rows in a head; the last one begins where it ends with the last row."""
        return -(-self.rows // self.high)

    @property
    def heads(self) -> int:
        return math.prod(self.q.shape[:-2])

    @property
    def is_ragged(self) -> bool:
        """True if the last block may have any number of rows, for only the call tells how many there are."""
        return is_symbolic_size(self.rows)


def plan_attention(
    target: Target,
    scalar: Type,
    q: MatrixStack,
    k: MatrixStack,
    v: MatrixStack,
    mask: MatrixStack | None = None,
    *,
    truths: bool = False,
    scale: float,
    causal: bool,
    gradient: bool = False,
) -> AttentionPlan:
    """The plan for heads (…, L, E), (…, S, E), (…, S, Ev) of equal leading dimensions, a mask broadcast to (…, L, S).

    Its tiles are the blocks of rows of every head, or the heads if it is for the `gradient`.
    """
    lanes = target.lanes(scalar)
    # with two registers across, keys are read half as often; with one, fewer are read that no row sees
    few = not is_symbolic_size(q.shape[-2]) and q.shape[-2] <= lanes
    high = lanes if causal or few else 2 * lanes
    shapes = tuple(tile_shape(target, -(-n // lanes)) for n in (high, q.shape[-1], v.shape[-1]))
    reason = ""
    if not scalar.is_float:
        reason = f"elements are {scalar}"
    elif 0 in (*q.shape, *k.shape, *v.shape):
        reason = "it has no elements"
    elif any(x.strides[-1] != 1 and x.shape[-1] > 1 for x in (q, k, v)):
        reason = "rows of an operand do not lie in one piece"
    empty = AttentionPlan(scalar.of(lanes), q, k, v, mask, truths, scale, causal, high, shapes, 0, 0, 0, 0, reason)
    scratch = sum(_scratch_sizes(empty, gradient)) * scalar.itemsize
    if size_value(scratch) > MAX_SCRATCH_BYTES and not reason:
        reason = f"the weights of {high} rows take {scratch} bytes"
    units = empty.heads * (1 if gradient else empty.blocks)
    pairs = empty.keys * (q.shape[-2] if gradient or few else high)
    one = (5 if gradient else 2) * (q.shape[-1] + v.shape[-1]) * scalar.itemsize / 4 / 1e11 * target.slowdown
    if is_symbolic_size(pairs):
        each = int(TILE_SECONDS / one) // pairs + 1
    else:
        each = min(max(round(TILE_SECONDS / (one * pairs)), 1), size_value(units)) if pairs * one else 1
    return empty._replace(units=units, each=each, tiles=-(-units // each), scratch=scratch, reason=reason)


class AttentionScratch(NamedTuple):
    """The layout of the scratch memory: each array is [column or key][row of the block]."""

    rows: Reg  # of q, transposed
    weights: Reg
    inverse: Reg
    mask: Reg
    plain_mask: Reg  # as numbers, before it is transposed
    above: Reg  # of the gradient that arrives, transposed
    slopes: Reg
    along: Reg


def _scratch_sizes(plan: AttentionPlan, gradient: bool) -> list[int]:
    """The elements of each piece."""
    high, keys = plan.high, plan.keys
    masked = keys * high if plan.mask is not None else 0
    own = [plan.q.shape[-1] * high, keys * high, high, masked, masked if plan.truths else 0]
    sizes = [*own, *((plan.v.shape[-1] * high, keys * high, high) if gradient else (0, 0, 0))]
    return [-(-n // 64) * 64 for n in sizes]


def split_scratch(b: Builder, plan: AttentionPlan, scratch: Reg, gradient: bool = False) -> AttentionScratch:
    """The pieces of this thread's scratch memory."""
    found, offset = [], 0
    for size in _scratch_sizes(plan, gradient):
        found.append(b.gep(scratch, offset, plan.kind.scalar))
        offset += size
    return AttentionScratch(*found)


class QueryBlock(NamedTuple):
    """A block of rows of a head: its first row, how many there are, and how many keys they see."""

    row: Reg
    present: Reg | int
    seen: Reg | int

    @classmethod
    def of(cls, b: Builder, plan: AttentionPlan, block: Reg) -> QueryBlock:
        """Return a block by its number: where there are rows for one, a known number of them is in whole blocks."""
        rows, high = plan.rows, plan.high
        if plan.is_ragged:
            row = b.mul(block, high)
            count: Reg | int = b.minimum(b.sub(rows, row), high)
        elif plan.blocks == 1:
            row, count = b.constant(0, I64), rows
        else:
            row, count = b.mul(block, high), high
            row = b.minimum(row, rows - high) if rows % high else row
        return cls(row, count, _count_visible_keys(b, plan, row, count))


def _count_visible_keys(b: Builder, plan: AttentionPlan, row: Reg, count: Reg | int) -> Reg | int:
    """Return how many keys rows from `row` on see, rounded up to whole tiles."""
    high, keys = plan.shapes[0][0], plan.keys
    if not plan.causal:
        return as_index(b, keys) if is_symbolic_size(keys) else keys
    if not has_symbols((plan.rows, keys)) and plan.blocks == 1:
        return min(keys, -(-plan.rows // high) * high)
    last = b.add(b.add(row, count), high - 1)
    rounded = b.mul(b.emit(f"udiv i64 {last.name}, {high}", I64), high)
    return b.minimum(rounded, as_index(b, keys))


def range_of_keys(plan: AttentionPlan, low: Reg | int, high: Reg | int) -> SummedRange:
    """The loop over keys: how many of them have their steps in one turn."""
    if is_symbolic_size(plan.keys):
        return SummedRange(low, high, 2, is_exact=False)
    return SummedRange(low, high, 2 if plan.keys % 2 == 0 and plan.shapes[0][0] % 2 == 0 else 1)


def range_of_rows(low: Reg | int, count: Reg | int) -> SummedRange:
    """The loop over the rows of a block from `low` on."""
    if isinstance(count, Reg):
        return SummedRange(low, count, 2, is_exact=False)
    return SummedRange(low, count, 1 if low else even_unroll(count))
