"""Cholesky's factorization of one matrix, and the solution of one triangular system, out of blocks of rows."""

from __future__ import annotations

from collections.abc import Callable

from adjoint.compiler.kernels.linalg.row_block import MatrixAddress, RowBlocking, write_factor_rows, write_solve_rows
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, I64, PTR, Reg, Type

SQUARE = 16  # rows and columns that are turned over at once


def write_solve(b: Builder, blocking: RowBlocking) -> None:
    """`solve(left, its steps, x, its step, n, columns, unit)`: X ← L⁻¹ X for a lower triangle L.

    An upper triangle is a lower one from its last element backwards: all steps are negative.
    """
    for rows in blocking.heights:
        write_solve_rows(b, blocking, rows)
    with b.function("solve", [PTR, I64, I64, PTR, I64, I64, I64, BOOL]) as parameters:
        left, row, column, x, step, n, columns, unit = parameters

        def solve(i: Reg, rows: int) -> None:
            at = b.gep(left, b.mul(i, row), blocking.scalar)
            b.call(f"solve_rows{rows}", [at, row, column, x, step, i, columns, unit])

        for_row_blocks(b, blocking, n, solve)


def write_cholesky(b: Builder, blocking: RowBlocking) -> None:
    """`cholesky(x, its steps, out, n, triangle)`: the lower triangle L with L Lᵀ = (x + xᵀ) / 2.

    `triangle`: only the lower triangle of x is read.
    Returns the order of the first leading minor that is not positive, or 0; then NaN is below and on the diagonal.
    """
    scalar = blocking.scalar
    for rows in blocking.heights:
        write_factor_rows(b, blocking, rows)
    with b.function("factor", [PTR, I64], I64) as (u, n):

        def factor(i: Reg, rows: int) -> None:
            at, after = b.gep(u, i, scalar), b.add(i, rows)
            fault = b.call(f"factor_rows{rows}", [at, n, i], I64)
            b.return_if(b.ne(fault, 0), fault)
            beside = b.gep(u, after, scalar)
            one, not_unit = b.constant(1, I64), b.constant(False, BOOL)
            b.call(f"solve_rows{rows}", [at, one, n, beside, n, i, b.sub(n, after), not_unit])

        for_row_blocks(b, blocking, n, factor)
        b.returns(b.constant(0, I64))
    with b.function("cholesky", [PTR, I64, I64, PTR, I64, BOOL], I64) as parameters:
        x, row, column, out, n, triangle = parameters
        _average(b, scalar, MatrixAddress(x, row, column), out, n, triangle)
        fault = b.call("factor", [out, n], I64)
        failed = b.ne(fault, 0)
        nan, zero = b.constant(float("nan"), scalar), b.constant(0.0, scalar)

        def turn(i: Reg, j: Reg) -> None:
            above = b.gep(out, b.add(b.mul(i, n), j), scalar)
            value = b.select(failed, nan, b.load(above, scalar))
            b.store(zero, above)
            b.store(value, b.gep(out, b.add(b.mul(j, n), i), scalar))  # last: on the diagonal both are one

        for_triangle(b, n, turn)
        b.returns(fault)


def _average(b: Builder, scalar: Type, x: MatrixAddress, out: Reg, n: Reg, triangle: Reg) -> None:
    """The upper triangle of (x + xᵀ) / 2, where Lᵀ will be and then L: a register holds neighbours in a row of Lᵀ."""
    across = MatrixAddress(x.pointer, b.select(triangle, x.column, x.row), b.select(triangle, x.row, x.column))

    def average(i: Reg, j: Reg) -> None:
        below, above = (
            b.load(b.gep(at.pointer, b.add(b.mul(p, at.row), b.mul(q, at.column)), scalar), scalar)
            for at, p, q in ((x, j, i), (across, i, j))
        )
        mean = b.select(b.eq(below, above), below, b.mul(b.add(below, above), 0.5))
        b.store(mean, b.gep(out, b.add(b.mul(i, n), j), scalar))

    for_triangle(b, n, average)


def for_row_blocks(b: Builder, blocking: RowBlocking, n: Reg, body: Callable[[Reg, int], None]) -> None:
    """`body(first row, rows)` for blocks of rows, from the first on; the last are lower."""
    whole = b.bitwise_and(n, -blocking.rows)
    with b.loop(0, whole, blocking.rows) as turn:
        body(turn.index, blocking.rows)
    for rows in blocking.heights[1:]:
        with b.when(b.ne(b.bitwise_and(n, rows), 0), [whole]) as some:
            body(whole, rows)
            some.yields(b.add(whole, rows))
        (whole,) = some.results


def for_triangle(b: Builder, n: Reg, body: Callable[[Reg, Reg], None]) -> None:
    """`body(i, j)` for all i ≤ j < n, by squares whose columns fit into a cache."""
    with b.loop(0, n, SQUARE) as band, b.loop(0, n, SQUARE) as square, b.when(b.ge(square.index, band.index)):
        stop = b.minimum(b.add(square.index, SQUARE), n)
        last = b.minimum(b.add(band.index, SQUARE), n)
        with b.loop(band.index, last) as rows, b.loop(b.maximum(rows.index, square.index), stop) as columns:
            body(rows.index, columns.index)
