"""L and U of one matrix, by elimination with row exchanges: panels of columns, each brought up to date when it comes.

Crout's order: a panel less the product of what is left of it and above it, its factors, then its rows of U.
"""

from __future__ import annotations

from adjoint.compiler.kernels.linalg.factor_solve import for_row_blocks
from adjoint.compiler.kernels.linalg.row_block import (
    VECTORS,
    MatrixAddress,
    RowBlock,
    RowBlocking,
    for_columns,
    store_row,
    subtract_product,
)
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, I32, I64, PTR, Reg


def panel_columns(blocking: RowBlocking) -> int:
    """The columns of a panel."""
    return VECTORS * blocking.vector.lanes


def write_lu(b: Builder, blocking: RowBlocking) -> None:
    """`lu(a, rows, columns, panel, pivots)`: write L, without its ones, and U over the row-major matrix a.

    `panel`: memory for `panel_columns` numbers for each row. `pivots` gets the row that each row changes places with.
    Returns the first row, from 1, whose pivot is 0, or 0.
    """
    scalar, width = blocking.scalar, panel_columns(blocking)
    _write_swap(b, blocking)
    for rows in blocking.heights:
        _write_update_panel(b, blocking, rows)
    for first in range(VECTORS):
        _write_eliminate(b, blocking, first)
    with b.function("lu", [PTR, I64, I64, PTR, PTR], I64) as (a, m, n, panel, pivots):
        count, one = b.minimum(m, n), b.constant(1, I64)
        with b.loop(0, count, width, carried=[b.constant(0, I64)]) as turn:
            j, (fault,) = turn.index, turn.carried
            wide = b.minimum(b.sub(n, j), width)
            pivot_count, rest = b.minimum(b.sub(count, j), width), b.sub(m, j)
            corner = b.gep(a, b.add(b.mul(j, n), j), scalar)

            def update(i: Reg, rows: int, j: Reg = j, corner: Reg = corner, wide: Reg = wide) -> None:
                own, left = b.gep(corner, b.mul(i, n), scalar), b.gep(a, b.mul(b.add(i, j), n), scalar)
                into = b.gep(panel, b.mul(i, width), scalar)
                b.call(f"update_panel{rows}", [left, b.gep(a, j, scalar), n, j, own, into, wide])

            # The panel, less the product of L on its left and U above it. It is copied to a matrix of its own, of few
            # columns, so that elimination walks along neighbouring rows.
            for_row_blocks(b, blocking, rest, update)
            # One call for each register of the panel's columns: the column's place within the row is then known when
            # the kernel is written, and a row is eliminated with whole registers.
            found = b.constant(0, I64)
            for first in range(VECTORS):
                low = first * blocking.vector.lanes
                stop = b.minimum(pivot_count, low + blocking.vector.lanes)
                place = b.gep(pivots, j, I64)
                part = b.call(f"eliminate{first}", [panel, b.constant(low, I64), stop, rest, place], I64)
                found = b.select(b.eq(found, 0), part, found)
            fault = b.select(b.logical_and(b.eq(fault, 0), b.ne(found, 0)), b.add(found, j), fault)
            with b.loop(0, rest) as copied:
                there = b.gep(corner, b.mul(copied.index, n), scalar)
                here = b.gep(panel, b.mul(copied.index, width), scalar)
                b.call("copy_row", [here, there, wide])
            # The panel has exchanged its own rows; the columns on its left and right follow here, all at once.
            after = b.add(j, wide)
            with b.loop(0, pivot_count) as exchanges:
                c = exchanges.index
                place = b.gep(pivots, b.add(j, c), I64)
                other = b.add(b.load(place, I64), j)
                b.store(other, place)
                above, below = b.gep(a, b.mul(b.add(c, j), n), scalar), b.gep(a, b.mul(other, n), scalar)
                b.call("swap_rows", [above, below, j])
                b.call("swap_rows", [b.gep(above, after, scalar), b.gep(below, after, scalar), b.sub(n, after)])

            def solve(i: Reg, rows: int, j: Reg = j, after: Reg = after) -> None:
                row = b.add(i, j)
                left, beside = b.gep(a, b.mul(row, n), scalar), b.gep(a, after, scalar)
                unit = b.constant(True, BOOL)
                b.call(f"solve_rows{rows}", [left, n, one, beside, n, row, b.sub(n, after), unit])

            # What is right of the panel becomes rows of U: a solve with the panel's unit triangle.
            for_row_blocks(b, blocking, pivot_count, solve)
            turn.yields(fault)
        b.returns(turn.results[0])


def _write_update_panel(b: Builder, blocking: RowBlocking, rows: int) -> None:
    """`update_panel<r>(left, above, step, depth, own, into, columns)`: rows less L times what is above, in a panel."""
    vector, scalar = blocking.vector, blocking.scalar
    with b.function(f"update_panel{rows}", [PTR, PTR, I64, I64, PTR, PTR, I64]) as parameters:
        left, above, step, depth, own, into, columns = parameters
        address = MatrixAddress(left, step, b.constant(1, I64))

        def update(at: Reg, vectors: int, mask: Reg | None) -> None:
            block = RowBlock(address, b.gep(above, at, scalar), step, depth, rows, b.gep(own, at, scalar))
            place = b.gep(into, at, scalar)
            for sums in subtract_product(b, block, vector, vectors, mask):
                store_row(b, sums, place, None)
                place = b.gep(place, panel_columns(blocking), scalar)

        for_columns(b, vector, columns, update)


def _write_eliminate(b: Builder, blocking: RowBlocking, first: int) -> None:
    """`eliminate<v>(panel, low, high, rows, pivots)`: eliminate columns of the panel that lie in its register v."""
    vector, scalar, width = blocking.vector, blocking.scalar, panel_columns(blocking)
    lanes = vector.lanes
    with b.function(f"eliminate{first}", [PTR, I64, I64, I64, PTR], I64) as (panel, low, high, rows, pivots):
        with b.loop(low, high, carried=[b.constant(0, I64)]) as turn:
            c, (fault,) = turn.index, turn.carried
            first_size = b.abs(b.load(b.gep(panel, b.mul(c, width + 1), scalar), scalar))
            with b.loop(b.add(c, 1), rows, carried=[first_size, c]) as search:  # NaN stays the largest if it is first
                size = b.abs(b.load(b.gep(panel, b.add(b.mul(search.index, width), c), scalar), scalar))
                largest, place = search.carried
                larger = b.gt(size, largest)
                search.yields(b.select(larger, size, largest), b.select(larger, search.index, place))
            (_, place) = search.results
            b.store(place, b.gep(pivots, c, I64))
            here, there = b.gep(panel, b.mul(c, width), scalar), b.gep(panel, b.mul(place, width), scalar)
            own = []
            for v in range(VECTORS):
                x, y = b.gep(here, v * lanes, scalar), b.gep(there, v * lanes, scalar)
                upper, lower = b.load(x, vector), b.load(y, vector)
                b.store(lower, x)
                b.store(upper, y)
                own.append(b.load(x, vector))
            pivot = b.load(b.gep(here, c, scalar), scalar)
            zero = b.eq(pivot, 0.0)
            fault = b.select(b.logical_and(b.eq(fault, 0), zero), b.add(c, 1), fault)
            beyond = b.gt(b.iota(lanes, I32), b.broadcast(b.cast(b.sub(c, first * lanes), I32), lanes))
            with b.loop(b.select(zero, rows, b.add(c, 1)), rows) as below:
                row = b.gep(panel, b.mul(below.index, width), scalar)
                at = b.gep(row, c, scalar)
                factor = b.div(b.load(at, scalar), pivot)
                negative = b.neg(b.broadcast(factor, lanes))
                for v in range(first, VECTORS):
                    part = b.gep(row, v * lanes, scalar)
                    before = b.load(part, vector)
                    after = b.fma(negative, own[v], before)
                    b.store(b.select(beyond, after, before) if v == first else after, part)
                b.store(factor, at)
            turn.yields(fault)
        b.returns(turn.results[0])


def _write_swap(b: Builder, blocking: RowBlocking) -> None:
    """`swap_rows(x, y, columns)`, and `copy_row(source, target, columns)`."""
    vector, scalar = blocking.vector, blocking.scalar
    with b.function("swap_rows", [PTR, PTR, I64]) as (x, y, columns):

        def swap(at: Reg, vectors: int, mask: Reg | None) -> None:
            one, other = b.gep(x, at, scalar), b.gep(y, at, scalar)
            first, second = b.load(one, vector, mask), b.load(other, vector, mask)
            b.store(second, one, mask)
            b.store(first, other, mask)

        with b.when(b.ne(x, y)):
            for_columns(b, vector, columns, swap, vectors=1)
    with b.function("copy_row", [PTR, PTR, I64]) as (source, target, columns):

        def copy(at: Reg, vectors: int, mask: Reg | None) -> None:
            b.store(b.load(b.gep(source, at, scalar), vector, mask), b.gep(target, at, scalar), mask)

        for_columns(b, vector, columns, copy, vectors=1)
