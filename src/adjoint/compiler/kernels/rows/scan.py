"""Running sums, products, logarithms of sums of exponentials, and positions of running extremes.

Along rows in memory a register is scanned at a time, in log₂ of its lanes steps; across rows each lane has a line of
its own. Where a register's results leave the range of numbers, its elements are combined once more, one after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import size_value
from adjoint.compiler.kernels.rows.plan import (
    Lines,
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
from adjoint.compiler.llvm.types import F32, F64, Reg, Type, from_dtype
from adjoint.core.typing import NumpyDtype

ROW, REVERSED_ROW, STRIDED = "row", "reversed_row", "strided"
COLUMNS, WIDE_COLUMNS = "columns", "wide_columns"
MIN_WIDE_STRIP_COLUMNS = 256
WIDE_STRIP_COLUMNS = 1024  # columns whose results so far lie in the nearest cache, where there are many
STRIP_REGISTERS = 4  # of neighbouring columns that are scanned together
SMALLEST_PRODUCT = {32: 1e-30, 64: 1e-290}  # below it a product may have lost digits that a later factor would need
SMALLEST_SUM = 1e-280
SECONDS_PER_ELEMENT = {"cumsum": 4e-10, "cumprod": 6e-10, "logcumsumexp": 5e-9, "argmax": 8e-10, "argmin": 8e-10}
EXTREMES = ("argmax", "argmin")


class Scan(NamedTuple):
    """A running fold: the type it computes in, its first value, and how two neighbouring stretches combine."""

    type: Type
    identity: float
    combine: Callable[[Builder, Reg, Reg], Reg]


def _log_add(b: Builder, x: Reg, y: Reg) -> Reg:
    """ln(eˣ + eʸ): the larger, and ln(1 + e^-|x - y|); what is infinite, or NaN, stays what it is."""
    larger = b.maximum(x, y)
    apart = b.sub(b.minimum(x, y), larger)
    rest = b.log1p(b.exp(apart))
    return b.select(b.eq(x, y), b.add(x, math.log(2)), b.add(larger, rest))


def scan_of(name: str, out: Type) -> Scan:
    """The fold of an op for results of a type: float32 is summed and multiplied in float64."""
    wide = F64 if out == F32 and name != "logcumsumexp" else out
    if name == "cumsum":
        return Scan(wide, -0.0 if wide.is_float else 0, lambda b, x, y: b.add(x, y))
    if name == "cumprod":
        return Scan(wide, 1, lambda b, x, y: b.mul(x, y))
    return Scan(wide, -math.inf, _log_add)


def plan_running(name: str, x: RowOperand, axis: int, dtype: NumpyDtype, target: Target) -> RowPlan | None:
    """Plan running results of x along `axis`, in `dtype`; None if there is no kernel.

    `name`: of the op; `argmax` and `argmin` for the positions of running extremes, of which the last counts.
    """
    lines, source, out = find_lines(x, axis), type_of(x.dtype), type_of(dtype)
    if lines is None or source is None or out is None or out.is_bool or (name == "logcumsumexp" and not out.is_float):
        return None
    form, registers, units = _form_of(lines), 1, lines.lines
    if form == COLUMNS:
        width = _column_lanes(target, source, out)
        registers = min(STRIP_REGISTERS, -(-size_value(lines.inner) // width))
        units = lines.outer * -(-lines.inner // (width * registers))
        if size_value(lines.inner) >= MIN_WIDE_STRIP_COLUMNS:
            form, registers, units = WIDE_COLUMNS, 1, lines.outer * -(-lines.inner // WIDE_STRIP_COLUMNS)
    seconds = SECONDS_PER_ELEMENT[name] * size_value(lines.lines * lines.length)
    tiles, each = split_units(units, seconds)
    numbers = (units, each, lines.length, lines.inner, lines.outer_stride, lines.stride, lines.inner_stride)
    structure = (name, x.dtype.str, dtype.str, form, registers)
    return RowPlan("scan", structure, numbers, x.shape, dtype, tiles, 0, seconds)


def _form_of(lines: Lines) -> str:
    if lines.inner > 1:
        return COLUMNS if lines.inner_stride == 1 else STRIDED
    return {1: ROW, -1: REVERSED_ROW}.get(lines.stride, STRIDED) if lines.length > 1 else ROW


def _column_lanes(target: Target, source: Type, out: Type) -> int:
    return min(target.lanes(source), target.lanes(out))


def write_scan(b: Builder, table: LineTable, tile: Reg, target: Target, structure: tuple[object, ...]) -> None:
    """The body of a kernel that `plan_running` has planned."""
    name, source, out, form, registers = structure
    writer = _ScanWriter(b, table, target, str(name), from_dtype(str(source)), from_dtype(str(out)))
    writer.write(tile, str(form), int(str(registers)))


class _ScanWriter:
    def __init__(self, b: Builder, table: LineTable, target: Target, name: str, source: Type, out: Type) -> None:
        self.b, self.x, self.out = b, table.operands[0], table.out
        self.name, self.source, self.kind, self.target = name, source, out, target
        self.units, self.each, self.length, self.inner, *self.strides = table.numbers(7)

    def write(self, tile: Reg, form: str, registers: int) -> None:
        b = self.b
        self.stacks = [b.stack(WIDE_STRIP_COLUMNS, type) for type in self._held_types() if form == WIDE_COLUMNS]
        low, high = unit_range(b, tile, self.units, self.each)
        with b.loop(low, high) as unit:
            if form == COLUMNS:
                self._write_strip(unit.index, registers)
            elif form == STRIDED:
                self._write_line(unit.index)
            elif form == WIDE_COLUMNS:
                self._write_wide_strip(unit.index)
            elif self.name in EXTREMES:
                x = self._address(self.x, b.mul(unit.index, self.strides[0]), self.source)
                out = self._address(self.out, b.mul(unit.index, self.length), self.kind)
                self._write_extremes(x, self.strides[1], out, b.constant(1, self.length.type))
            elif self.name == "logcumsumexp":
                self._write_log_row(unit.index, -1 if form == REVERSED_ROW else 1)
            else:
                self._write_row(unit.index, -1 if form == REVERSED_ROW else 1)

    def _address(self, pointer: Reg, offset: Reg, type: Type) -> Reg:
        return self.b.gep(pointer, offset, type)

    def _write_row(self, row: Reg, step: int) -> None:
        """One line whose elements are neighbours."""
        b, scan = self.b, scan_of(self.name, self.kind)
        lanes = self.target.lanes(scan.type)
        x = self._address(self.x, b.mul(row, self.strides[0]), self.source)
        out = self._address(self.out, b.mul(row, self.length), self.kind)

        def take_block(index: Reg, mask: Reg | None, carry: Reg) -> list[Reg]:
            place = self._address(x, index if step == 1 else b.sub(0, index), self.source)
            target = self._address(out, index, self.kind)
            value = b.cast(self._load(place, lanes, mask, step), scan.type)
            if mask is not None:
                value = b.select(mask, value, scan.identity)
            # Prefix sums within a register take log₂(lanes) shifts (Hillis and Steele, 1986) instead of one step for
            # each element; only the carry goes from register to register.
            within = value
            by = 1
            while by < lanes:
                within = scan.combine(b, b.shift_lanes(within, by, scan.identity), within)
                by *= 2
            b.store(b.cast(scan.combine(b, carry, within), self.kind), target, mask)
            following = scan.combine(b, carry, b.broadcast(b.extract(within, lanes - 1), lanes))
            is_regular = self._is_regular(within)
            if is_regular is None:
                return [following]
            # Combining in another order changes the roundings alone, except where it would meet an infinity or lose
            # digits on the way: such a block is done once more, in order.
            with b.when(b.logical_not(b.hand(is_regular)), [following]) as again:
                count = lanes if mask is None else b.sub(self.length, index)
                last = self._combine_in_order(scan, place, step, target, count, b.extract(carry, 0))
                again.yields(b.broadcast(last, lanes))
            return [*again.results]

        sweep(b, self.length, lanes, [b.constant(scan.identity, scan.type.of(lanes))], take_block)

    def _write_log_row(self, row: Reg, step: int) -> None:
        """One line of logarithms: the sums of e^(x - m), where m is the largest element so far, grow in float64.

        Where a sum is no number, or so small that it may have lost digits, its block is combined in order.
        """
        b, lanes = self.b, self.target.lanes(F64)
        scan = Scan(F64, -math.inf, _log_add)
        x = self._address(self.x, b.mul(row, self.strides[0]), self.source)
        out = self._address(self.out, b.mul(row, self.length), self.kind)

        def take_block(index: Reg, mask: Reg | None, top: Reg, total: Reg) -> list[Reg]:
            place = self._address(x, index if step == 1 else b.sub(0, index), self.source)
            target = self._address(out, index, self.kind)
            value = b.cast(self._load(place, lanes, mask, step), F64)
            if mask is not None:
                value = b.select(mask, value, -math.inf)
            peak = b.maximum(top, b.hmax(value))
            with b.when(b.gt(peak, top), [b.constant(1.0, F64)]) as higher:
                higher.yields(b.exp(b.sub(top, peak)))
            terms = b.exp(b.sub(value, peak))
            for by in (1, 2, 4)[: lanes.bit_length() - 1]:
                terms = b.add(b.shift_lanes(terms, by, 0.0), terms)
            sums = b.add(b.mul(total, higher.results[0]), terms)
            b.store(b.cast(b.add(b.log(sums), peak), self.kind), target, mask)
            is_regular = b.logical_and(b.gt(sums, SMALLEST_SUM), b.lt(sums, math.inf))
            following = [peak, b.extract(sums, lanes - 1)]
            with b.when(b.logical_not(b.hand(is_regular)), following) as again:
                before = b.select(b.eq(total, 0.0), -math.inf, b.add(top, b.log(total)))
                count = lanes if mask is None else b.sub(self.length, index)
                last = self._combine_in_order(scan, place, step, target, count, before)
                again.yields(last, b.select(b.eq(last, -math.inf), 0.0, b.constant(1.0, F64)))
            return [*again.results]

        sweep(b, self.length, lanes, [b.constant(-math.inf, F64), b.constant(0.0, F64)], take_block)

    def _load(self, place: Reg, lanes: int, mask: Reg | None, step: int) -> Reg:
        b = self.b
        if step == 1:
            return b.load(place, self.source.of(lanes), mask)
        if mask is not None:
            return b.gather(place, b.sub(0, b.iota(lanes)), self.source, mask)
        return b.reverse_lanes(b.load(b.gep(place, 1 - lanes, self.source), self.source.of(lanes)))

    def _is_regular(self, within: Reg) -> Reg | None:
        """True in lanes in which the order of combining makes no difference but rounding; None if it never does."""
        b, type = self.b, within.type
        if not type.is_float:
            return None
        size = b.abs(within)
        below = b.lt(size, math.inf)
        return below if self.name == "cumsum" else b.logical_and(below, b.gt(size, SMALLEST_PRODUCT[self.kind.bits]))

    def _combine_in_order(self, scan: Scan, place: Reg, step: int, target: Reg, count: Reg | int, carry: Reg) -> Reg:
        b = self.b
        with b.loop(0, count, carried=[carry]) as turn:
            at = turn.index if step == 1 else b.sub(0, turn.index)
            value = b.cast(b.load(b.gep(place, at, self.source), self.source), scan.type)
            total = scan.combine(b, turn.carried[0], value)
            b.store(b.cast(total, self.kind), b.gep(target, turn.index, self.kind))
            turn.yields(total)
        return turn.results[0]

    def _write_line(self, unit: Reg) -> None:
        """One line, element by element."""
        b = self.b
        outer, column = divmod_registers(b, unit, self.inner)
        first = b.add(b.mul(outer, self.strides[0]), b.mul(column, self.strides[2]))
        x = self._address(self.x, first, self.source)
        out = self._address(self.out, b.add(b.mul(b.mul(outer, self.length), self.inner), column), self.kind)
        if self.name in EXTREMES:
            self._write_extremes(x, self.strides[1], out, self.inner)
            return
        scan = scan_of(self.name, self.kind)
        with b.loop(0, self.length, carried=[b.constant(scan.identity, scan.type)]) as turn:
            value = b.load(b.gep(x, b.mul(turn.index, self.strides[1]), self.source), self.source)
            total = scan.combine(b, turn.carried[0], b.cast(value, scan.type))
            b.store(b.cast(total, self.kind), b.gep(out, b.mul(turn.index, self.inner), self.kind))
            turn.yields(total)

    def _write_extremes(self, x: Reg, step: Reg, out: Reg, out_step: Reg) -> None:
        """Positions along a line; a new extreme is rare, so that a jump over it costs least."""
        b = self.b
        with b.when(b.gt(self.length, 0)):
            first = [b.load(x, self.source), b.constant(0, self.length.type)]
            with b.loop(0, self.length, carried=first) as turn:
                best, place = turn.carried
                value = b.load(b.gep(x, b.mul(turn.index, step), self.source), self.source)
                with b.when(self._is_extreme(value, best), [best, place]) as better:
                    better.yields(value, turn.index)
                best, place = better.results
                b.store(b.cast(place, self.kind), b.gep(out, b.mul(turn.index, out_step), self.kind))
                turn.yields(best, place)

    def _is_extreme(self, value: Reg, best: Reg) -> Reg:
        b = self.b
        reached = b.ge(value, best) if self.name == "argmax" else b.le(value, best)
        return b.logical_or(reached, b.isnan(value)) if value.type.is_float else reached

    def _begin_strip(self, unit: Reg, width: int) -> tuple[Reg, Reg, Reg]:
        """The addresses of a strip of columns in x and in the result, and how many columns there are from it on."""
        b = self.b
        strips = b.emit(f"udiv i64 {b.add(self.inner, width - 1).name}, {width}", self.inner.type)
        outer, strip = divmod_registers(b, unit, strips)
        column = b.mul(strip, width)
        x = self._address(self.x, b.add(b.mul(outer, self.strides[0]), column), self.source)
        out = self._address(self.out, b.add(b.mul(b.mul(outer, self.length), self.inner), column), self.kind)
        return x, out, b.sub(self.inner, column)

    def _write_wide_strip(self, unit: Reg) -> None:
        """Many columns, row by row; the results so far are in memory."""
        b, lanes = self.b, _column_lanes(self.target, self.source, self.kind)
        x, out, left = self._begin_strip(unit, WIDE_STRIP_COLUMNS)
        count = b.minimum(left, WIDE_STRIP_COLUMNS)
        so_far, types = self.stacks, self._held_types()

        def begin(index: Reg, mask: Reg | None) -> list[Reg]:
            for value, place in zip(self._first_values(b.gep(x, index, self.source), lanes, mask), so_far, strict=True):
                b.store(value, b.gep(place, index, value.type), mask)
            return []

        sweep(b, count, lanes, [], begin)
        with b.loop(0, self.length) as turn:
            source = b.gep(x, b.mul(turn.index, self.strides[1]), self.source)
            target = b.gep(out, b.mul(turn.index, self.inner), self.kind)

            def advance(index: Reg, mask: Reg | None) -> list[Reg]:
                places = [b.gep(place, index, type) for place, type in zip(so_far, types, strict=True)]
                held = [b.load(place, type.of(lanes), mask) for place, type in zip(places, types, strict=True)]
                value = b.load(b.gep(source, index, self.source), self.source.of(lanes), mask)
                held = self._advance(held, value, turn.index)
                for new, place in zip(held, places, strict=True):
                    b.store(new, place, mask)
                b.store(b.cast(held[-1], self.kind), b.gep(target, index, self.kind), mask)
                return []

            sweep(b, count, lanes, [], advance)

    def _held_types(self) -> list[Type]:
        """The types of what goes on from row to row."""
        return [self.source, self.kind] if self.name in EXTREMES else [scan_of(self.name, self.kind).type]

    def _first_values(self, x: Reg, lanes: int, mask: Reg | None) -> list[Reg]:
        b = self.b
        if self.name in EXTREMES:
            return [b.load(x, self.source.of(lanes), mask), b.constant(0, self.kind.of(lanes))]
        scan = scan_of(self.name, self.kind)
        return [b.constant(scan.identity, scan.type.of(lanes))]

    def _advance(self, held: Sequence[Reg], value: Reg, index: Reg) -> list[Reg]:
        """The results after one more element in each lane; the last of them is what is stored."""
        b = self.b
        if self.name in EXTREMES:
            better = self._is_extreme(value, held[0])
            return [b.select(better, value, held[0]), b.select(better, b.cast(index, self.kind), held[1])]
        scan = scan_of(self.name, self.kind)
        return [scan.combine(b, held[0], b.cast(value, scan.type))]

    def _write_strip(self, unit: Reg, registers: int) -> None:
        """Neighbouring columns, each in a lane."""
        b, lanes = self.b, _column_lanes(self.target, self.source, self.kind)
        x, out, left = self._begin_strip(unit, lanes * registers)
        masks = [b.lane_mask(b.sub(left, r * lanes) if r else left, lanes) for r in range(registers)]
        begun = [self._first_values(b.gep(x, r * lanes, self.source), lanes, mask) for r, mask in enumerate(masks)]
        each = len(begun[0])
        with b.loop(0, self.length, carried=[value for values in begun for value in values]) as turn:
            source = b.gep(x, b.mul(turn.index, self.strides[1]), self.source)
            target = b.gep(out, b.mul(turn.index, self.inner), self.kind)
            yielded: list[Reg] = []
            for r, mask in enumerate(masks):
                value = b.load(b.gep(source, r * lanes, self.source), self.source.of(lanes), mask)
                held = self._advance(turn.carried[r * each : (r + 1) * each], value, turn.index)
                b.store(b.cast(held[-1], self.kind), b.gep(target, r * lanes, self.kind), mask)
                yielded += held
            turn.yields(*yielded)
