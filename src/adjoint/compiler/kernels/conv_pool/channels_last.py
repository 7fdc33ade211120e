"""Images in scratch memory whose channels are neighbours, and products of their rows with weights.

Where lanes are channels no lane is wasted however short the rows of an image are. Arrays hold an image channel by
channel: they are turned as they are read, and results are turned back before they are finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.kernels.index_arithmetic import Index, split_size
from adjoint.compiler.kernels.kernel import Finish, ResultRegister
from adjoint.compiler.kernels.matmul.packing import transpose
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, PTR, Reg, Type

Sums = tuple[Reg, ...]

TURN = "turn_square"
REGISTERS_PER_FINISH = 2


def round_up(size: int, to: int) -> int:
    """`size` rounded up to a multiple."""
    return -(-size // to) * to


class Turning:
    """The subroutine that turns a square of as many rows as a register has lanes; written once for a kernel.

    The offsets of rows and of columns are read from tables: a table goes on behind the last one with an offset at which
    nothing is lost.
    """

    def __init__(self, b: Builder, vector: Type) -> None:
        self.b, self.vector = b, vector
        lanes, type = vector.lanes, vector.scalar
        with b.subroutine(TURN, [PTR, PTR, PTR, PTR, I64]) as (source, rows, target, columns, count):
            mask = b.lane_mask(count, lanes)
            loaded = [
                b.load(b.gep(source, b.load(b.gep(rows, i, I64), I64), type), vector, mask) for i in range(lanes)
            ]
            for i, value in enumerate(transpose(b, loaded)):
                b.store(value, b.gep(target, b.load(b.gep(columns, i, I64), I64), type))

    def __call__(self, source: Reg, rows: Reg, target: Reg, columns: Reg, count: int) -> None:
        """target[columns[j] + i] = source[rows[i] + j], of `count` columns."""
        self.b.call(TURN, [source, rows, target, columns, self.b.constant(count, I64)])

    def even_table(self, step: int) -> Reg:
        """The address of as many offsets as there are lanes, a step apart."""
        return self.b.table([i * step for i in range(self.vector.lanes)], I64)


class ChannelFrame(NamedTuple):
    """A frame of zeros around the image of some channels: element (row, column) of the image is `before` further."""

    channels: int
    image: tuple[int, int]
    size: tuple[int, int]
    before: tuple[int, int]
    lanes: int

    @property
    def pitch(self) -> int:
        """Elements from one place to the next."""
        return round_up(self.channels, self.lanes)

    @property
    def elements(self) -> int:
        """Elements of memory: the places, and one where what is no element is put."""
        return (self.size[0] * self.size[1] + 1) * self.pitch

    def offset(self, row: int, column: int) -> int:
        """The first element of a place of the frame."""
        return (row * self.size[1] + column) * self.pitch

    def write(self, b: Builder, turn: Turning, image: Reg, memory: Reg, first: Reg | None, outward: int) -> None:
        """Turn an image: all its channels, or those from `first` on of `outward`, where the last takes the place of more."""
        height, width = self.image
        places = [self.offset(r + self.before[0], c + self.before[1]) for r in range(height) for c in range(width)]
        places += [self.elements - self.pitch] * (self.lanes - len(places))
        at = b.table(places, I64)
        last = round_up(outward, self.pitch) if first is not None else self.pitch
        lines = b.table([min(c, outward - 1) * height * width for c in range(last)], I64)
        if first is not None:
            lines = b.gep(lines, first, I64)
        count = min(height * width, self.lanes)
        with b.loop(0, self.pitch, self.lanes) as channel:
            target = b.gep(memory, channel.index, turn.vector)
            rows = b.gep(lines, channel.index, I64)
            with b.loop(0, height * width, self.lanes) as place:
                start = b.minimum(place.index, height * width - count)
                turn(b.gep(image, start, turn.vector), rows, target, b.gep(at, start, I64), count)


def clear(b: Builder, memory: Reg, elements: int, vector: Type) -> None:
    """Fill memory with zeros."""
    with b.loop(0, round_up(elements, vector.lanes), vector.lanes) as loop:
        b.store(b.constant(0.0, vector), b.gep(memory, loop.index, vector))


def multiply_rows(
    b: Builder,
    sums: Sums,
    left: Sequence[Reg],
    left_step: int,
    right: Reg,
    right_step: int,
    depth: Index,
    vector: Type,
    unroll: int,
) -> Sums:
    """The sums with the products of rows, of which each element is spread, and registers of neighbours."""
    # The plain loop: for k in range(depth): for r, v: sums[r, v] += left[r][k * left_step] * right[k * right_step + v].
    # Unrolled: all sums stay in registers, so that each load serves all rows, and each spread element all registers.
    lanes, vectors = vector.lanes, len(sums) // len(left)

    def step(sums: Sums, k: Index, steps: int) -> Sums:
        new = list(sums)
        starts = [b.gep(row, b.mul(k, left_step) if isinstance(k, Reg) else k * left_step, vector) for row in left]
        line = b.gep(right, b.mul(k, right_step) if isinstance(k, Reg) else k * right_step, vector)
        for u in range(steps):
            values = [b.load(b.gep(line, u * right_step + v * lanes, vector), vector) for v in range(vectors)]
            for r, start in enumerate(starts):
                spread = b.broadcast(b.load(b.gep(start, u * left_step, vector), vector.scalar), lanes)
                for v, value in enumerate(values):
                    new[r * vectors + v] = b.fma(spread, value, new[r * vectors + v])
        return tuple(new)

    whole, rest = (depth, 0) if isinstance(depth, Reg) else split_size(depth, unroll)
    with b.loop(0, whole, unroll, carried=sums) as loop:
        loop.yields(*step(loop.carried, loop.index, unroll))
    return step(loop.results, whole, rest) if rest else loop.results


def finish_lines(
    b: Builder, pointer: Reg, pitch: int, lines: Sequence[int], length: int, origin: Sequence[Reg], finish: Finish,
    vector: Type,
) -> None:  # fmt: skip
    """Finish one array of `lines` and of a length, in which a line is `pitch` elements; `origin`: its own index."""
    lanes = vector.lanes

    def part(start: Reg, place: Reg, outer: Sequence[Reg], registers: int, mask: int | None) -> None:
        parts = []
        for v in range(registers):
            value = b.load(b.gep(start, v * lanes, vector), vector)
            offset = (*(0 for _ in outer), v * lanes)
            parts.append(ResultRegister(offset, value, mask if v == registers - 1 else None))
        finish([*outer, place], parts)

    with line_indices(b, lines) as (number, index):
        start = b.gep(pointer, b.mul(number, pitch), vector) if lines else pointer
        outer = [*origin, *index]
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


def count_images(b: Builder, first: Reg, end: Reg, group: int, is_whole: bool) -> Index:
    """Return how many images of a group there are before the end."""
    return group if is_whole else b.minimum(b.sub(end, first), group)


def is_known_size(*sizes: int) -> bool:
    """True if none of these is a symbol."""
    return not any(map(is_symbolic_size, sizes))
