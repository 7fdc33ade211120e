"""Fourier transforms along one dimension: of complex numbers, and between real ones and half a spectrum.

As many lines as a register has lanes are transformed together. An even number of real elements is taken as half as many
complex ones.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_symbolic_size, size_value
from adjoint.compiler.kernels.rows.fft_stages import (
    SpectrumPlane,
    factorize,
    write_half_spectrum,
    write_packed_spectrum,
    write_transform,
)
from adjoint.compiler.kernels.rows.plan import (
    Lines,
    LineTable,
    RowOperand,
    RowPlan,
    find_lines,
    split_units,
    unit_range,
)
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import F32, F64, I64, Reg, Type
from adjoint.core.dtype.dtype import complex_type, real_type
from adjoint.core.typing import NumpyDtype

MAX_LENGTH = 4096  # elements: the tables of longer transforms take long to compile
MAX_LENGTH_OF_FEW = 256  # elements of lines that fill less than a quarter of the lanes: longer ones are NumPy's
SECONDS_PER_ELEMENT = 8e-9
ROWS, COLUMNS, ANYWHERE = "rows", "columns", "anywhere"
FLOATS = {4: F32, 8: F64}


class _Line(NamedTuple):
    """The part of a line that a transform reads or writes: elements, each of so many numbers, in a certain form."""

    length: int
    parts: int  # numbers in an element: 2 of complex ones
    form: str


def plan_transform(
    kind: str, x: RowOperand, axis: int, n: int, inverse: bool, scale: float, target: Target
) -> RowPlan | None:
    """Plan a transform over n elements along `axis`; None if NumPy is to compute it. `kind`: c2c, r2c or c2r."""
    lines, real = find_lines(x, axis), FLOATS.get(real_type(x.dtype).itemsize)
    if lines is None or real is None or not lines.lines or not x.dtype.isnative or is_symbolic_size(n):
        return None
    radices = factorize(n if kind == "c2c" or n % 2 else n // 2)
    if not 1 < n <= MAX_LENGTH or radices is None:
        return None
    lanes = target.lanes(real)
    if 4 * size_value(lines.lines) < lanes and n > MAX_LENGTH_OF_FEW:
        return None
    half = n // 2 + 1
    count, parts = (n, 1) if kind == "c2r" else (half if kind == "r2c" else n, 2)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    dtype: NumpyDtype = real_type(x.dtype) if kind == "c2r" else complex_type(x.dtype)
    out_lines = Lines(lines.outer, count, lines.inner, count * lines.inner, lines.inner, 1)
    by_columns = lines.inner >= lanes
    source = _Line(half if kind == "c2r" else n, 1 if kind == "r2c" else 2, _form_of(lines, by_columns))
    result = _Line(count, parts, _form_of(out_lines, by_columns))
    units = lines.outer * -(-lines.inner // lanes) if by_columns else -(-lines.lines // lanes)
    seconds = SECONDS_PER_ELEMENT * size_value(lines.lines) * n * target.slowdown
    tiles, each = split_units(units, seconds)
    bits = struct.unpack("<q", struct.pack("<d", scale))[0]
    strides = (lines.outer_stride, lines.stride, lines.inner_stride)
    numbers = (units, each, lines.lines, lines.inner, *strides, bits)
    structure = (kind, real.bits, n, inverse, by_columns, source, result, scale == 1)
    scratch = 2 * (2 * n + 4) * lanes * real.itemsize
    return RowPlan("fft", structure, numbers, shape, dtype, tiles, -(-scratch // 64) * 64, seconds)


def _form_of(lines: Lines, by_columns: bool) -> str:
    if by_columns:
        return COLUMNS if lines.inner_stride == 1 else ANYWHERE
    return ROWS if lines.stride == 1 else ANYWHERE


def write_transform_kernel(
    b: Builder, table: LineTable, tile: Reg, target: Target, structure: tuple[object, ...]
) -> None:
    """The body of a kernel that `plan_transform` has planned."""
    kind, bits, n, inverse, by_columns, source, result, unscaled = structure
    assert isinstance(source, _Line)
    assert isinstance(result, _Line)
    assert isinstance(n, int)
    real = F32 if bits == 32 else F64
    writer = _TransformWriter(b, table, real.of(target.lanes(real)), source, result, bool(unscaled))
    writer.write(tile, str(kind), n, inverse=bool(inverse), by_columns=bool(by_columns))


class _TransformWriter:
    def __init__(self, b: Builder, table: LineTable, kind: Type, source: _Line, result: _Line, unscaled: bool) -> None:
        self.b, self.kind, self.source, self.result = b, kind, source, result
        self.x, self.out, self.scratch = table.operands[0], table.out, table.scratch
        self.units, self.each, self.lines, self.inner, self.outer_stride, self.stride, self.inner_stride, bits = (
            table.numbers(8)
        )
        factor = b.cast(b.bitcast(bits, F64), kind.scalar)
        self.factor = None if unscaled else b.broadcast(factor, kind.lanes)

    def write(self, tile: Reg, kind: str, n: int, *, inverse: bool, by_columns: bool) -> None:
        b, lanes = self.b, self.kind.lanes
        spare = b.gep(self.scratch, (2 * n + 4) * lanes, self.kind.scalar)
        low, high = unit_range(b, tile, self.units, self.each)
        with b.loop(low, high) as unit:
            outer, column = self._lines_of(unit.index, by_columns)
            begin = b.add(b.mul(outer, self.outer_stride), b.mul(column, self.inner_stride))
            out = b.add(b.mul(b.mul(outer, self.result.length), self.inner), column)
            self._load(begin)
            planes = SpectrumPlane(b, self.scratch, self.kind, inverse), SpectrumPlane(b, spare, self.kind, inverse)
            finished = self._transform(kind, n, *planes)
            self._store(finished, out)

    def _transform(self, kind: str, n: int, source: SpectrumPlane, spare: SpectrumPlane) -> Reg:
        """Return the memory with the elements to store; those loaded lie in the first plane."""
        b, half = self.b, n // 2
        if kind == "c2c":
            return write_transform(b, source, spare, n).memory
        straight, other = source._replace(inverse=False), spare._replace(inverse=False)
        if kind == "r2c":
            # Pairs of neighbours are taken as complex elements: a transform of half the length, from which the spectrum
            # is put together.
            if n % 2 == 0:
                done = write_transform(b, straight, other, half)
                left = other if done is straight else straight
                write_half_spectrum(b, done, left, half)
                return left.memory
            zero = b.constant(0.0, self.kind)
            with b.loop(0, n) as turn:
                number = b.load(b.gep(source.memory, b.mul(turn.index, self.kind.lanes), self.kind.scalar), self.kind)
                other.store(turn.index, (number, zero))
            return write_transform(b, other, straight, n).memory
        # From half a spectrum: an even length goes the same way backwards; for an odd one the missing half, its
        # mirrored conjugate, is written out.
        turned = source._replace(inverse=True), spare._replace(inverse=True)
        if n % 2 == 0:
            write_packed_spectrum(b, straight, other, half)
            return write_transform(b, turned[1], turned[0], half).memory
        first = straight.load(0)
        other.store(0, (first[0], b.constant(0.0, self.kind)))
        with b.loop(1, half + 1) as turn:
            value = straight.load(turn.index)
            other.store(turn.index, value)
            other.store(b.sub(n, turn.index), (value[0], b.neg(value[1])))
        done = write_transform(b, turned[1], turned[0], n)
        left = turned[0] if done is turned[1] else turned[1]
        with b.loop(0, n) as turn:
            number = done._replace(inverse=False).load(turn.index)[0]
            b.store(number, b.gep(left.memory, b.mul(turn.index, self.kind.lanes), self.kind.scalar))
        return left.memory

    def _lines_of(self, unit: Reg, by_columns: bool) -> tuple[Reg, Reg]:
        """The outer and the inner index of each lane's line. The last ones may stand for several lanes."""
        b, lanes = self.b, self.kind.lanes
        if by_columns:
            strips = b.emit(f"udiv i64 {b.add(self.inner, lanes - 1).name}, {lanes}", I64)
            outer = b.emit(f"udiv i64 {unit.name}, {strips.name}", I64)
            strip = b.sub(unit, b.mul(outer, strips))
            column = b.minimum(b.mul(strip, lanes), b.sub(self.inner, lanes))
            return b.broadcast(outer, lanes), b.add(b.broadcast(column, lanes), b.iota(lanes))
        line = b.add(b.broadcast(b.mul(unit, lanes), lanes), b.iota(lanes))
        line = b.minimum(line, b.broadcast(b.sub(self.lines, 1), lanes))
        inner = b.broadcast(self.inner, lanes)
        outer = b.emit(f"udiv {line.type.text} {line.name}, {inner.name}", line.type)
        return outer, b.sub(line, b.mul(outer, inner))

    def _load(self, begin: Reg) -> None:
        """The elements of all lines into the first plane: a register for each number of an element."""
        b, kind, parts = self.b, self.kind, self.source.parts
        lanes, scalar = kind.lanes, kind.scalar
        numbers = self.source.length * parts
        begin = b.mul(begin, parts) if parts > 1 else begin
        if self.source.form == ROWS:
            # Lines that lie one after another are read by whole registers and transposed: each register then has one
            # element of every line, with no gather.
            starts = [b.gep(self.x, b.extract(begin, lane), scalar) for lane in range(lanes)]
            whole = numbers - numbers % lanes
            with b.loop(0, whole, lanes) as turn:
                rows = [b.load(b.gep(start, turn.index, scalar), kind) for start in starts]
                place = b.gep(self.scratch, b.mul(turn.index, lanes), scalar)
                for i, column in enumerate(b.transpose_lanes(rows)):
                    b.store(column, b.gep(place, i * lanes, scalar))
            with b.loop(whole, numbers) as turn:
                column = b.gather(b.gep(self.x, turn.index, scalar), begin, scalar)
                b.store(column, b.gep(self.scratch, b.mul(turn.index, lanes), scalar))
            return
        first = b.gep(self.x, b.extract(begin, 0), scalar)
        step = b.mul(self.stride, parts) if parts > 1 else self.stride
        with b.loop(0, self.source.length) as turn:
            at = b.mul(turn.index, step)
            place = b.gep(self.scratch, b.mul(turn.index, parts * lanes), scalar)
            if self.source.form == ANYWHERE:
                near = b.gep(self.x, at, scalar)
                loaded = [b.gather(b.gep(near, part, scalar), begin, scalar) for part in range(parts)]
            else:
                near = b.gep(first, at, scalar)
                loaded = [b.load(b.gep(near, part * lanes, scalar), kind) for part in range(parts)]
                # Real and imaginary parts alternate in memory, and are kept in registers of their own.
                if parts == 2:
                    loaded = [b.shuffle(loaded[0], loaded[1], range(part, 2 * lanes, 2)) for part in (0, 1)]
            for part, column in enumerate(loaded):
                b.store(column, b.gep(place, part * lanes, scalar))

    def _store(self, memory: Reg, begin: Reg) -> None:
        """The elements of all lines from a plane into the result."""
        b, kind, parts = self.b, self.kind, self.result.parts
        lanes, scalar = kind.lanes, kind.scalar
        numbers = self.result.length * parts
        begin = b.mul(begin, parts) if parts > 1 else begin

        def take(place: Reg, offset: int) -> Reg:
            value = b.load(b.gep(place, offset, scalar), kind)
            return value if self.factor is None else b.mul(value, self.factor)

        if self.result.form == ROWS:
            starts = [b.gep(self.out, b.extract(begin, lane), scalar) for lane in range(lanes)]
            whole = numbers - numbers % lanes
            with b.loop(0, whole, lanes) as turn:
                place = b.gep(memory, b.mul(turn.index, lanes), scalar)
                rows = b.transpose_lanes([take(place, i * lanes) for i in range(lanes)])
                for start, row in zip(starts, rows, strict=True):
                    b.store(row, b.gep(start, turn.index, scalar))
            with b.loop(whole, numbers) as turn:
                column = take(b.gep(memory, b.mul(turn.index, lanes), scalar), 0)
                b.scatter(column, b.gep(self.out, turn.index, scalar), begin)
            return
        first = b.gep(self.out, b.extract(begin, 0), scalar)
        step = b.mul(self.inner, parts) if parts > 1 else self.inner
        with b.loop(0, self.result.length) as turn:
            at = b.mul(turn.index, step)
            place = b.gep(memory, b.mul(turn.index, parts * lanes), scalar)
            columns = [take(place, part * lanes) for part in range(parts)]
            if self.result.form == ANYWHERE:
                for part, column in enumerate(columns):
                    b.scatter(column, b.gep(b.gep(self.out, at, scalar), part, scalar), begin)
            else:
                if parts == 2:
                    both = [i // 2 + lanes * (i % 2) for i in range(2 * lanes)]
                    columns = [b.shuffle(columns[0], columns[1], part) for part in (both[:lanes], both[lanes:])]
                for part, column in enumerate(columns):
                    b.store(column, b.gep(b.gep(first, at, scalar), part * lanes, scalar))
