"""Products of a sparse matrix, given by the row, column and value of each entry: with a dense matrix, and sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, UNLIMITED, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.kernels.small_arrays.gather_row import indices_are_within
from adjoint.compiler.llvm.types import I64, Reg, Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adjoint.compiler.llvm.builder import Builder

PANEL_REGISTERS = 4  # of a row of the result, which stay in registers while its entries are added


def _entries_are_within(
    b: Builder, lanes: int, rows: ArrayOperand, x: ArrayOperand, columns: ArrayOperand, y: ArrayOperand
) -> Reg:
    """Return true if all `rows` are rows of x, and all `columns` rows of y."""
    short = min(lanes, 8)  # 64 bits wide, as indices are
    return b.logical_and(
        indices_are_within(b, rows, b.floor_divide(x.size, x.last), short),
        indices_are_within(b, columns, b.floor_divide(y.size, y.last), short),
    )


def _add_products(
    b: Builder,
    kind: Type,
    lanes: int,
    values: ArrayOperand,
    rows: ArrayOperand,
    columns: ArrayOperand,
    dense: ArrayOperand,
    out: ArrayOperand,
    done: ArrayOperand,
) -> Reg:
    """out[rows[i]] += values[i] dense[columns[i]] for each entry i; left alone where an index is out of range."""
    within = _entries_are_within(b, lanes, rows, out, columns, dense)
    width = PANEL_REGISTERS * lanes
    with b.when(b.logical_and(within, b.gt(rows.size, 0))):
        whole = b.mul(b.floor_divide(out.last, width), width)
        with b.loop(0, whole, width) as panel:
            _add_panel(b, kind, lanes, PANEL_REGISTERS, (values, rows, columns, dense, out), panel.index, None)
        with b.loop(whole, out.last, lanes) as panel:
            mask = b.lane_mask(b.sub(out.last, panel.index), lanes)
            _add_panel(b, kind, lanes, 1, (values, rows, columns, dense, out), panel.index, mask)
    return within


def _add_panel(
    b: Builder, kind: Type, lanes: int, count: int, operands: Sequence[ArrayOperand], start: Reg, mask: Reg | None
) -> None:
    """Add the products of all entries to some columns of the result.

    Entries of one row mostly follow each other: its sums stay in `count` registers, which are stored and loaded where
    another row begins. That saves a load and a store of the result for each entry.
    """
    values, rows, columns, dense, out = operands

    def address(base: ArrayOperand, row: Reg, i: int) -> Reg:
        return b.gep(base.data, b.add(b.mul(row, base.last), b.add(start, i * lanes)), kind)

    def read(base: ArrayOperand, row: Reg) -> list[Reg]:
        return [b.load(address(base, row, i), kind.of(lanes), mask) for i in range(count)]

    def write(row: Reg, sums: Sequence[Reg]) -> None:
        for i, total in enumerate(sums):
            b.store(total, address(out, row, i), mask)

    first = b.load(rows.data, I64)
    with b.loop(0, rows.size, 1, [first, *read(out, first)]) as entry:
        row, *sums = entry.carried
        own = b.load(b.gep(rows.data, entry.index, I64), I64)
        with b.when(b.ne(own, row), sums) as fresh:
            write(row, sums)
            fresh.yields(*read(out, own))
        factor = b.broadcast(b.load(b.gep(values.data, entry.index, kind), kind), lanes)
        theirs = read(dense, b.load(b.gep(columns.data, entry.index, I64), I64))
        entry.yields(own, *(b.fma(factor, x, total) for x, total in zip(theirs, fresh.results, strict=True)))
    row, *sums = entry.results
    write(row, sums)


def _sample_products(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    y: ArrayOperand,
    rows: ArrayOperand,
    columns: ArrayOperand,
    out: ArrayOperand,
) -> Reg:
    """out[i] = Σ_j x[rows[i], j] y[columns[i], j]; left alone where an index is out of range."""
    within = _entries_are_within(b, lanes, rows, x, columns, y)
    with b.when(within), b.loop(0, rows.size) as entry:

        def row_of(base: ArrayOperand, places: ArrayOperand) -> Reg:
            which = b.load(b.gep(places.data, entry.index, I64), I64)
            return b.gep(base.data, b.mul(which, base.last), kind)

        left, right = row_of(x, rows), row_of(y, columns)

        def body(index: Reg, mask: Reg | None, total: Reg) -> list[Reg]:
            a, c = (b.load(b.gep(row, index, kind), kind.of(lanes), mask) for row in (left, right))
            return [b.fma(a, c, total)]

        total = b.hsum(sweep(b, x.last, lanes, [b.constant(0.0, kind.of(lanes))], body)[0])
        b.store(total, b.gep(out.data, entry.index, kind))
    return within


ROUTINES = {
    "sparse_product": SmallArrayEntry("xiixx", _add_products, less=ALL_DIMS, most=UNLIMITED),
    "sampled_products": SmallArrayEntry("xxii", _sample_products, like=2, most=UNLIMITED),
}
