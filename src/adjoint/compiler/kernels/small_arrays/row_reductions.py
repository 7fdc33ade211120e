"""Sums, norms, extremes and leading elements of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, UNLIMITED, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.kernels.small_arrays.row_loop import Rows, over_all
from adjoint.compiler.llvm.types import F64, I64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder

NO_POSITION = 2**62

MAX_SEQUENTIAL_SUM = 2**13  # elements that are summed one after another; a multiple of a register's lanes


def _sum(b: Builder, kind: Type, lanes: int, x: ArrayOperand, out: ArrayOperand) -> None:
    _sum_rows(b, kind, lanes, x, out, lambda total, length: total)


def _mean(b: Builder, kind: Type, lanes: int, x: ArrayOperand, out: ArrayOperand) -> None:
    _sum_rows(b, kind, lanes, x, out, lambda total, length: b.div(total, b.cast(length, kind)))


def _norm(b: Builder, kind: Type, lanes: int, x: ArrayOperand, out: ArrayOperand) -> None:
    _sum_rows(b, kind, lanes, x, out, lambda total, length: b.sqrt(total), lambda value: b.mul(value, value))


def _sum_rows(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    out: ArrayOperand,
    finish: Callable[[Reg, Reg], Reg],
    term: Callable[[Reg], Reg] = lambda value: value,
) -> None:
    """Sums in float64, then finished: of float32 no more than the total is rounded, which is infinite where it is."""
    rows = Rows(b, kind, lanes, x, count=out.size)
    nothing = b.constant(0.0, F64.of(lanes))
    with rows.each() as row:
        with b.loop(0, rows.length, MAX_SEQUENTIAL_SUM, [nothing]) as blocks:
            start = blocks.index

            def body(index: Reg, mask: Reg | None, total: Reg) -> list[Reg]:
                return [b.add(total, b.cast(term(rows.load(0, b.add(start, index), mask)), F64))]

            count = b.minimum(b.sub(rows.length, start), MAX_SEQUENTIAL_SUM)
            (part,) = sweep(b, count, lanes, [nothing], body)
            blocks.yields(b.add(blocks.carried[0], part))
        total = b.hsum(blocks.results[0])
        b.store(finish(b.cast(total, kind), rows.length), b.gep(out.data, row, kind))


def _extreme(
    b: Builder, kind: Type, lanes: int, x: ArrayOperand, places: ArrayOperand, values: ArrayOperand, largest: bool
) -> None:
    """The largest or smallest of each row and the first place where it stands; NaN goes before all."""
    rows = Rows(b, kind, lanes, x)
    with rows.each() as row:
        top = rows.extreme(0, largest)

        def body(index: Reg, mask: Reg | None, first: Reg, undefined: Reg) -> list[Reg]:
            value = rows.load(0, index, mask)
            here = b.add(b.broadcast(index, lanes), b.iota(lanes))

            def earliest(holds: Reg, best: Reg) -> Reg:
                holds = holds if mask is None else b.logical_and(holds, mask)
                return b.minimum(b.select(holds, here, NO_POSITION), best)

            return [earliest(b.eq(value, top), first), earliest(b.isnan(value), undefined)]

        nowhere = b.constant(NO_POSITION, I64.of(lanes))
        first, undefined = (b.hmin(found) for found in rows.sweep([nowhere, nowhere], body))
        is_nan = b.lt(undefined, NO_POSITION)
        b.store(b.select(is_nan, float("nan"), top), b.gep(values.data, row, kind))
        b.store(b.select(is_nan, undefined, first), b.gep(places.data, row, I64))


def _leading(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    places: ArrayOperand,
    values: ArrayOperand,
    done: ArrayOperand,
    descending: bool,
) -> None:
    """Write the first few of each row in sorted order into `values`, their positions into `places`; equals keep theirs.

    It goes by insertion, which suits few and short rows.
    """
    one = b.constant(1, I64)
    with b.loop(0, b.floor_divide(values.size, values.last)) as row:
        source = b.gep(x.data, b.mul(row.index, x.last), kind)
        start = b.mul(row.index, values.last)
        best, where = b.gep(values.data, start, kind), b.gep(places.data, start, I64)
        with b.loop(0, x.last, carried=[b.constant(0, I64)]) as element:
            (held,) = element.carried  # how many there are so far
            value = b.load(b.gep(source, element.index, kind), kind)
            is_full = b.eq(held, values.last)
            last = b.sub(held, one)
            with b.when(is_full, [b.logical_not(is_full)]) as compared:
                compared.yields(_goes_before(b, value, b.load(b.gep(best, last, kind), kind), descending))
            with b.when(compared.results[0]):
                first_moved = b.select(is_full, last, held)
                with b.repeat([first_moved]) as shift:
                    (at,) = shift.carried
                    shift.ends_if(b.eq(at, 0))
                    before = b.sub(at, one)
                    neighbour = b.load(b.gep(best, before, kind), kind)
                    shift.ends_if(b.logical_not(_goes_before(b, value, neighbour, descending)))
                    b.store(neighbour, b.gep(best, at, kind))
                    b.store(b.load(b.gep(where, before, I64), I64), b.gep(where, at, I64))
                    shift.yields(before)
                b.store(value, b.gep(best, shift.results[0], kind))
                b.store(element.index, b.gep(where, shift.results[0], I64))
            element.yields(b.select(is_full, held, b.add(held, one)))


def _goes_before(b: Builder, value: Reg, other: Reg, descending: bool) -> Reg:
    """True if a value goes before another that came first; NaN is the largest."""
    nan, other_nan = b.isnan(value), b.isnan(other)
    if descending:
        return b.logical_or(b.gt(value, other), b.logical_and(nan, b.logical_not(other_nan)))
    return b.logical_or(b.lt(value, other), b.logical_and(other_nan, b.logical_not(nan)))


ROUTINES = {
    "sum": SmallArrayEntry("x", _sum, less=1, most=UNLIMITED),
    "sum_of_all": SmallArrayEntry("x", over_all(_sum), less=ALL_DIMS, most=UNLIMITED),
    "mean": SmallArrayEntry("x", _mean, less=1, most=UNLIMITED),
    "mean_of_all": SmallArrayEntry("x", over_all(_mean), less=ALL_DIMS, most=UNLIMITED),
    "norm": SmallArrayEntry("x", _norm, less=1, most=UNLIMITED),
    "norm_of_all": SmallArrayEntry("x", over_all(_norm), less=ALL_DIMS, most=UNLIMITED),
    "max": SmallArrayEntry("xi", partial(_extreme, largest=True), less=1, copies=1),
    "min": SmallArrayEntry("xi", partial(_extreme, largest=False), less=1, copies=1),
    # The array with which these two answer tells only that the work is done.
    "leading_largest": SmallArrayEntry("xix", partial(_leading, descending=True), less=ALL_DIMS, copies=1),
    "leading_smallest": SmallArrayEntry("xix", partial(_leading, descending=False), less=ALL_DIMS, copies=1),
}
