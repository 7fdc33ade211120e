"""Products of a sparse matrix, given by the row, column and value of each entry: with a dense matrix, and sampled."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, UNLIMITED, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.kernels.small_arrays.gather_row import indices_are_within
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, I64, Reg, Type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


PANEL_REGISTERS = (8, 4, 1)  # of a row of the result, which stay in registers while its entries are added


def _entries_are_within(
    b: Builder, lanes: int, rows: ArrayOperand, x: ArrayOperand, columns: ArrayOperand, y: ArrayOperand
) -> Reg:
    """Return true if all `rows` are rows of x, and all `columns` rows of y."""
    short = min(lanes, 8)  # 64 bits wide, as indices are
    return b.logical_and(
        indices_are_within(b, rows, b.floor_divide(x.size, x.last), short),
        indices_are_within(b, columns, b.floor_divide(y.size, y.last), short),
    )


def _multiply(
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
    """out[r] = Σ values[i] dense[columns[i]] over the entries i of row r; left alone where an index is out of range.

    Entries in the order of their rows, as compressed layouts have them, take one sweep over the result.
    """
    within = _entries_are_within(b, lanes, rows, out, columns, dense)
    operands = values, rows, columns, dense, out
    with b.when(within):
        in_order = b.logical_and(b.gt(rows.size, 0), _is_in_order(b, rows, min(lanes, 8)))
        with b.when(in_order):
            _sweep_panels(b, lanes, out, partial(_write_panel, b, kind, lanes, operands))
        with b.when(b.logical_not(in_order)):
            _fill_zeros(b, kind, lanes, out.data, out.size)
            with b.when(b.gt(rows.size, 0)):
                _sweep_panels(b, lanes, out, partial(_add_panel, b, kind, lanes, operands))
    return within


def _is_in_order(b: Builder, rows: ArrayOperand, lanes: int) -> Reg:
    """Return true if no index is below the one before it."""

    def body(index: Reg, mask: Reg | None, fine: Reg) -> list[Reg]:
        here, after = (b.load(b.gep(rows.data, at, I64), I64.of(lanes), mask) for at in (index, b.add(index, 1)))
        right = b.le(here, after)
        right = right if mask is None else b.logical_or(right, b.logical_not(mask))
        return [b.logical_and(fine, right)]

    return b.hand(sweep(b, b.sub(rows.size, 1), lanes, [b.constant(True, BOOL.of(lanes))], body)[0])


def _fill_zeros(b: Builder, kind: Type, lanes: int, data: Reg, count: Reg) -> None:
    zero = b.constant(0.0, kind.of(lanes))

    def body(index: Reg, mask: Reg | None) -> list[Reg]:
        b.store(zero, b.gep(data, index, kind), mask)
        return []

    sweep(b, count, lanes, [], body)


def _sweep_panels(b: Builder, lanes: int, out: ArrayOperand, write: Callable[[int, Reg, Reg | None], None]) -> None:
    """Call `write` with the registers, the first column and the mask of panels that make up the result's columns."""
    start: Reg | int = 0
    for count in PANEL_REGISTERS:
        width = count * lanes
        end = b.mul(b.floor_divide(out.last, width), width)
        with b.loop(start, end, width) as panel:
            write(count, panel.index, None)
        start = end
    with b.loop(start, out.last, lanes) as panel:
        write(1, panel.index, b.lane_mask(b.sub(out.last, panel.index), lanes))


class _Panel(NamedTuple):
    """Some columns of the rows of a matrix, in registers."""

    b: Builder
    kind: Type
    lanes: int
    registers: int
    start: Reg
    mask: Reg | None

    def _address(self, base: ArrayOperand, row: Reg, i: int) -> Reg:
        b = self.b
        return b.gep(base.data, b.add(b.mul(row, base.last), b.add(self.start, i * self.lanes)), self.kind)

    def read(self, base: ArrayOperand, row: Reg) -> list[Reg]:
        """Return the columns of a row."""
        wide = self.kind.of(self.lanes)
        return [self.b.load(self._address(base, row, i), wide, self.mask) for i in range(self.registers)]

    def write(self, base: ArrayOperand, row: Reg, sums: Sequence[Reg]) -> None:
        """Store the columns of a row."""
        for i, total in enumerate(sums):
            self.b.store(total, self._address(base, row, i), self.mask)

    def zeros(self) -> list[Reg]:
        """Return zeros for the columns."""
        return [self.b.constant(0.0, self.kind.of(self.lanes))] * self.registers

    def write_zeros(self, base: ArrayOperand, first: Reg | int, end: Reg) -> None:
        """Store zeros in the columns of several rows."""
        with self.b.loop(first, end) as row:
            self.write(base, row.index, self.zeros())

    def add_product(self, operands: Sequence[ArrayOperand], entry: Reg, sums: Sequence[Reg]) -> list[Reg]:
        """Return the sums with the product of an entry."""
        values, _, columns, dense, _ = operands
        b = self.b
        factor = b.broadcast(b.load(b.gep(values.data, entry, self.kind), self.kind), self.lanes)
        theirs = self.read(dense, b.load(b.gep(columns.data, entry, I64), I64))
        return [b.fma(factor, x, total) for x, total in zip(theirs, sums, strict=True)]


def _write_panel(
    b: Builder,
    kind: Type,
    lanes: int,
    operands: Sequence[ArrayOperand],
    count: int,
    start: Reg,
    mask: Reg | None,
) -> None:
    """Write some columns of the result, whose entries come in the order of their rows.

    The sums of a row stay in registers, and are written once; rows without entries get zeros on the way.
    """
    panel = _Panel(b, kind, lanes, count, start, mask)
    _, rows, _, _, out = operands
    first = b.load(rows.data, I64)
    panel.write_zeros(out, 0, first)
    with b.loop(0, rows.size, 1, [first, *panel.zeros()]) as entry:
        row, *sums = entry.carried
        own = b.load(b.gep(rows.data, entry.index, I64), I64)
        with b.when(b.ne(own, row), sums) as fresh:
            panel.write(out, row, sums)
            panel.write_zeros(out, b.add(row, 1), own)
            fresh.yields(*panel.zeros())
        entry.yields(own, *panel.add_product(operands, entry.index, fresh.results))
    row, *sums = entry.results
    panel.write(out, row, sums)
    panel.write_zeros(out, b.add(row, 1), b.floor_divide(out.size, out.last))


def _add_panel(
    b: Builder,
    kind: Type,
    lanes: int,
    operands: Sequence[ArrayOperand],
    count: int,
    start: Reg,
    mask: Reg | None,
) -> None:
    """Add the products of all entries to some columns of the result.

    Entries of one row often follow each other: its sums stay in registers, which are stored and loaded where another
    row begins. That saves a load and a store of the result for each entry.
    """
    panel = _Panel(b, kind, lanes, count, start, mask)
    _, rows, _, _, out = operands
    first = b.load(rows.data, I64)
    with b.loop(0, rows.size, 1, [first, *panel.read(out, first)]) as entry:
        row, *sums = entry.carried
        own = b.load(b.gep(rows.data, entry.index, I64), I64)
        with b.when(b.ne(own, row), sums) as fresh:
            panel.write(out, row, sums)
            fresh.yields(*panel.read(out, own))
        entry.yields(own, *panel.add_product(operands, entry.index, fresh.results))
    row, *sums = entry.results
    panel.write(out, row, sums)


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
    "sparse_product": SmallArrayEntry("xiixx", _multiply, less=ALL_DIMS, most=UNLIMITED),
    "sampled_products": SmallArrayEntry("xxii", _sample_products, like=2, most=UNLIMITED),
}
