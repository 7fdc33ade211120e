"""The blocks of registers of a convolution's result: some channels by some vectors of places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_symbolic_size, size_value
from adjoint.compiler.kernels.index_arithmetic import Index, mask_left, max_index, min_index, split_size
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Reg, Type

CYCLES_PER_LOAD = 0.65  # of a register, or of a number into all of its lanes


class Vector(NamedTuple):
    """Places of one row that share a register: where it begins in its block, and how many, or which, there are."""

    row: int
    place: int
    filled: Reg | int


class Grid(NamedTuple):
    """Places as rows, of which a block takes `vectors` registers: of several rows if they are short.

    Where the length is a symbol there is one row, whose last registers are blocks of their own.
    """

    rows: int
    length: int
    lanes: int
    vectors: int

    @property
    def in_row(self) -> int:
        """Registers in a row."""
        return -(-self.length // self.lanes)

    @property
    def uneven(self) -> bool:
        """True if some blocks are smaller."""
        if is_symbolic_size(self.length):
            return self.vectors > 1
        if self.in_row <= self.vectors:
            return self.rows % min(self.rows, self.vectors // self.in_row) > 0
        return self.in_row % self.vectors > 0

    def blocks(self, b: Builder, ragged: bool) -> Iterator[tuple[Index, Index, tuple[Vector, ...]]]:
        """Write the loops over blocks; gives each block's row, place and registers.

        `ragged`: registers that a row does not fill say so; otherwise they count as full ones.
        """
        if is_symbolic_size(self.length):
            yield from self._blocks_of_any_length(b, ragged)
            return
        if self.in_row <= self.vectors:
            height = min(self.rows, self.vectors // self.in_row)
            whole = self.rows - self.rows % height
            with b.loop(0, whole, height) as loop:
                yield loop.index, 0, self._vectors(height, 0, ragged)
            if whole < self.rows:
                yield whole, 0, self._vectors(self.rows - whole, 0, ragged)
            return
        step = self.vectors * self.lanes
        filled = self.length if ragged else self.in_row * self.lanes
        whole = filled - filled % step
        with b.loop(0, self.rows) as row:
            with b.loop(0, whole, step) as loop:
                yield row.index, loop.index, self._vectors(1, 0, False)[: self.vectors]
            if whole < filled:
                yield row.index, whole, self._vectors(1, whole, ragged)

    def _blocks_of_any_length(self, b: Builder, ragged: bool) -> Iterator[tuple[Index, Index, tuple[Vector, ...]]]:
        length = self.length if ragged else self.in_row * self.lanes
        whole, _ = split_size(length, self.vectors * self.lanes)
        with b.loop(0, whole, self.vectors * self.lanes) as loop:
            yield 0, loop.index, tuple(Vector(0, v * self.lanes, self.lanes) for v in range(self.vectors))
        if ragged or self.vectors > 1:
            with b.loop(whole, length, self.lanes) as rest:
                filled = mask_left(b, length, rest.index, self.lanes) if ragged else self.lanes
                yield 0, rest.index, (Vector(0, 0, filled),)

    def cost(self, channels: int) -> float:
        """Cycles for one term of each place, in blocks of so many channels."""
        if is_symbolic_size(self.length):
            whole, rest = divmod(size_value(self.in_row), self.vectors)
            return whole * (count_cycles(channels, self.vectors) + 0.5) + rest * (count_cycles(channels, 1) + 0.5)
        if self.in_row <= self.vectors:
            height = min(self.rows, self.vectors // self.in_row)
            sizes = {height * self.in_row: self.rows // height, self.rows % height * self.in_row: 1}
        else:
            sizes = {self.vectors: self.rows * (self.in_row // self.vectors), self.in_row % self.vectors: self.rows}
        cycles = {n: count_cycles(channels, n) + 0.5 for n in sizes}
        return sum(count * cycles[size] for size, count in sizes.items() if size)

    def _vectors(self, height: int, start: int, ragged: bool) -> tuple[Vector, ...]:
        return tuple(
            Vector(row, place - start, min(self.lanes, self.length - place) if ragged else self.lanes)
            for row in range(height)
            for place in range(start, self.length, self.lanes)
        )


class Split(NamedTuple):
    """`size` things in `number` blocks whose sizes differ by one at most, the larger first."""

    size: int
    number: int

    @property
    def largest(self) -> int:
        return -(-self.size // self.number)

    def blocks(self, b: Builder, low: Reg | int, high: Reg | int) -> Iterator[tuple[Reg, int]]:
        """Write the loops over blocks from `low` to `high`; gives each one's start and size."""
        least, larger = divmod(self.size, self.number)
        if larger:
            with b.loop(low, min_index(b, high, larger)) as loop:
                yield b.mul(loop.index, least + 1), least + 1
        if larger < self.number:
            with b.loop(max_index(b, low, larger) if larger else low, high) as loop:
                yield b.add(b.mul(loop.index, least), larger), least


def count_cycles(first: int, second: int) -> float:
    """Cycles of adding the products of so many registers with so many others to a sum for each pair.

    Two multiplications in a cycle, loads at the measured rate, and four cycles until a sum takes another.
    """
    return max(0.5 * first * second, CYCLES_PER_LOAD * (first + second), 4.0)


def choose_blocking(rows: int, length: int, channels: int, type: Type, target: Target) -> tuple[float, Grid, Split]:
    """The blocks that take the fewest cycles for a term of each result: their cost, for places and for channels."""
    lanes = target.lanes(type)
    most = target.vector_registers - 1
    best: tuple[float, int, int] | None = None
    # Of a symbolic length, what two registers leave is one by itself, which waits for its sums.
    for vectors in range(1, 3 if is_symbolic_size(length) else 7):
        for block in range(1, min(channels, most) + 1):
            if block * vectors + vectors + 1 > most:
                break
            split = Split(channels, -(-channels // block))
            if split.largest != block:
                continue
            least, larger = divmod(channels, split.number)
            grid = Grid(rows, length, lanes, vectors)
            cost = larger * grid.cost(least + 1) + (split.number - larger) * grid.cost(least)
            # Each size of block is a body of its own to compile.
            bodies = (2 if larger else 1) * (2 if grid.uneven else 1)
            cost *= 1 + 0.04 * (bodies - 1)
            if best is None or cost < best[0]:
                best = (cost, vectors, split.number)
    assert best is not None
    return best[0], Grid(rows, length, lanes, best[1]), Split(channels, best[2])
