"""Images in scratch memory whose channels are neighbours, and products of their rows with weights.

Where lanes are channels no lane is wasted however short the rows of an image are. Arrays hold an image channel by
channel: they are turned as they are read, and results are turned back before they are finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.kernels.index_arithmetic import Index, as_index
from adjoint.compiler.kernels.kernel import Finish, ResultRegister
from adjoint.compiler.kernels.matmul.packing import deinterleave
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I64, PTR, Reg, Type

Sums = tuple[Reg, ...]

MAX_VECTORS = 4  # registers of channels beside which there are enough for rows
TURN = "turn_square"
REGISTERS_PER_FINISH = 2


def round_up(size: int, to: int) -> int:
    """`size` rounded up to a multiple."""
    return -(-size // to) * to


class Turning:
    """The subroutine that turns a square of as many rows as a register has lanes; written once for a kernel.

    The offsets of rows and of columns are read from tables: a table goes on behind the last one with an offset at which
    nothing is lost. `fewest`: columns that are turned at a time.
    """

    def __init__(self, b: Builder, vector: Type, fewest: int) -> None:
        self.b, self.vector = b, vector
        lanes, type = vector.lanes, vector.scalar
        # A few columns at a time: pieces of rows that are neighbours in their columns make up registers, within whose
        # 128 bits they are turned by cheap shuffles. A whole square takes LLVM three times as long.
        piece = type.of(min(max(128 // type.bits, 1), lanes))
        with (
            b.subroutine(TURN, [PTR, PTR, PTR, PTR, I64]) as (source, rows, target, columns, count),
            b.loop(0, count, piece.lanes) as column,
        ):
            left = b.sub(count, column.index)
            # Columns that were turned before cost less than masks of those that there are not.
            mask = b.lane_mask(left, piece.lanes) if fewest < piece.lanes else None
            at = column.index if mask else b.add(column.index, b.minimum(b.sub(left, piece.lanes), 0))
            start = b.gep(source, at, type)
            pieces = [b.load(b.gep(start, b.load(b.gep(rows, i, I64), I64), type), piece, mask) for i in range(lanes)]
            joined = [b.concat_lanes(pieces[i :: piece.lanes]) for i in range(piece.lanes)]
            places = b.gep(columns, at, I64)
            for i, value in enumerate(deinterleave(b, joined, 1, piece.lanes)):
                b.store(value, b.gep(target, b.load(b.gep(places, i, I64), I64), type))

    def __call__(self, source: Reg, rows: Reg, target: Reg, columns: Reg, count: int) -> None:
        """target[columns[j] + i] = source[rows[i] + j], of `count` columns."""
        self.b.call(TURN, [source, rows, target, columns, self.b.constant(count, I64)])

    def even_table(self, step: int) -> Reg:
        """The address of as many offsets as there are lanes, a step apart."""
        return self.b.table([i * step for i in range(self.vector.lanes)], I64)


class ChannelFrame(NamedTuple):
    """A frame of zeros around some channels of an image, or around a band of its rows.

    Element (row, column) of the image is `before` further in the frame of all of it. `outward`: the channels that there
    are, if a frame has some of them.
    """

    channels: int
    image: tuple[int, int]
    size: tuple[int, int]
    before: tuple[int, int]
    lanes: int
    outward: int

    @property
    def pitch(self) -> int:
        """Elements from one place to the next."""
        return round_up(self.channels, self.lanes)

    @property
    def places(self) -> int:
        """Elements of one channel of the image."""
        return self.image[0] * self.image[1]

    @property
    def elements(self) -> int:
        """Elements of memory: the places, and one where what is no element is put."""
        return (self.size[0] * self.size[1] + 1) * self.pitch

    def offset(self, row: int, column: int) -> int:
        """The first element of a place of the frame."""
        return (row * self.size[1] + column) * self.pitch

    def write(self, b: Builder, turn: Turning, image: Reg, memory: Reg, first: Reg | None = None) -> None:
        """Turn an image; the channels from the `first` on, where the last one takes the place of more."""
        height, width = self.image
        places = [self.offset(r + self.before[0], c + self.before[1]) for r in range(height) for c in range(width)]
        places += [self.elements - self.pitch] * (self.lanes - len(places))
        at = b.table(places, I64)
        lines = self._channel_table(b, first)
        count = min(height * width, self.lanes)
        with b.loop(0, self.pitch, self.lanes) as channel:
            target = b.gep(memory, channel.index, turn.vector)
            rows = b.gep(lines, channel.index, I64)
            with b.loop(0, height * width, self.lanes) as place:
                start = b.minimum(place.index, height * width - count)
                turn(b.gep(image, start, turn.vector), rows, target, b.gep(at, start, I64), count)

    def write_band(
        self, b: Builder, turn: Turning, image: Reg, memory: Reg, top: Reg, first: Reg | None = None
    ) -> None:
        """The same of a band of rows, the first of which is `top` of the image; rows are no shorter than a register."""
        height, width = self.image
        lines, columns = self._channel_table(b, first), turn.even_table(self.pitch)
        with b.loop(0, self.size[0]) as row:
            own = b.gep(memory, b.add(b.mul(row.index, self.offset(1, 0)), self.offset(0, self.before[1])), turn.vector)
            seen = b.add(top, row.index)
            inside = b.logical_and(b.ge(seen, 0), b.lt(seen, height))
            with b.when(b.logical_not(inside)):
                clear(b, own, width * self.pitch, turn.vector)
            with b.when(inside), b.loop(0, self.pitch, self.lanes) as channel:
                source = b.gep(image, b.mul(seen, width), turn.vector)
                target, rows = b.gep(own, channel.index, turn.vector), b.gep(lines, channel.index, I64)
                with b.loop(0, width, self.lanes) as place:
                    start = b.minimum(place.index, width - self.lanes)
                    to = b.gep(target, b.mul(start, self.pitch), turn.vector)
                    turn(b.gep(source, start, turn.vector), rows, to, columns, self.lanes)

    def _channel_table(self, b: Builder, first: Reg | None) -> Reg:
        """The address of the offsets of channels in an image, from the first of the frame on."""
        size = self.image[0] * self.image[1]
        count = round_up(self.outward, self.pitch)
        lines = b.table([min(channel, self.outward - 1) * size for channel in range(count)], I64)
        return lines if first is None else b.gep(lines, first, I64)


def clear(b: Builder, memory: Reg, elements: int, vector: Type) -> None:
    """Fill memory with zeros."""
    with b.loop(0, round_up(elements, vector.lanes), vector.lanes) as loop:
        b.store(b.constant(0.0, vector), b.gep(memory, loop.index, vector))


def count_scratch_bytes(parts: tuple[int, ...], type: Type) -> int:
    """The bytes of parts of scratch memory, as `split_scratch` lays them out."""
    return sum(round_up(n * type.itemsize, 64) for n in parts)


def split_scratch(b: Builder, scratch: Reg, parts: tuple[int, ...], type: Type) -> list[Reg]:
    """The addresses of parts of scratch memory of so many elements, each at the beginning of a cache line."""
    addresses, line = [], 64 // type.itemsize
    at = 0
    for elements in parts:
        addresses.append(b.gep(scratch, at, type) if at else scratch)
        at += -(-elements // line) * line
    return addresses


def most_rows(vectors: int, target: Target) -> int:
    """The most rows of which registers hold the sums, beside what these are made of."""
    return max(1, (target.vector_registers - target.vector_registers // 8 - vectors) // vectors)


def list_blocks(vectors: int, target: Target) -> list[tuple[int, int]]:
    """The blocks of sums: of some rows by some of so many registers, the widest first."""
    widths = [n for n in range(min(vectors, MAX_VECTORS), 0, -1) if vectors % n == 0]
    return [(rows, width) for width in widths for rows in range(1, most_rows(width, target) + 1)]


def turn_lines_back(
    b: Builder, turn: Turning, results: Reg, places: Sequence[int], lines: Reg, line: int, width: int
) -> None:
    """lines[channel * line + i] = results[places[i] + channel], of `width` channels."""
    lanes = turn.vector.lanes
    rows = b.table([*places, *[places[-1]] * (line - len(places))], I64)
    columns = turn.even_table(line)
    with b.loop(0, width, lanes) as channel:
        source = b.gep(results, channel.index, turn.vector)
        target = b.gep(lines, b.mul(channel.index, line), turn.vector)
        with b.loop(0, line, lanes) as place:
            turn(source, b.gep(rows, place.index, I64), b.gep(target, place.index, turn.vector), columns, lanes)


def multiply_rows(
    b: Builder,
    sums: Sums,
    left: Reg,
    rows: Sequence[int],
    left_step: int,
    right: Reg,
    right_step: int,
    depth: Index,
    vector: Type,
) -> Sums:
    """The sums with the products of rows, each so far behind `left`, and registers of neighbours."""
    # The plain loop:
    #   for k in range(depth): for r, v: sums[r, v] += left[rows[r] + k * left_step] * right[k * right_step + v].
    # Unrolled: all sums stay in registers, so that each load serves all rows, and each spread element all registers.
    lanes, vectors = vector.lanes, len(sums) // len(rows)

    with b.loop(0, as_index(b, depth), carried=sums) as loop:
        start = b.gep(left, b.mul(loop.index, left_step), vector)
        line = b.gep(right, b.mul(loop.index, right_step), vector)
        values = [b.load(b.gep(line, v * lanes, vector), vector) for v in range(vectors)]
        new = list(loop.carried)
        for r, row in enumerate(rows):
            spread = b.broadcast(b.load(b.gep(start, row, vector), vector.scalar), lanes)
            for v, value in enumerate(values):
                new[r * vectors + v] = b.fma(spread, value, new[r * vectors + v])
        loop.yields(*new)
    return loop.results


def finish_lines(
    b: Builder,
    pointer: Reg,
    lines: Sequence[int],
    length: int,
    origin: Sequence[Reg],
    first: Reg,
    finish: Finish,
    vector: Type,
) -> None:
    """Finish one array of `lines` and of a length, whose index is `origin`, from the `first` of its lines on.

    Of one line alone, that is its first element.
    """
    lanes = vector.lanes

    def part(start: Reg, place: Reg, outer: Sequence[Reg], registers: int, mask: int | None) -> None:
        parts = []
        for v in range(registers):
            value = b.load(b.gep(start, v * lanes, vector), vector)
            offset = (*(0 for _ in outer), v * lanes)
            parts.append(ResultRegister(offset, value, mask if v == registers - 1 else None))
        finish([*outer, place if lines else b.add(first, place)], parts)

    with line_indices(b, lines) as (number, index):
        start = b.gep(pointer, b.mul(number, length), vector) if lines else pointer
        outer = [*origin, *[b.add(first, at) for at in index[:1]], *index[1:]]
        step = REGISTERS_PER_FINISH * lanes
        whole = length - length % step
        if whole:
            with b.loop(0, whole, step) as loop:
                part(b.gep(start, loop.index, vector), loop.index, outer, REGISTERS_PER_FINISH, None)
        if left := length - whole:
            end = b.gep(start, whole, vector)
            part(end, b.constant(whole, I64), outer, -(-left // lanes), left % lanes or None)


@contextmanager
def line_indices(b: Builder, lines: Sequence[int]) -> Iterator[tuple[Reg, list[Reg]]]:
    """Write the loops over lines: their number, and the index of each dimension."""
    if not lines:
        yield b.constant(0, I64), []
        return
    with b.loop(0, lines[0]) as loop, line_indices(b, lines[1:]) as (number, index):
        total = 1
        for n in lines[1:]:
            total *= n
        first = b.mul(loop.index, total) if total > 1 else loop.index
        yield (b.add(first, number) if lines[1:] else first), [loop.index, *index]


def count_group(b: Builder, first: Reg, end: Index, group: int, is_whole: bool) -> Index:
    """Return how many of a group there are before the end."""
    if is_whole:
        return group
    if isinstance(end, int) and not is_symbolic_size(end) and end < group:
        return end
    return b.minimum(b.sub(end, first), group)
