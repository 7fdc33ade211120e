"""Positions of the first largest, or smallest, elements along a dimension; NaN is the extreme of its line.

Across rows each lane has a column of its own. Along rows a lane has each of so many elements, and the extremes of the
lanes are compared at the end of the row.
"""

from __future__ import annotations

import math

from adjoint.compiler.ir.symbolic_size import size_value
from adjoint.compiler.kernels.rows.plan import (
    INT64,
    LineTable,
    RowOperand,
    RowPlan,
    divmod_registers,
    find_lines,
    split_units,
    type_of,
    unit_range,
)
from adjoint.compiler.kernels.small_arrays.entry import sweep
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I32, I64, Reg, Type, from_dtype

ROW, COLUMNS, STRIDED = "row", "columns", "strided"
STRIP_REGISTERS = 4  # of neighbouring columns that are compared together: one would wait for its own last comparison
SECONDS_PER_ELEMENT = {ROW: 3e-10, COLUMNS: 2e-10, STRIDED: 1.2e-9}


def plan_position(x: RowOperand, *, largest: bool, axis: int, keepdims: bool, target: Target) -> RowPlan | None:
    """Plan the positions of extremes of x along `axis`; None if there is no kernel."""
    lines, source = find_lines(x, axis), type_of(x.dtype)
    if lines is None or source is None or source.is_bool or not 0 < lines.length < 2**31 or not lines.lines:
        return None
    form, registers, units = ROW if lines.stride == 1 else STRIDED, 1, lines.lines
    if lines.inner > 1:
        form = COLUMNS if lines.inner_stride == 1 else STRIDED
    if form == COLUMNS:
        width = _count_lanes(target, source)
        registers = min(STRIP_REGISTERS, -(-size_value(lines.inner) // width))
        units = lines.outer * -(-lines.inner // (width * registers))
    seconds = SECONDS_PER_ELEMENT[form] * size_value(lines.lines * lines.length) * source.itemsize / 4
    tiles, each = split_units(units, seconds)
    numbers = (units, each, lines.length, lines.inner, lines.outer_stride, lines.stride, lines.inner_stride)
    shape = (*x.shape[:axis], *([1] if keepdims else []), *x.shape[axis + 1 :])
    return RowPlan("position", (largest, x.dtype.str, form, registers), numbers, shape, INT64, tiles, 0, seconds)


def _count_lanes(target: Target, source: Type) -> int:
    return target.lanes(_place_type(source))


def _place_type(source: Type) -> Type:
    """The type of positions in lanes: as wide as the elements, if these are not narrower."""
    return I64 if source.bits == 64 else I32


def write_position(b: Builder, table: LineTable, tile: Reg, target: Target, structure: tuple[object, ...]) -> None:
    """The body of a kernel that `plan_position` has planned."""
    largest, source, form, registers = structure
    writer = _PositionWriter(b, table, target, bool(largest), from_dtype(str(source)))
    low, high = unit_range(b, tile, writer.units, writer.each)
    with b.loop(low, high) as unit:
        if form == COLUMNS:
            writer.write_strip(unit.index, int(str(registers)))
        else:
            write = writer.write_row if form == ROW else writer.write_line
            outer, column = divmod_registers(b, unit.index, writer.inner)
            write(writer.find_line(outer, column), b.gep(table.out, unit.index, I64))


class _PositionWriter:
    def __init__(self, b: Builder, table: LineTable, target: Target, largest: bool, source: Type) -> None:
        self.b, self.x, self.out, self.largest, self.source = b, table.operands[0], table.out, largest, source
        self.lanes, self.place = _count_lanes(target, source), _place_type(source)
        self.units, self.each, self.length, self.inner, *self.strides = table.numbers(7)

    def find_line(self, outer: Reg, column: Reg) -> Reg:
        b = self.b
        return b.gep(self.x, b.add(b.mul(outer, self.strides[0]), b.mul(column, self.strides[2])), self.source)

    def write_strip(self, unit: Reg, registers: int) -> None:
        """Neighbouring columns, each in a lane."""
        b, lanes = self.b, self.lanes
        width = lanes * registers
        outer, strip = divmod_registers(b, unit, b.floor_divide(b.add(self.inner, width - 1), width))
        column = b.mul(strip, width)
        x = b.gep(self.x, b.add(b.mul(outer, self.strides[0]), column), self.source)
        out = b.gep(self.out, b.add(b.mul(outer, self.inner), column), I64)
        left = b.sub(self.inner, column)
        masks = [b.lane_mask(b.sub(left, r * lanes) if r else left, lanes) for r in range(registers)]
        begun = [self._load(b.gep(x, r * lanes, self.source), mask) for r, mask in enumerate(masks)]
        first = b.constant(0, self.place.of(lanes))
        with b.loop(1, self.length, carried=[each for best in begun for each in (best, first)]) as turn:
            line = b.gep(x, b.mul(turn.index, self.strides[1]), self.source)
            place = b.broadcast(b.cast(turn.index, self.place), lanes)
            held = list(turn.carried)
            for r, mask in enumerate(masks):
                value = self._load(b.gep(line, r * lanes, self.source), mask)
                held[2 * r : 2 * r + 2] = self._take_better(value, place, *held[2 * r : 2 * r + 2])
            turn.yields(*held)
        for r, mask in enumerate(masks):
            b.store(b.cast(turn.results[2 * r + 1], I64), b.gep(out, r * lanes, I64), mask)

    def write_row(self, x: Reg, out: Reg) -> None:
        """One line whose elements are neighbours, a register at a time."""
        b, lanes = self.b, self.lanes
        none = b.constant(2 ** (self.place.bits - 1) - 1, self.place.of(lanes))  # a position in a lane without elements
        mask = b.lane_mask(self.length, lanes)
        best = b.select(mask, self._load(x, mask), self._least())
        held = [best, b.select(mask, b.iota(lanes, self.place), none)]

        def take_register(index: Reg, mask: Reg | None, best: Reg, place: Reg) -> list[Reg]:
            at = b.add(index, lanes)
            own = b.add(b.iota(lanes, self.place), b.broadcast(b.cast(at, self.place), lanes))
            return self._take_better(self._load(b.gep(x, at, self.source), mask), own, best, place, mask)

        best, places = sweep(b, b.maximum(b.sub(self.length, lanes), 0), lanes, held, take_register)
        extreme = b.broadcast(b.hmax(best) if self.largest else b.hmin(best), lanes)
        winners = b.eq(best, extreme)
        if self.source.is_float:
            winners = b.logical_or(winners, b.isnan(best))  # a NaN is the extreme, which nothing equals then
        b.store(b.cast(b.hmin(b.select(winners, places, none)), I64), out)

    def write_line(self, x: Reg, out: Reg) -> None:
        """One line, element by element."""
        b = self.b
        with b.loop(1, self.length, carried=[b.load(x, self.source), b.constant(0, I64)]) as turn:
            value = b.load(b.gep(x, b.mul(turn.index, self.strides[1]), self.source), self.source)
            turn.yields(*self._take_better(value, turn.index, *turn.carried))
        b.store(turn.results[1], out)

    def _load(self, place: Reg, mask: Reg | None) -> Reg:
        return self.b.load(place, self.source.of(self.lanes), mask)

    def _least(self) -> Reg:
        """The worst number of the type, in all lanes: no element is worse."""
        kind, is_signed = self.source, self.source.kind == "i"
        value: float = -math.inf if self.largest else math.inf
        if kind.is_integer:
            lowest, digits = -(2 ** (kind.bits - 1)) if is_signed else 0, kind.bits - is_signed
            value = lowest if self.largest else 2**digits - 1
        return self.b.constant(value, kind.of(self.lanes))

    def _take_better(self, value: Reg, at: Reg, best: Reg, place: Reg, mask: Reg | None = None) -> list[Reg]:
        """The extreme so far, and its position, after one more element in each lane."""
        b = self.b
        better = b.gt(value, best) if self.largest else b.lt(value, best)
        if self.source.is_float:  # also the first NaN
            kept = b.le(value, best) if self.largest else b.ge(value, best)
            better = b.logical_and(b.logical_not(kept), b.eq(best, best))
        better = better if mask is None else b.logical_and(better, mask)
        return [b.select(better, value, best), b.select(better, at, place)]
