"""The step that all factorizations and solutions are made of: a few rows less a product, then solved or factored.

Rows i … i + r of X become T⁻¹ (X[i:i+r] - L[i:i+r, :i] X[:i]), of the triangle T = L[i:i+r, i:i+r]. Row after row of
such blocks this solves L X = B in place. Where L is Uᵀ and X is U itself, it is Cholesky's factorization.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import BOOL, I64, PTR, Reg, Type

VECTORS = 3  # registers of a row that are computed together
SUMMED_STEPS = 64  # products that are summed before the sum is subtracted


class RowBlocking(NamedTuple):
    """The rows of a block, of which the sums of `VECTORS` registers each stay in registers, and the type of one."""

    rows: int
    vector: Type

    @property
    def scalar(self) -> Type:
        return self.vector.scalar

    @property
    def heights(self) -> list[int]:
        """The rows of the blocks at the end, each half as high as the one before."""
        return [self.rows >> i for i in range(self.rows.bit_length())]


class MatrixAddress(NamedTuple):
    """Rows in memory: the address of the first element, and the steps between rows and columns, in elements."""

    pointer: Reg
    row: Reg
    column: Reg


class RowBlock(NamedTuple):
    """Rows of X at `x`, which are `step` elements apart, with `depth` solved rows above, and as many of L.

    `own`: the address of the block's first row, if it does not follow those.
    """

    left: MatrixAddress
    x: Reg
    step: Reg
    depth: Reg
    rows: int
    own: Reg | None = None


def choose_blocking(target: Target, kind: Type) -> RowBlocking:
    """Return the blocking for numbers of this type: the sums and three registers more fill the machine's."""
    rows = 8 if target.vector_registers == 32 else 4
    return RowBlocking(rows, kind.of(max(target.lanes(kind), rows)))


def write_solve_rows(b: Builder, blocking: RowBlocking, rows: int) -> None:
    """`solve_rows<r>(left, its steps, x, its step, depth, columns, unit)`: the step for so many columns of X."""
    vector, scalar = blocking.vector, blocking.scalar
    with b.function(f"solve_rows{rows}", [PTR, I64, I64, PTR, I64, I64, I64, BOOL]) as parameters:
        left, row, column, x, step, depth, columns, unit = parameters
        block = RowBlock(MatrixAddress(left, row, column), x, step, depth, rows)
        triangle = _copy_triangle(b, block, scalar, unit)

        def solve(at: Reg, vectors: int, mask: Reg | None) -> None:
            sums = subtract_product(b, block._replace(x=b.gep(x, at, scalar)), vector, vectors, mask)
            own = b.gep(b.gep(x, at, scalar), b.mul(depth, step), scalar)
            for r in range(rows):
                pivot = b.broadcast(b.load(b.gep(triangle, r * rows + r, scalar), scalar), vector.lanes)
                solved = [b.div(value, pivot) for value in sums[r]]
                for s in range(r + 1, rows):
                    factor = b.load(b.gep(triangle, s * rows + r, scalar), scalar)
                    negative = b.neg(b.broadcast(factor, vector.lanes))
                    sums[s] = [b.fma(negative, x, y) for x, y in zip(solved, sums[s], strict=True)]
                store_row(b, solved, own, mask)
                own = b.gep(own, step, scalar)

        for_columns(b, vector, columns, solve)


def write_factor_rows(b: Builder, blocking: RowBlocking, rows: int) -> None:
    """`factor_rows<r>(u, step, depth)`: the step for the block of U on the diagonal, which it factors.

    u: the address of the block's column in the first row. Returns the row, from 1, whose pivot is not positive, or 0.
    """
    vector, scalar = blocking.vector, blocking.scalar
    with b.function(f"factor_rows{rows}", [PTR, I64, I64], I64) as (u, step, depth):
        mask = b.lane_mask(rows, vector.lanes)
        one = b.constant(1, I64)
        block = RowBlock(MatrixAddress(u, one, step), u, step, depth, rows)
        sums = [line[0] for line in subtract_product(b, block, vector, 1, mask)]
        fault, own = b.constant(0, I64), b.gep(u, b.mul(depth, step), scalar)
        for r in range(rows):
            pivot = b.extract(sums[r], r)
            failed = b.logical_and(b.eq(fault, 0), b.logical_not(b.gt(pivot, 0.0)))
            fault = b.select(failed, b.add(depth, r + 1), fault)
            root = b.sqrt(pivot)
            sums[r] = b.insert(b.div(sums[r], b.broadcast(root, vector.lanes)), root, r)
            for s in range(r + 1, rows):
                negative = b.neg(b.broadcast(b.extract(sums[r], s), vector.lanes))
                sums[s] = b.fma(negative, sums[r], sums[s])
            store_row(b, [sums[r]], own, mask)
            own = b.gep(own, step, scalar)
        b.returns(fault)


def for_columns(
    b: Builder, vector: Type, columns: Reg, body: Callable[[Reg, int, Reg | None], None], vectors: int = VECTORS
) -> None:
    """`body(first column, registers, mask)` for all columns: several registers at once, then one by one."""
    width = vectors * vector.lanes
    whole = b.mul(b.floor_divide(columns, width), width)
    with b.loop(0, whole, width) as panel:
        body(panel.index, vectors, None)
    with b.loop(whole, columns, vector.lanes) as panel:
        body(panel.index, 1, b.lane_mask(b.sub(columns, panel.index), vector.lanes))


def subtract_product(b: Builder, block: RowBlock, vector: Type, vectors: int, mask: Reg | None) -> list[list[Reg]]:
    """The block's rows less L times the rows above them, in registers.

    The product is summed by itself, so many steps at a time: what it is taken from may be large, and is rounded as
    often.
    """
    scalar, lanes = vector.scalar, vector.lanes
    rows, step = block.rows, block.step
    own = b.gep(block.x, b.mul(block.depth, step), scalar) if block.own is None else block.own

    def subtract(sums: Sequence[Reg], stored: bool) -> list[list[Reg]]:
        place, found = own, []
        for r in range(rows):
            line = [b.load(b.gep(place, c * lanes, scalar), vector, mask) for c in range(vectors)]
            line = [b.sub(x, y) for x, y in zip(line, sums[r * vectors : (r + 1) * vectors], strict=True)]
            if stored:
                store_row(b, line, place, mask)
            found.append(line)
            place = b.gep(place, step, scalar)
        return found

    whole = b.maximum(b.bitwise_and(b.sub(block.depth, 1), -SUMMED_STEPS), 0)
    with b.loop(0, whole, SUMMED_STEPS, carried=[block.left.pointer, block.x]) as turn:
        start = (turn.carried[0], turn.carried[1])
        at, above, *sums = _sum_products(b, block, start, b.constant(SUMMED_STEPS, I64), vector, vectors, mask)
        subtract(sums, stored=True)
        turn.yields(at, above)
    start = (turn.results[0], turn.results[1])
    _, _, *sums = _sum_products(b, block, start, b.sub(block.depth, whole), vector, vectors, mask)
    return subtract(sums, stored=False)


def _sum_products(
    b: Builder, block: RowBlock, start: tuple[Reg, Reg], steps: Reg, vector: Type, vectors: int, mask: Reg | None
) -> tuple[Reg, ...]:
    """The addresses of L and X after so many steps from `start`, and the sums."""
    # The plain loop: for k in range(steps): sums[r, :] += left[r, k] * x[k, :].
    # Unrolled: all sums stay in registers, so that each load of x serves all rows and each element of L all registers.
    scalar, lanes = vector.scalar, vector.lanes
    lines = [b.mul(block.left.row, r) for r in range(block.rows)]
    zeros = [b.constant(0.0, vector)] * (block.rows * vectors)
    with b.loop(0, steps, carried=[*start, *zeros]) as turn:
        at, above, *sums = turn.carried
        line = [b.load(b.gep(above, c * lanes, scalar), vector, mask) for c in range(vectors)]
        for r in range(block.rows):
            factor = b.broadcast(b.load(b.gep(at, lines[r], scalar), scalar), lanes)
            for c in range(vectors):
                sums[r * vectors + c] = b.fma(factor, line[c], sums[r * vectors + c])
        turn.yields(b.gep(at, block.left.column, scalar), b.gep(above, block.step, scalar), *sums)
    return turn.results


def store_row(b: Builder, values: Sequence[Reg], place: Reg, mask: Reg | None) -> None:
    """Store the registers of a row."""
    for c, value in enumerate(values):
        b.store(value, b.gep(place, c * value.type.lanes, value.type), mask)


def _copy_triangle(b: Builder, block: RowBlock, scalar: Type, unit: Reg) -> Reg:
    """The block's triangle of L in one piece, with ones on its diagonal if `unit`."""
    rows, left = block.rows, block.left
    triangle = b.stack(rows * rows, scalar)
    at = b.gep(left.pointer, b.mul(block.depth, left.column), scalar)
    for r in range(rows):
        element = at
        for s in range(r + 1):
            value = b.load(element, scalar)
            if s == r:
                value = b.select(unit, 1.0, value)
            b.store(value, b.gep(triangle, r * rows + s, scalar))
            element = b.gep(element, left.column, scalar)
        at = b.gep(at, left.row, scalar)
    return triangle
