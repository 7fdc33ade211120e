"""The first few elements of each row in sorted order, and where they stand: by insertion, which suits few and short."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, ArrayOperand, SmallArrayEntry
from adjoint.compiler.llvm.types import I64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder


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
    """Write the leading elements of each row into `values`, their positions into `places`; equals keep their order."""
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


# The array that each answers with has no meaning but that the work is done.
ROUTINES = {
    name: SmallArrayEntry("xix", partial(_leading, descending=descending), less=ALL_DIMS, copies=1)
    for name, descending in {"leading_largest": True, "leading_smallest": False}.items()
}
