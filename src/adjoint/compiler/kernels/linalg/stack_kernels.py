"""Kernels over stacks of matrices: each tile computes some of the matrices, whose sizes and steps are numbers.

So one text serves all shapes. The table has the operands' addresses and the result's, then the numbers, as `NUMBERS`
names them; a kernel that factors leaves a matrix's fault in the last.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from adjoint.compiler.kernels.linalg.factor_solve import write_cholesky, write_solve
from adjoint.compiler.kernels.linalg.lane_kernels import (
    LaneCall,
    write_cholesky_lanes,
    write_det_lanes,
    write_inv_lanes,
    write_slogdet_lanes,
    write_solve_lanes,
    write_solve_triangular_lanes,
)
from adjoint.compiler.kernels.linalg.lu import panel_columns, write_lu
from adjoint.compiler.kernels.linalg.row_block import MatrixAddress, RowBlocking, choose_blocking
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import BOOL, F64, I64, U8, Reg, Type
from adjoint.core.typing import Shape

STACK_STEPS = "offset batch row column"  # of an operand: its first element, and the steps between matrices, rows, …
COMMON_NUMBERS = "count per_tile in_lanes rows columns scratch"  # matrices in all and of a tile; each one's size; bytes


class MatrixCall(NamedTuple):
    """The registers of a kernel for one matrix: the operands and the result, scratch memory, and the numbers."""

    kind: Type
    blocking: RowBlocking
    pointers: list[Reg]
    scratch: Reg
    numbers: dict[str, Reg]


class StackKernel(NamedTuple):
    """A kernel: its operands, its other numbers, the functions that it calls, and what writes it for one matrix.

    `write_lanes`: what writes it for a group of matrices, which is quicker up to so many rows; it returns which of them
    have a result. `has_scratch`: one matrix alone needs memory too.
    `result_shape`: that of the result for one matrix; by default it is the shape of the last operand.
    """

    operands: int
    numbers: str
    functions: tuple[Callable[[Builder, RowBlocking], None], ...]
    write: Callable[[Builder, MatrixCall], Reg | None]
    write_lanes: Callable[[Builder, LaneCall], Reg]
    max_lane_rows: int
    has_scratch: bool = False
    result_shape: Shape | None = None

    @property
    def names(self) -> list[str]:
        """The names of all numbers, in the order of the table; an operand's begin with its place."""
        steps = [f"{i}{step}" for i in range(self.operands) for step in STACK_STEPS.split()]
        return [*COMMON_NUMBERS.split(), *steps, *self.numbers.split(), "fault"]


def write_stack_kernel(
    b: Builder, name: str, kernel_name: str, kind: Type, target: Target, places: tuple[int, ...]
) -> None:
    """A kernel, called `kernel_name`; `places`: where the operands and the result are in its table."""
    kernel, blocking = STACK_KERNELS[name], choose_blocking(target, kind)
    for write in kernel.functions:
        write(b, blocking)
    with b.kernel(kernel_name) as (args, tile, thread):
        pointers = [b.argument(args, i) for i in places]
        first = max(places) + 1
        scratch = b.argument(args, first)
        first += 1
        numbers = {name: b.number(args, first + i) for i, name in enumerate(kernel.names)}
        scratch = b.gep(scratch, b.mul(thread, numbers["scratch"]), U8)
        for i in range(kernel.operands):
            pointers[i] = b.gep(pointers[i], numbers[f"{i}offset"], kind)
        table_end = b.gep(args, first + len(kernel.names) - 1, I64)
        start = b.mul(tile, numbers["per_tile"])
        size = b.mul(numbers["rows"], numbers["columns"])
        if kernel.result_shape is not None:
            size = b.constant(prod(kernel.result_shape), I64)
        stop = b.minimum(b.add(start, numbers["per_tile"]), numbers["count"])

        def pointers_at(at: Reg) -> list[Reg]:
            here = [b.gep(pointers[i], b.mul(at, numbers[f"{i}batch"]), kind) for i in range(kernel.operands)]
            return [*here, b.gep(pointers[-1], b.mul(at, size), kind)]

        # Small matrices: as many as a register has lanes are worked on together, each in a lane of its own, for a
        # matrix of 3 rows would leave most of a register empty.
        with b.when(b.ne(numbers["in_lanes"], 0)):
            vector = blocking.vector
            with b.loop(start, stop, vector.lanes) as turn:
                count = b.minimum(b.sub(stop, turn.index), vector.lanes)
                here = pointers_at(turn.index)
                good = kernel.write_lanes(b, LaneCall(vector, here, scratch, numbers, count))
                missing = b.logical_and(b.logical_not(good), b.lane_mask(count, vector.lanes))
                with b.when(b.hor(missing)):
                    b.store(b.constant(1, I64), table_end)
            b.return_now()
        with b.loop(start, stop) as turn:
            here = pointers_at(turn.index)
            fault = kernel.write(b, MatrixCall(kind, blocking, here, scratch, numbers))
            if fault is not None:
                with b.when(b.ne(fault, 0)):
                    b.store(fault, table_end)


def count_scratch_bytes(name: str, size: tuple[int, int], itemsize: int, target: Target, in_lanes: bool) -> int:
    """The bytes of scratch memory for matrices of so many rows and columns, a multiple of 64."""
    blocking, (n, columns) = choose_blocking(target, Type("f", 8 * itemsize)), size
    if in_lanes:
        elements = (n * (n + columns) + 2) * blocking.vector.lanes
    else:
        elements = n * (n + panel_columns(blocking)) * STACK_KERNELS[name].has_scratch
    return max(64, -(-(elements * itemsize + 8 * n) // 64) * 64)


def _write_cholesky(b: Builder, call: MatrixCall) -> Reg:
    (x, out), numbers = call.pointers, call.numbers
    row, column = numbers["0row"], numbers["0column"]
    triangle = b.ne(numbers["triangle"], 0)
    fault: Reg = b.call("cholesky", [x, row, column, out, numbers["rows"], triangle], I64)
    return fault


def _write_solve_triangular(b: Builder, call: MatrixCall) -> None:
    (a, right, out), numbers, kind = call.pointers, call.numbers, call.kind
    n, columns = numbers["rows"], numbers["columns"]
    copy_matrix(b, kind, MatrixAddress(right, numbers["1row"], numbers["1column"]), out, n, columns)
    upper, unit = b.ne(numbers["upper"], 0), b.ne(numbers["unitriangular"], 0)
    row, column = numbers["0row"], numbers["0column"]
    last = b.sub(n, 1)
    a = b.gep(a, b.select(upper, b.mul(last, b.add(row, column)), 0), kind)
    x = b.gep(out, b.select(upper, b.mul(last, columns), 0), kind)
    row, column, step = (b.select(upper, b.sub(0, s), s) for s in (row, column, columns))
    b.call("solve", [a, row, column, x, step, n, columns, unit])


def _write_solve(b: Builder, call: MatrixCall) -> Reg:
    numbers = call.numbers
    x = MatrixAddress(call.pointers[1], numbers["1row"], numbers["1column"])
    copy_matrix(b, call.kind, x, call.pointers[-1], numbers["rows"], numbers["columns"])
    return _solve_by_lu(b, call)


def _write_inv(b: Builder, call: MatrixCall) -> Reg:
    n, out = call.numbers["rows"], call.pointers[-1]
    with b.loop(0, b.mul(n, n)) as turn:
        b.store(b.constant(0.0, call.kind), b.gep(out, turn.index, call.kind))
    with b.loop(0, n) as turn:
        b.store(b.constant(1.0, call.kind), b.gep(out, b.mul(turn.index, b.add(n, 1)), call.kind))
    return _solve_by_lu(b, call)


def _solve_by_lu(b: Builder, call: MatrixCall) -> Reg:
    """Solve for what the result has been set to; NaN where a pivot is 0, which is returned."""
    numbers, kind, out = call.numbers, call.kind, call.pointers[-1]
    n, columns = numbers["rows"], numbers["columns"]
    fault, a, pivots = _factor(b, call)
    with b.loop(0, n) as turn:
        other = b.load(b.gep(pivots, turn.index, I64), I64)
        above, below = (b.gep(out, b.mul(i, columns), kind) for i in (turn.index, other))
        b.call("swap_rows", [above, below, columns])
    one = b.constant(1, I64)
    b.call("solve", [a, n, one, out, columns, n, columns, b.constant(True, BOOL)])
    last = b.sub(n, 1)
    end, bottom = b.gep(a, b.mul(last, b.add(n, 1)), kind), b.gep(out, b.mul(last, columns), kind)
    back = [end, b.sub(0, n), b.sub(0, one), bottom, b.sub(0, columns), n, columns, b.constant(False, BOOL)]
    b.call("solve", back)
    with b.when(b.ne(fault, 0)), b.loop(0, b.mul(n, columns)) as turn:
        b.store(b.constant(float("nan"), kind), b.gep(out, turn.index, kind))
    return fault


def _factor(b: Builder, call: MatrixCall) -> tuple[Reg, Reg, Reg]:
    """The fault, the address of L and U, and that of the pivots, in scratch memory."""
    numbers, kind = call.numbers, call.kind
    n = numbers["rows"]
    pivots = call.scratch
    a = b.gep(pivots, n, I64)
    panel = b.gep(a, b.mul(n, n), kind)
    copy_matrix(b, kind, MatrixAddress(call.pointers[0], numbers["0row"], numbers["0column"]), a, n, n)
    return b.call("lu", [a, n, n, panel, pivots], I64), a, pivots


def _write_det(b: Builder, call: MatrixCall) -> Reg:
    fault, n, pivot_at = _find_pivots(b, call)
    with b.loop(0, n, carried=[b.constant(1.0, call.kind)]) as turn:
        turn.yields(b.mul(turn.carried[0], pivot_at(turn.index)))
    b.store(turn.results[0], call.pointers[-1])
    return fault


def _write_slogdet(b: Builder, call: MatrixCall) -> Reg:
    """The product of the pivots' signs, and the sum of the logarithms of their sizes."""
    fault, n, pivot_at = _find_pivots(b, call)
    kind, out = call.kind, call.pointers[-1]
    with b.loop(0, n, carried=[b.constant(1.0, kind), b.constant(0.0, F64)]) as turn:
        pivot, (sign, total) = pivot_at(turn.index), turn.carried
        signum = b.select(b.isnan(pivot), 0.0, b.sign(pivot))  # PyTorch's
        turn.yields(b.mul(sign, signum), b.add(total, b.log(b.cast(b.abs(pivot), F64))))
    b.store(b.add(turn.results[0], 0.0), out)  # no -0.0
    b.store(b.cast(turn.results[1], kind), b.gep(out, 1, kind))
    return fault


def _find_pivots(b: Builder, call: MatrixCall) -> tuple[Reg, Reg, Callable[[Reg], Reg]]:
    """The fault, how many pivots there are, and the code for one, negative for each exchange of rows."""
    n, kind = call.numbers["rows"], call.kind
    fault, a, pivots = _factor(b, call)

    def pivot_at(i: Reg) -> Reg:
        pivot = b.load(b.gep(a, b.mul(i, b.add(n, 1)), kind), kind)
        return b.select(b.eq(b.load(b.gep(pivots, i, I64), I64), i), pivot, b.neg(pivot))

    return fault, n, pivot_at


def copy_matrix(b: Builder, kind: Type, x: MatrixAddress, out: Reg, n: Reg, columns: Reg) -> None:
    """Copy a matrix in any order of memory to row-major order."""
    with b.loop(0, n) as rows:
        here = b.gep(x.pointer, b.mul(rows.index, x.row), kind)
        there = b.gep(out, b.mul(rows.index, columns), kind)
        with b.loop(0, columns) as turn:
            value = b.load(b.gep(here, b.mul(turn.index, x.column), kind), kind)
            b.store(value, b.gep(there, turn.index, kind))


_SOLVE, _LU = (write_solve,), (write_solve, write_lu)
STACK_KERNELS = {
    "cholesky": StackKernel(1, "triangle", (*_SOLVE, write_cholesky), _write_cholesky, write_cholesky_lanes, 16),
    "solve_triangular": StackKernel(
        2, "upper unitriangular", _SOLVE, _write_solve_triangular, write_solve_triangular_lanes, 8
    ),
    "solve": StackKernel(2, "", _LU, _write_solve, write_solve_lanes, 16, True),
    "inv": StackKernel(1, "", _LU, _write_inv, write_inv_lanes, 16, True),
    "det": StackKernel(1, "", _LU, _write_det, write_det_lanes, 16, True, ()),
    "slogdet": StackKernel(1, "", _LU, _write_slogdet, write_slogdet_lanes, 16, True, (2,)),
}
