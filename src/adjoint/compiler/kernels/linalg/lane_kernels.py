"""Kernels over stacks of small matrices, a group of which is computed at once: one matrix in each lane."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.kernels.linalg.lane_matrices import (
    LaneMatrix,
    blank_singular,
    copy_from_lanes,
    copy_to_lanes,
    eliminate_lanes,
    factor_cholesky_lanes,
    find_regular,
    solve_lanes,
)
from adjoint.compiler.kernels.linalg.row_block import MatrixAddress
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, F64, I64, Reg, Type


class LaneCall(NamedTuple):
    """The operands of a kernel for a group of so many `matrices`; the pointers are those of the first."""

    vector: Type
    pointers: list[Reg]
    scratch: Reg
    numbers: dict[str, Reg]
    matrices: Reg

    def load(self, b: Builder, i: int, columns: Reg, into: Reg) -> LaneMatrix:
        """The matrices of an operand, copied to lanes."""
        numbers, rows = self.numbers, self.numbers["rows"]
        source = MatrixAddress(self.pointers[i], numbers[f"{i}row"], numbers[f"{i}column"])
        copy_to_lanes(b, self.vector, source, numbers[f"{i}batch"], (rows, columns), into, self.matrices)
        return LaneMatrix(into, columns, b.constant(1, I64))

    def after_first(self, b: Builder) -> Reg:
        """The scratch memory behind the registers of the first operand."""
        rows = self.numbers["rows"]
        return b.gep(self.scratch, b.mul(b.mul(rows, rows), self.vector.lanes), self.vector)

    def store(self, b: Builder, source: Reg, size: Reg) -> None:
        """Copy the result's matrices, of so many elements, from lanes."""
        copy_from_lanes(b, self.vector, source, self.pointers[-1], size, self.matrices)


def write_cholesky_lanes(b: Builder, call: LaneCall) -> Reg:
    """Cholesky's factors; returns which matrices have one."""
    n = call.numbers["rows"]
    a = call.load(b, 0, n, call.scratch)
    good = factor_cholesky_lanes(b, call.vector, a, n, b.ne(call.numbers["triangle"], 0))
    call.store(b, a.pointer, b.mul(n, n))
    return good


def write_solve_triangular_lanes(b: Builder, call: LaneCall) -> Reg:
    """Solutions of triangular systems, of which there are always some."""
    n, columns, vector = call.numbers["rows"], call.numbers["columns"], call.vector
    a, x = call.load(b, 0, n, call.scratch), call.load(b, 1, columns, call.after_first(b))
    upper = b.ne(call.numbers["upper"], 0)
    back, turned = a.reverse(b, vector, n, n), x.reverse(b, vector, n, 0)
    a, into = (
        LaneMatrix(*(b.select(upper, p, q) for p, q in zip(last, first, strict=True)))
        for last, first in ((back, a), (turned, x))
    )
    solve_lanes(b, vector, a, into, (n, columns), b.ne(call.numbers["unitriangular"], 0))
    call.store(b, x.pointer, b.mul(n, columns))
    return b.constant(True, BOOL.of(vector.lanes))


def write_solve_lanes(b: Builder, call: LaneCall) -> Reg:
    """Solutions of systems of equations; returns which have one."""
    n, columns = call.numbers["rows"], call.numbers["columns"]
    a, x = call.load(b, 0, n, call.scratch), call.load(b, 1, columns, call.after_first(b))
    return _solve_by_lu(b, call, a, x, columns)


def write_inv_lanes(b: Builder, call: LaneCall) -> Reg:
    """Inverses; returns which matrices have one."""
    n, vector, into = call.numbers["rows"], call.vector, call.after_first(b)
    a, x = call.load(b, 0, n, call.scratch), LaneMatrix(into, n, b.constant(1, I64))
    with b.loop(0, n) as rows, b.loop(0, n) as columns:
        one = b.select(b.eq(rows.index, columns.index), 1.0, b.constant(0.0, vector))
        b.store(one, x.at(b, vector, rows.index, columns.index))
    return _solve_by_lu(b, call, a, x, n)


def _solve_by_lu(b: Builder, call: LaneCall, a: LaneMatrix, x: LaneMatrix, columns: Reg) -> Reg:
    n, vector = call.numbers["rows"], call.vector
    eliminate_lanes(b, vector, a, x, n, columns)
    good = find_regular(b, vector, a, n)
    solve_lanes(b, vector, a, x, (n, columns), b.constant(True, BOOL))
    back, turned = a.reverse(b, vector, n, n), x.reverse(b, vector, n, 0)
    solve_lanes(b, vector, back, turned, (n, columns), b.constant(False, BOOL))
    blank_singular(b, vector, x.pointer, b.mul(n, columns), good)
    call.store(b, x.pointer, b.mul(n, columns))
    return good


def write_det_lanes(b: Builder, call: LaneCall) -> Reg:
    """Determinants: the products of the pivots; returns which matrices have an inverse."""
    a, sign, n = _eliminate(b, call)
    with b.loop(0, n, carried=[sign]) as turn:
        pivot = b.load(a.at(b, call.vector, turn.index, turn.index), call.vector)
        turn.yields(b.mul(turn.carried[0], pivot))
    b.store(turn.results[0], call.scratch)
    call.store(b, call.scratch, b.constant(1, I64))
    return b.ne(turn.results[0], 0.0)


def write_slogdet_lanes(b: Builder, call: LaneCall) -> Reg:
    """The signs of determinants and the logarithms of their sizes; returns which matrices have an inverse."""
    a, sign, n = _eliminate(b, call)
    vector = call.vector
    with b.loop(0, n, carried=[sign, b.constant(0.0, F64.of(vector.lanes))]) as turn:
        pivot, (sign, total) = b.load(a.at(b, vector, turn.index, turn.index), vector), turn.carried
        signum = b.select(b.isnan(pivot), 0.0, b.sign(pivot))
        turn.yields(b.mul(sign, signum), b.add(total, b.log(b.cast(b.abs(pivot), F64))))
    sign, total = turn.results
    b.store(b.add(sign, 0.0), call.scratch)  # no -0.0
    b.store(b.cast(total, vector.scalar), b.gep(call.scratch, vector.lanes, vector))
    call.store(b, call.scratch, b.constant(2, I64))
    return b.ne(sign, 0.0)


def _eliminate(b: Builder, call: LaneCall) -> tuple[LaneMatrix, Reg, Reg]:
    n = call.numbers["rows"]
    a = call.load(b, 0, n, call.scratch)
    return a, eliminate_lanes(b, call.vector, a, None, n, n), n
