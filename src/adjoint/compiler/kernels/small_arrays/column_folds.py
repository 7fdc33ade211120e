"""Sums and extremes over dimensions before the last, of (outer, rows, columns) over the rows; extremes of rows.

Running sums and products over the rows, and their gradients, are here too.

Short rows lie several side by side in a wide register, so that the lanes are full however few columns there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, UNLIMITED, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.kernels.small_arrays.row_loop import Rows, over_all
from adjoint.compiler.llvm.types import F64, I64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder

WIDE_REGISTERS = 4  # side by side, so that additions do not wait for one another
BLOCK_ROWS = 64  # that are added in the type of the elements
MIN_GROUPED_ROWS = 32  # of fewer short rows each is a register of its own

Store = Callable[[Reg, Reg | None, Reg], None]  # of the first column, a mask, and what became of the columns


class _Fold(NamedTuple):
    """An operation that combines two numbers, and the number with which it begins; `widens`: it goes on in float64."""

    name: str
    identity: float
    widens: bool

    def combine(self, b: Builder, x: Reg, y: Reg) -> Reg:
        """One of two registers."""
        result: Reg = getattr(b, self.name)(x, y)
        return result

    def total_type(self, kind: Type) -> Type:
        """The type in which blocks of rows are combined."""
        return F64 if self.widens else kind


class _Columns:
    """Rows of columns that lie one after another from `data` on."""

    def __init__(self, b: Builder, fold: _Fold, kind: Type, data: Reg, columns: Reg) -> None:
        self.b, self.fold, self.kind, self.data, self.columns = b, fold, kind, data, columns

    def fold_all(self, rows: Reg, lanes: int, store: Store) -> None:
        """Fold all columns: first in wide blocks, so that a row is read in longer pieces."""
        b, wide = self.b, lanes * WIDE_REGISTERS
        many = b.bitwise_and(self.columns, -wide)

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            at = b.add(many, index)
            store(at, mask, self.fold_block(rows, at, lanes, mask))
            return []

        with b.loop(0, many, wide) as loop:
            store(loop.index, None, self.fold_block(rows, loop.index, wide, None))
        sweep(b, b.sub(self.columns, many), lanes, [], body)

    def fold_block(self, rows: Reg, at: Reg | int, lanes: int, mask: Reg | None) -> Reg:
        """Fold a register of neighbouring columns over all rows."""
        b, fold = self.b, self.fold
        wide = fold.total_type(self.kind)
        start = b.constant(fold.identity, self.kind.of(lanes))
        with b.loop(0, rows, BLOCK_ROWS, [b.constant(fold.identity, wide.of(lanes))]) as blocks:
            count = b.minimum(b.sub(rows, blocks.index), BLOCK_ROWS)
            with b.loop(0, count, carried=[start]) as loop:
                first = b.add(b.mul(b.add(blocks.index, loop.index), self.columns), at)
                value = b.load(b.gep(self.data, first, self.kind), self.kind.of(lanes), mask)
                loop.yields(fold.combine(b, loop.carried[0], value))
            blocks.yields(fold.combine(b, blocks.carried[0], b.cast(loop.results[0], wide)))
        return blocks.results[0]


def _fold_columns(
    b: Builder, kind: Type, lanes: int, x: ArrayOperand, shape: ArrayOperand, out: ArrayOperand, fold: _Fold
) -> None:
    """Fold (outer, rows, columns) over its rows; `shape` is (outer, columns), which nobody reads."""
    columns, wide = x.last, lanes * WIDE_REGISTERS
    rows = b.floor_divide(x.size, out.size)
    group = b.floor_divide(b.constant(wide, columns.type), columns)  # rows that fit into a wide register
    is_grouped = b.logical_and(b.ge(group, 2), b.ge(rows, MIN_GROUPED_ROWS))
    places = b.stack(wide, fold.total_type(kind))
    with b.loop(0, b.floor_divide(out.size, columns)) as loop:
        data = b.gep(x.data, b.mul(loop.index, b.mul(rows, columns)), kind)
        first = b.mul(loop.index, columns)

        def store(at: Reg, mask: Reg | None, total: Reg, first: Reg = first) -> None:
            b.store(b.cast(total, kind), b.gep(out.data, b.add(first, at), kind), mask)

        with b.when(is_grouped):
            _fold_groups(b, kind, lanes, _Columns(b, fold, kind, data, columns), rows, group, places, store)
        with b.when(b.logical_not(is_grouped)):
            _Columns(b, fold, kind, data, columns).fold_all(rows, lanes, store)


def _fold_groups(
    b: Builder, kind: Type, lanes: int, narrow: _Columns, rows: Reg, group: Reg, places: Reg, store: Store
) -> None:
    """Fold groups of rows as long rows, and what fills no group with them; then the rows of the group that is left."""
    fold, columns, wide = narrow.fold, narrow.columns, lanes * WIDE_REGISTERS
    total_type = fold.total_type(kind)
    length = b.mul(group, columns)
    whole = b.floor_divide(rows, group)
    long = _Columns(b, fold, kind, narrow.data, length)
    total = long.fold_block(whole, 0, wide, b.lane_mask(length, wide))
    done = b.mul(whole, length)
    rest = b.lane_mask(b.sub(b.mul(rows, columns), done), wide)
    last = b.load(b.gep(narrow.data, done, kind), kind.of(wide), rest)
    last = b.cast(b.select(rest, last, fold.identity), total_type)
    b.store(fold.combine(b, total, last), places)
    _Columns(b, fold._replace(widens=False), total_type, places, columns).fold_all(group, lanes, store)


def _fold_rows(b: Builder, kind: Type, lanes: int, x: ArrayOperand, out: ArrayOperand, fold: _Fold) -> None:
    """Fold each row, the last dimension."""
    rows = Rows(b, kind, lanes, x, count=out.size)
    across = b.hmax if fold.name == "maximum" else b.hmin
    with rows.each() as row:

        def body(index: Reg, mask: Reg | None, total: Reg) -> list[Reg]:
            value = rows.load(0, index, mask)
            return [fold.combine(b, total, value if mask is None else b.select(mask, value, fold.identity))]

        (total,) = rows.sweep([rows.full(fold.identity)], body)
        b.store(across(total), b.gep(out.data, row, kind))


class _Lines:
    """Lines through (outer, rows, columns) from row to row, as many side by side as a register has lanes.

    `sizes` holds rows and columns. What is carried along a line is in float64.
    """

    def __init__(self, b: Builder, kind: Type, lanes: int, size: Reg, sizes: ArrayOperand) -> None:
        self.b, self.kind, self.lanes, self.size = b, kind, lanes, size
        self.rows, self.columns = (b.load(b.gep(sizes.data, k, I64), I64) for k in (0, 1))

    def visit(self, walk: Callable[[Reg, Reg | None, int], None]) -> None:
        """Call `walk` with the first place of each line, the mask of those side by side, and their number."""
        b = self.b
        block = b.mul(self.rows, self.columns)
        is_single = b.eq(self.columns, 1)  # without masks, which take longer than the rest
        with b.loop(0, b.floor_divide(self.size, block)) as outer:
            start = b.mul(outer.index, block)
            with b.when(is_single):
                walk(start, None, 1)

            def body(index: Reg, mask: Reg | None, start: Reg = start) -> list[Reg]:
                walk(b.add(start, index), mask, self.lanes)
                return []

            with b.when(b.logical_not(is_single)):
                sweep(b, self.columns, self.lanes, [], body)

    def fold(
        self,
        first: Reg,
        lanes: int,
        identity: float,
        step: Callable[[Reg, Reg], Reg],
        backward: bool = False,
    ) -> None:
        """Carry a number along a line: `step(place, carried)` gives the next one."""
        b = self.b
        with b.loop(0, self.rows, carried=[b.constant(identity, F64.of(lanes))]) as loop:
            row = b.sub(b.sub(self.rows, loop.index), 1) if backward else loop.index
            loop.yields(step(b.add(first, b.mul(row, self.columns)), loop.carried[0]))

    def load(self, x: ArrayOperand, place: Reg, mask: Reg | None, lanes: int) -> Reg:
        """Load the numbers at a place, in float64."""
        return self.b.cast(self.b.load(self.b.gep(x.data, place, self.kind), self.kind.of(lanes), mask), F64)

    def store(self, x: ArrayOperand, place: Reg, mask: Reg | None, value: Reg) -> None:
        """Store numbers of float64 at a place."""
        self.b.store(self.b.cast(value, self.kind), self.b.gep(x.data, place, self.kind), mask)


def _run(
    b: Builder, kind: Type, lanes: int, x: ArrayOperand, sizes: ArrayOperand, out: ArrayOperand, fold: _Fold, back: bool
) -> None:
    """Write the running sums or products, which `back` begin at the last row."""
    lines = _Lines(b, kind, lanes, x.size, sizes)

    def walk(first: Reg, mask: Reg | None, lanes: int) -> None:
        def step(place: Reg, total: Reg) -> Reg:
            total = fold.combine(b, total, lines.load(x, place, mask, lanes))
            lines.store(out, place, mask, total)
            return total

        lines.fold(first, lanes, fold.identity, step, back)

    lines.visit(walk)


def _run_product_gradient(
    b: Builder, kind: Type, lanes: int, g: ArrayOperand, x: ArrayOperand, sizes: ArrayOperand, out: ArrayOperand
) -> None:
    """Write the gradient of running products: the product of what is before, times R, where R = g + (x R) of the next.

    No quotient is taken, so zeros need no care.
    """
    lines = _Lines(b, kind, lanes, g.size, sizes)

    def walk(first: Reg, mask: Reg | None, lanes: int) -> None:
        def before(place: Reg, product: Reg) -> Reg:
            lines.store(out, place, mask, product)
            return b.mul(product, lines.load(x, place, mask, lanes))

        def after(place: Reg, next_term: Reg) -> Reg:
            rest = b.add(lines.load(g, place, mask, lanes), next_term)
            lines.store(out, place, mask, b.mul(lines.load(out, place, mask, lanes), rest))
            return b.mul(lines.load(x, place, mask, lanes), rest)

        lines.fold(first, lanes, 1.0, before)
        lines.fold(first, lanes, 0.0, after, backward=True)

    lines.visit(walk)


SUM = _Fold("add", 0.0, widens=True)
RUNNING_SUM, RUNNING_PRODUCT = _Fold("add", -0.0, widens=True), _Fold("mul", 1.0, widens=True)
LARGEST, SMALLEST = _Fold("maximum", -math.inf, widens=False), _Fold("minimum", math.inf, widens=False)
ROUTINES = (
    {
        name: SmallArrayEntry("xx", partial(_fold_columns, fold=fold), like=1, most=UNLIMITED)
        for name, fold in (("sum_columns", SUM), ("max_columns", LARGEST), ("min_columns", SMALLEST))
    }
    | {
        name: SmallArrayEntry("x", partial(_fold_rows, fold=fold), less=1, most=UNLIMITED)
        for name, fold in (("max_rows", LARGEST), ("min_rows", SMALLEST))
    }
    | {
        name: SmallArrayEntry("x", over_all(partial(_fold_rows, fold=fold)), less=ALL_DIMS, most=UNLIMITED)
        for name, fold in (("max_of_all", LARGEST), ("min_of_all", SMALLEST))
    }
    | {
        name: SmallArrayEntry("xi", partial(_run, fold=fold, back=back), copies=1)
        for name, fold, back in (
            ("running_sum", RUNNING_SUM, False),
            ("running_sum_back", RUNNING_SUM, True),
            ("running_product", RUNNING_PRODUCT, False),
        )
    }
    | {"running_product_gradient": SmallArrayEntry("xxi", _run_product_gradient, copies=2, alike=True)}
)
