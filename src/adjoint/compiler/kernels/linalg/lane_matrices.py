"""Small matrices, one in each lane of a register: a factorization of one number after another does all of them.

A group of matrices is copied so that the same element of all lies together. What differs from matrix to matrix, which
row has the pivot and whether there is one, is chosen lane by lane.
"""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.kernels.linalg.row_block import MatrixAddress
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, I64, Operand, Reg, Type


class LaneMatrix(NamedTuple):
    """Matrices side by side: registers at `pointer`, with the steps between rows and columns, in registers."""

    pointer: Reg
    row: Reg
    column: Reg

    def at(self, b: Builder, vector: Type, i: Operand, j: Operand) -> Reg:
        """The address of the register with element (i, j) of all matrices."""
        place = b.add(b.mul(self.row, i), b.mul(self.column, j))
        return b.gep(self.pointer, b.mul(place, vector.lanes), vector)

    def reverse(self, b: Builder, vector: Type, rows: Reg, columns: Reg | int) -> LaneMatrix:
        """The matrices from the last row backwards, and from the last of `columns` unless that is 0."""
        one = b.constant(1, I64)
        if isinstance(columns, int):
            start = self.at(b, vector, b.sub(rows, one), 0)
            return LaneMatrix(start, b.sub(0, self.row), self.column)
        start = self.at(b, vector, b.sub(rows, one), b.sub(columns, one))
        return LaneMatrix(start, b.sub(0, self.row), b.sub(0, self.column))


def copy_to_lanes(
    b: Builder, vector: Type, source: MatrixAddress, batch: Reg, size: tuple[Reg, Reg], into: Reg, count: Reg
) -> None:
    """Copy `count` matrices of this size, which are `batch` elements apart, to lanes; the other lanes stay."""
    scalar, (rows, columns) = vector.scalar, size
    with b.loop(0, count) as lane, b.loop(0, rows) as row:
        here = b.gep(source.pointer, b.add(b.mul(lane.index, batch), b.mul(row.index, source.row)), scalar)
        there = b.gep(into, b.add(b.mul(b.mul(row.index, columns), vector.lanes), lane.index), scalar)
        with b.loop(0, columns) as column:
            value = b.load(b.gep(here, b.mul(column.index, source.column), scalar), scalar)
            b.store(value, b.gep(there, b.mul(column.index, vector.lanes), scalar))


def copy_from_lanes(b: Builder, vector: Type, source: Reg, out: Reg, size: Reg, count: Reg) -> None:
    """Copy `count` matrices of so many elements from lanes to where they lie one behind the other."""
    scalar = vector.scalar
    with b.loop(0, count) as lane, b.loop(0, size) as element:
        value = b.load(b.gep(source, b.add(b.mul(element.index, vector.lanes), lane.index), scalar), scalar)
        b.store(value, b.gep(out, b.add(b.mul(lane.index, size), element.index), scalar))


def factor_cholesky_lanes(b: Builder, vector: Type, a: LaneMatrix, n: Reg, triangle: Reg) -> Reg:
    """Write L over (A + Aᵀ) / 2, or what the lower triangle alone tells; return which matrices have one."""
    zero, half = b.constant(0.0, vector), b.constant(0.5, vector)
    with b.loop(0, n, carried=[b.constant(True, BOOL.of(vector.lanes))]) as rows:
        i, (good,) = rows.index, rows.carried
        with b.loop(0, b.add(i, 1)) as columns:
            j = columns.index
            place, above = a.at(b, vector, i, j), a.at(b, vector, j, i)
            below, other = b.load(place, vector), b.load(above, vector)
            mean = b.select(b.eq(below, other), below, b.mul(b.add(below, other), half))
            value = b.sub(b.select(triangle, below, mean), _dot(b, vector, a, a, i, j, j, transposed=True))
            b.store(zero, above)
            diagonal = b.eq(i, j)
            with b.when(diagonal):
                b.store(b.sqrt(value), place)
            with b.when(b.logical_not(diagonal)):
                b.store(b.div(value, b.load(a.at(b, vector, j, j), vector)), place)
        root = b.load(a.at(b, vector, i, i), vector)
        rows.yields(b.logical_and(good, b.gt(root, 0.0)))
    (good,) = rows.results
    with b.when(b.logical_not(b.hand(good))), b.loop(0, n) as rows, b.loop(0, b.add(rows.index, 1)) as columns:
        _blank(b, vector, a.at(b, vector, rows.index, columns.index), good)
    return good


def solve_lanes(b: Builder, vector: Type, a: LaneMatrix, x: LaneMatrix, size: tuple[Reg, Reg], unit: Reg) -> None:
    """X ← A⁻¹ X for lower triangles A; of ones on the diagonal if `unit`."""
    n, columns = size
    with b.loop(0, n) as rows:
        i = rows.index
        pivot = b.select(unit, 1.0, b.load(a.at(b, vector, i, i), vector))
        with b.loop(0, columns) as turn:
            place = x.at(b, vector, i, turn.index)
            value = b.sub(b.load(place, vector), _dot(b, vector, a, x, i, turn.index, i))
            b.store(b.div(value, pivot), place)


def eliminate_lanes(b: Builder, vector: Type, a: LaneMatrix, x: LaneMatrix | None, n: Reg, columns: Reg) -> Reg:
    """Write L and U over A, and exchange the rows of X alike; return the determinants' signs by the exchanges."""
    one = b.constant(1.0, vector)
    with b.loop(0, n, carried=[one]) as turn:
        j, (sign,) = turn.index, turn.carried
        # Rows are numbered as floats, so that choosing a lane's pivot stays within the registers of its size.
        own = b.broadcast(b.cast(j, vector.scalar), vector.lanes)
        size = b.abs(b.load(a.at(b, vector, j, j), vector))
        with b.loop(b.add(j, 1), n, carried=[size, own]) as search:
            largest, chosen = search.carried
            size = b.abs(b.load(a.at(b, vector, search.index, j), vector))
            number = b.broadcast(b.cast(search.index, vector.scalar), vector.lanes)
            larger = b.gt(size, largest)
            search.yields(b.select(larger, size, largest), b.select(larger, number, chosen))
        chosen = search.results[1]
        # Each lane exchanges the rows that its own matrix needs; a row that no lane has chosen is passed over.
        with b.loop(b.add(j, 1), n) as rows:
            moved = b.eq(chosen, b.broadcast(b.cast(rows.index, vector.scalar), vector.lanes))
            with b.when(b.hor(moved)):
                _exchange(b, vector, a, j, rows.index, n, moved)
                if x is not None:
                    _exchange(b, vector, x, j, rows.index, columns, moved)
        pivot = b.load(a.at(b, vector, j, j), vector)
        divisor = b.select(b.eq(pivot, 0.0), one, pivot)
        with b.loop(b.add(j, 1), n) as rows:
            i = rows.index
            place = a.at(b, vector, i, j)
            factor = b.div(b.load(place, vector), divisor)
            b.store(factor, place)
            negative = b.neg(factor)
            with b.loop(b.add(j, 1), n) as across:
                place = a.at(b, vector, i, across.index)
                above = b.load(a.at(b, vector, j, across.index), vector)
                b.store(b.fma(negative, above, b.load(place, vector)), place)
        turn.yields(b.select(b.eq(chosen, own), sign, b.neg(sign)))
    return turn.results[0]


def find_regular(b: Builder, vector: Type, a: LaneMatrix, n: Reg) -> Reg:
    """Return a mask of the matrices that have no 0 on the diagonal."""
    with b.loop(0, n, carried=[b.constant(True, BOOL.of(vector.lanes))]) as turn:
        pivot = b.load(a.at(b, vector, turn.index, turn.index), vector)
        turn.yields(b.logical_and(turn.carried[0], b.ne(pivot, 0.0)))
    return turn.results[0]


def blank_singular(b: Builder, vector: Type, x: Reg, size: Reg, good: Reg) -> None:
    """NaN in so many registers from x on, in the lanes that are not good."""
    with b.when(b.logical_not(b.hand(good))), b.loop(0, size) as turn:
        _blank(b, vector, b.gep(x, b.mul(turn.index, vector.lanes), vector), good)


def _blank(b: Builder, vector: Type, place: Reg, good: Reg) -> None:
    b.store(b.select(good, b.load(place, vector), float("nan")), place)


def _exchange(b: Builder, vector: Type, x: LaneMatrix, i: Reg, j: Reg, columns: Reg, moved: Reg) -> None:
    """Exchange rows i and j in the lanes that are `moved`."""
    with b.loop(0, columns) as turn:
        upper, lower = x.at(b, vector, i, turn.index), x.at(b, vector, j, turn.index)
        above, below = b.load(upper, vector), b.load(lower, vector)
        b.store(b.select(moved, below, above), upper)
        b.store(b.select(moved, above, below), lower)


def _dot(
    b: Builder, vector: Type, a: LaneMatrix, x: LaneMatrix, i: Reg, j: Reg, count: Reg, transposed: bool = False
) -> Reg:
    """Σ of a[i, k] x[k, j], or of a[i, k] x[j, k] if `transposed`, for so many k."""
    zero = b.constant(0, I64)
    left, right = a.at(b, vector, i, zero), x.at(b, vector, j, zero) if transposed else x.at(b, vector, zero, j)
    steps = [b.mul(s, vector.lanes) for s in (a.column, x.column if transposed else x.row)]
    with b.loop(0, count, carried=[left, right, b.constant(0.0, vector)]) as turn:
        left, right, total = turn.carried
        total = b.fma(b.load(left, vector), b.load(right, vector), total)
        turn.yields(b.gep(left, steps[0], vector), b.gep(right, steps[1], vector), total)
    return turn.results[2]
