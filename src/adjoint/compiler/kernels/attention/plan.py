"""The plan of an attention kernel: blocks of rows, tiles, scratch memory; or the reason against one."""

from __future__ import annotations

import math
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import size_value
from adjoint.compiler.kernels.attention.tile_matmul import tile_shape
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
    def present(self) -> int:
        """Rows in a block."""
        return min(self.high, self.rows)


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
    high = lanes if causal or q.shape[-2] <= lanes else 2 * lanes
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
    if scratch > MAX_SCRATCH_BYTES and not reason:
        reason = f"the weights of {high} rows take {scratch} bytes"
    units = empty.heads * (1 if gradient else empty.blocks)
    rows = q.shape[-2] if gradient else empty.present
    seconds = (
        (5 if gradient else 2)
        * size_value(rows * empty.keys)
        * (q.shape[-1] + v.shape[-1])
        * scalar.itemsize
        / 4
        / 1e11
    )
    seconds *= target.slowdown
    each = min(max(round(TILE_SECONDS / seconds), 1), size_value(units)) if seconds else 1
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


def count_visible_keys(b: Builder, plan: AttentionPlan, row: Reg) -> Reg | int:
    """Return how many keys the block that begins at `row` sees, rounded up to whole tiles."""
    high = plan.shapes[0][0]
    if not plan.causal:
        return plan.keys
    if plan.blocks == 1:
        return min(plan.keys, -(-plan.present // high) * high)
    last = b.add(row, plan.present + high - 1)
    rounded = b.mul(b.emit(f"udiv i64 {last.name}, {high}", I64), high)
    return b.minimum(rounded, plan.keys)


def unroll_of_keys(plan: AttentionPlan) -> int:
    """Steps written out in a loop over the keys seen."""
    return 2 if plan.keys % 2 == 0 and plan.shapes[0][0] % 2 == 0 else 1
