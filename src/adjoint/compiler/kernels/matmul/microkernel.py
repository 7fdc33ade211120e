"""The innermost loops of a matrix product: one block of the result, summed over a stretch of the depth in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.kernels.index_arithmetic import (
    Index,
    add_index,
    advance_address,
    as_index,
    is_zero,
    subtract_index,
)
from adjoint.compiler.kernels.matmul import bf16_pairs
from adjoint.compiler.kernels.matmul.packing import fold_lanes
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import Reg, Type

Sums = tuple[Reg, ...]
WriteSteps = Callable[..., Sums]


class LoadSource(NamedTuple):
    """An operand as a block reads it: its first element, the strides between its lines and between their elements."""

    pointer: Reg
    line: int
    step: int
    lines: tuple[Reg, ...] = ()  # where each line begins, if they are not equally far apart

    def address(self, b: Builder, start: Reg, line: int, by: int, type: Type) -> Reg:
        """The address `by` elements after the `start` of the first line, or of another one."""
        if self.lines:
            return advance_address(b, b.gep(start, self.lines[line], type), by, 1, type)
        return advance_address(b, start, line * self.line + by, 1, type)


class ColumnSpan(NamedTuple):
    """Neighbouring columns of a panel, in registers; `last` masks the last one where the call tells how full it is."""

    width: int
    last: Reg | None = None

    def mask(self, start: int, lanes: int) -> Reg | int | None:
        """The mask of the register of so many `lanes` that begins at a column."""
        if start + lanes < self.width:
            return None
        return self.width - start if self.last is None and start + lanes > self.width else self.last


class DepthRange(NamedTuple):
    """A part of the depth: turns of `unit` steps up to `whole`, and a `rest` which is left after the `last` stretch."""

    unit: int
    whole: Index
    rest: int  # less than `unit`
    last: Reg | None  # whether this one is; None: there are no others


def sum_columns(
    b: Builder,
    left: LoadSource,
    right: LoadSource,
    vector: Type,
    rows: int,
    span: ColumnSpan,
    sets: int,
    stretch: DepthRange,
    packed: bool,
    paired: bool = False,
) -> list[list[Reg]]:
    """Registers of neighbouring columns for each row.

    `packed`: there is something behind the last column; `paired`: a step is that of a pair.
    """
    # The plain loop: for k in range(depth): for r, j: total[r, j] += left[r, k] * right[k, j].
    # Unrolled: all `rows` × `width` totals stay in registers, so that each load of the right operand serves `rows` fmas
    # and each broadcast of the left one serves a row of registers. `sets` of totals take turns, because an fma needs
    # four cycles until the next may add to the same register.
    lanes = vector.lanes
    starts = range(0, span.width, lanes)
    each = rows * len(starts)
    multiply_add = partial(bf16_pairs.multiply_add, b) if paired else b.fma

    def step(k: Index, count: Index, sums: Sums, taken: int = 0) -> Sums:
        new = list(sums)
        down = advance_address(b, left.pointer, k, left.step, vector)
        line = advance_address(b, right.pointer, k, right.step, vector)
        for u in range(count) if isinstance(count, int) else range(1):
            at = advance_address(b, line, u, right.step, vector)
            values = [
                b.load(advance_address(b, at, s, 1, vector), vector, None if packed else span.mask(s, lanes))
                for s in starts
            ]
            first = (taken + u) % sets * each
            for r in range(rows):
                element = b.load(left.address(b, down, r, u * left.step, vector), vector.scalar)
                spread = b.broadcast(element, lanes)
                for value in values:
                    new[first] = multiply_add(spread, value, new[first])
                    first += 1
        return tuple(new)

    zero = b.constant(0.0, vector)
    sums = _run_depth(b, stretch, (zero,) * (each * sets), step, 1)
    totals = _sum_sets(b, sums, sets)
    return [list(totals[r * len(starts) : (r + 1) * len(starts)]) for r in range(rows)]


def sum_depth(
    b: Builder, left: LoadSource, right: LoadSource, vector: Type, rows: int, width: int, sets: int, stretch: DepthRange
) -> list[list[Reg]]:
    """One register for each row, of as many sums as there are columns."""
    # The plain loop: total[r, c] = sum of left[r, k] * right[k, c] over k, where both lie along the depth.
    # Unrolled: a register of depth at a time, `rows` + `width` loads for `rows` × `width` fmas; lanes are added once,
    # at the end. The shorter side is held in registers, the other is loaded line by line.
    lanes = vector.lanes
    each = rows * width

    def step(k: Index, count: Index, sums: Sums, taken: int = 0) -> Sums:
        new = list(sums)
        x, y = advance_address(b, left.pointer, k, 1, vector), advance_address(b, right.pointer, k, 1, vector)
        for u, start in enumerate(range(0, count, lanes) if isinstance(count, int) else range(1)):
            # of the last steps, a part of a register
            mask = count - start if isinstance(count, int) else b.lane_mask(count, lanes)
            lines = [b.load(left.address(b, x, r, start, vector), vector, mask) for r in range(rows)]
            first = (taken + u) % sets * each
            if width < rows:
                columns = [
                    b.load(advance_address(b, y, c * right.line + start, 1, vector), vector, mask) for c in range(width)
                ]
                for r in range(rows):
                    for c in range(width):
                        new[first + r * width + c] = b.fma(lines[r], columns[c], new[first + r * width + c])
                continue
            for c in range(width):
                column = b.load(advance_address(b, y, c * right.line + start, 1, vector), vector, mask)
                for r in range(rows):
                    new[first + r * width + c] = b.fma(lines[r], column, new[first + r * width + c])
        return tuple(new)

    sums = _run_depth(b, stretch, (b.constant(0.0, vector),) * (each * sets), step, lanes)
    totals = _sum_sets(b, sums, sets)
    return [[fold_lanes(b, totals[r * width : (r + 1) * width])] for r in range(rows)]


def _run_depth(b: Builder, stretch: DepthRange, sums: Sums, step: WriteSteps, each: int) -> Sums:
    """The sums after all steps of a stretch; `step(k, count, sums)` writes `count` of them, `each` with a sum."""
    if not is_zero(stretch.whole):
        with b.loop(0, stretch.whole, stretch.unit, carried=sums) as turn:
            turn.yields(*step(turn.index, stretch.unit, turn.carried))
        sums = turn.results
    if is_zero(stretch.rest):
        return sums
    if is_symbolic_size(stretch.rest):
        return _run_rest(b, stretch, sums, step, each)
    if stretch.last is None:
        return step(stretch.whole, stretch.rest, sums)
    with b.when(stretch.last, sums) as branch:
        branch.yields(*step(stretch.whole, stretch.rest, sums))
    return branch.results


def _run_rest(b: Builder, stretch: DepthRange, sums: Sums, step: WriteSteps, each: int) -> Sums:
    """The sums after the rest of the steps, of which there may be any number: one after another, while there are."""
    whole, rest = as_index(b, stretch.whole), as_index(b, stretch.rest)
    for taken, start in enumerate(range(0, stretch.unit if each > 1 else stretch.unit - 1, each)):
        exists = b.gt(rest, start)
        with b.when(exists if stretch.last is None else b.logical_and(exists, stretch.last), sums) as branch:
            left = subtract_index(b, rest, start) if start else rest
            branch.yields(*step(add_index(b, whole, start), left, sums, taken))
        sums = branch.results
    return sums


def _sum_sets(b: Builder, sums: Sequence[Reg], sets: int) -> Sequence[Reg]:
    """The sums of all sets added, halving them in a fixed order."""
    # The plain loop adds set after set; halving makes log2(sets) dependent additions of them.
    while sets > 1:
        half = len(sums) // 2
        sums = [b.add(x, y) for x, y in zip(sums[:half], sums[half:], strict=True)]
        sets //= 2
    return sums
