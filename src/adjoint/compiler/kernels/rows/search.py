"""Searches in sorted rows: a register of values at a time, all by the same steps."""

from __future__ import annotations

from math import prod

from adjoint.compiler.ir.strided_view import row_major
from adjoint.compiler.ir.symbolic_size import size_value
from adjoint.compiler.kernels.rows.plan import (
    LineTable,
    RowOperand,
    RowPlan,
    divmod_registers,
    split_units,
    type_of,
    unit_range,
)
from adjoint.compiler.kernels.small_arrays.entry import sweep
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I32, Reg, from_dtype
from adjoint.core.typing import NumpyDtype

CHUNK_VALUES = 1024  # of a row that are searched by one unit of work
SECONDS_PER_STEP = 5e-10


def plan_search(x: RowOperand, values: RowOperand, *, right: bool, dtype: NumpyDtype, target: Target) -> RowPlan | None:
    """Plan `searchsorted`; None if there is no kernel, as where types differ or arrays do not lie in one piece."""
    source = type_of(x.dtype)
    if source is None or x.dtype != values.dtype or not x.shape or not 0 < x.shape[-1] < 2**31:
        return None
    dense = all(row_major(each.shape) == each.strides or prod(each.shape) < 2 for each in (x, values))
    rows = prod(x.shape[:-1])
    found = prod(values.shape)
    if not dense or not rows or not found:
        return None
    count = found // rows
    chunks = -(-count // CHUNK_VALUES)
    seconds = SECONDS_PER_STEP * size_value(found) * size_value(x.shape[-1]).bit_length()
    tiles, each = split_units(rows * chunks, seconds)
    numbers = (rows * chunks, each, chunks, count, x.shape[-1])
    return RowPlan("search", (x.dtype.str, dtype.str, right), numbers, values.shape, dtype, tiles, 0, seconds)


def write_search(b: Builder, table: LineTable, tile: Reg, target: Target, structure: tuple[object, ...]) -> None:
    """The body of a kernel that `plan_search` has planned."""
    name, result, right = structure
    kind, out_kind = from_dtype(str(name)), from_dtype(str(result))
    lanes = min(target.lanes(kind), target.lanes(I32))
    units, each, chunks, count, length = table.numbers(5)
    x, values = table.operands
    low, high = unit_range(b, tile, units, each)
    with b.loop(low, high) as unit:
        row, chunk = divmod_registers(b, unit.index, chunks)
        line = b.gep(x, b.mul(row, length), kind)
        first = b.mul(chunk, CHUNK_VALUES)
        begin = b.add(b.mul(row, count), first)
        given, out = b.gep(values, begin, kind), b.gep(table.out, begin, out_kind)

        def search(index: Reg, mask: Reg | None, line: Reg = line, given: Reg = given, out: Reg = out) -> list[Reg]:
            value = b.load(b.gep(given, index, kind), kind.of(lanes), mask)

            def is_before(place: Reg) -> Reg:
                return _comes_before(b, b.gather(line, place, kind), value, bool(right))

            # A binary search by halves of one length for all lanes: no lane branches, each moves on or stays.
            with b.repeat(carried=[b.constant(0, I32.of(lanes)), length]) as step:
                place, left = step.carried
                step.ends_if(b.le(left, 1))
                half = b.shr(left, 1)
                by = b.broadcast(b.cast(half, I32), lanes)
                further = b.add(place, by)
                step.yields(b.select(is_before(b.sub(further, 1)), further, place), b.sub(left, half))
            place = step.results[0]
            place = b.select(is_before(place), b.add(place, 1), place)
            b.store(b.cast(place, out_kind), b.gep(out, index, out_kind), mask)
            return []

        sweep(b, b.minimum(b.sub(count, first), CHUNK_VALUES), lanes, [], search)


def _comes_before(b: Builder, element: Reg, value: Reg, right: bool) -> Reg:
    """True where an element stands before the place of a value; NaN is the largest."""
    before = b.le(element, value) if right else b.lt(element, value)
    if not value.type.is_float:
        return before
    beyond = b.isnan(value)
    return b.logical_or(before, beyond if right else b.logical_and(beyond, b.logical_not(b.isnan(element))))
