"""Parts of a large product on the pool of threads: NumPy's BLAS computes each, and no two wait for each other."""

from __future__ import annotations

import ctypes
from functools import cache

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import F32, F64, I32, I64, U8, Reg
from adjoint.compiler.runtime.native_entry import KernelCall, Segment
from adjoint.compiler.runtime.native_function import NativeModule
from adjoint.core.runtime.threads import find_gemm
from adjoint.core.typing import Array

# The words of a table: the address of BLAS's function; 111 for an operand that lies in rows and 112 for one that lies
# in columns; sizes; elements between lines; addresses. A part has `ROW_STEP` rows, and begins `ROW_MOVE` rows after the
# one before it, which is 0 where the parts are of columns. The last words are the bytes from part to part.
GEMM, X_ORDER, Y_ORDER, ROWS, COLUMNS, INNER, X_LINE, Y_LINE, OUT_LINE = range(9)
X, Y, OUT, ROW_STEP, ROW_MOVE, COLUMN_STEP, COLUMN_MOVE, X_MOVE, Y_MOVE, OUT_MOVE, WORDS = range(9, 20)
ROW_MAJOR, IN_ROWS, IN_COLUMNS = 101, 111, 112
FLOAT_TYPES = {"f": F32, "d": F64}
MAX_SPARE_TABLES = 4  # of one kind, for threads that call at once
Table = tuple[Segment, "ctypes.Array[ctypes.c_int64]"]


def multiply_tiles(x: Array, y: Array, out: Array, axis: int, step: int, threads: int) -> bool:
    """Write the product of two matrices, by parts of `step` rows or columns; return False if BLAS cannot.

    BLAS must be held to one thread.
    """
    x_lines, y_lines, out_lines = (_find_line(a) for a in (x, y, out))
    gemm = find_gemm(x.dtype.char) if x.dtype == y.dtype == out.dtype and min(out.shape) > 1 else None
    if gemm is None or x_lines is None or y_lines is None or out_lines is None or out_lines[0] != IN_ROWS:
        return False
    address, bits = gemm
    (rows, inner), columns = x.shape, y.shape[1]
    (x_order, x_line), (y_order, y_line), out_line = x_lines, y_lines, out_lines[1]
    sizes = (address, x_order, y_order, rows, columns, inner, x_line, y_line, out_line)
    addresses = (x.ctypes.data, y.ctypes.data, out.ctypes.data)
    if axis == 0:
        steps = (step, step, columns, 0, x.strides[0] * step, 0, out.strides[0] * step)
    else:
        steps = (rows, 0, step, step, 0, y.strides[1] * step, out.strides[1] * step)
    key = x.dtype.char, bits, -(-out.shape[axis] // step), threads
    spare = _spare_tables.setdefault(key, [])
    try:
        segment, table = spare.pop()  # in one step, whatever other threads do
    except IndexError:
        segment, table = _make_table(*key)
    table[:] = [*sizes, *addresses, *steps]
    segment.call()
    if len(spare) < MAX_SPARE_TABLES:
        spare.append((segment, table))
    return True


_spare_tables: dict[tuple[str, int, int, int], list[Table]] = {}


def _find_line(a: Array) -> tuple[int, int] | None:
    """Return how a matrix lies, and the elements between its rows or columns; None if BLAS cannot read it."""
    size = a.dtype.itemsize
    if a.flags.aligned and a.dtype.isnative:
        for order, along, across in ((IN_ROWS, 1, 0), (IN_COLUMNS, 0, 1)):
            line, rest = divmod(a.strides[across], size)
            if a.strides[along] == size and not rest and line >= a.shape[along]:
                return order, line
    return None


def _make_table(char: str, bits: int, tiles: int, threads: int) -> Table:
    table = (ctypes.c_int64 * WORDS)()
    call = KernelCall(_module.engine.address(_name_kernel(char, bits)), ctypes.addressof(table), tiles)
    return Segment([], [call], table, 1.0, 1.0, threads), table


@cache
def _name_kernel(char: str, bits: int) -> str:
    return f"product_{char}{bits}"


def _text() -> str:
    """The module: a kernel for each type of numbers, and each size of the integers that BLAS takes."""
    b = Builder()
    for char, kind in FLOAT_TYPES.items():
        for integer in (I32, I64):
            with b.kernel(_name_kernel(char, integer.bits)) as (table, tile, _):
                words = [b.number(table, i) for i in range(WORDS)]
                row, column = b.mul(tile, words[ROW_MOVE]), b.mul(tile, words[COLUMN_MOVE])
                rows = b.minimum(words[ROW_STEP], b.sub(words[ROWS], row))
                columns = b.minimum(words[COLUMN_STEP], b.sub(words[COLUMNS], column))
                sizes = [b.cast(n, integer) for n in (rows, columns, words[INNER])]
                x, y, out = (
                    b.gep(b.argument(table, at), b.mul(tile, words[move]), U8)
                    for at, move in ((X, X_MOVE), (Y, Y_MOVE), (OUT, OUT_MOVE))
                )
                lines = [b.cast(words[i], integer) for i in (X_LINE, Y_LINE, OUT_LINE)]
                orders = [b.constant(ROW_MAJOR, I32), *(b.cast(words[i], I32) for i in (X_ORDER, Y_ORDER))]
                one, zero = b.constant(1.0, kind), b.constant(0.0, kind)
                arguments: list[Reg] = [*orders, *sizes, one, x, lines[0], y, lines[1], zero, out, lines[2]]
                b.call(b.argument(table, GEMM), arguments)
    return b.text()


_module = NativeModule("product_tiles", _text)
