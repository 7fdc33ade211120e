"""Products of matrices that lie in a cache: a tile of the result in registers, A read element by element.

A row of B or of the result is spread over lanes; where its length is no multiple of them, the last register is masked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.kernels.index_arithmetic import as_index
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I64, Reg, Type


class TileMatrix(NamedTuple):
    """A matrix in memory: the address of its first element and the steps, in elements, between rows and columns."""

    pointer: Reg
    row: int
    column: int = 1


class SummedRange(NamedTuple):
    """The numbers that a sum runs over, `unroll` in a turn; `is_exact`: their count is a multiple of that."""

    low: Reg | int
    high: Reg | int
    unroll: int
    is_exact: bool = True


class Tile(NamedTuple):
    """Finished elements: `values[r][c]` is the register at `row + r`, `column + c · lanes`, the last masked."""

    row: Reg
    column: Reg
    values: list[list[Reg]]
    mask: int | None


Finish = Callable[[Tile], None]


def tile_shape(target: Target, vectors: int) -> tuple[int, int]:
    """Rows and registers across of a tile, of a result so many registers wide: as many sums as hide an fma's time.

    The rows are a power of two, and no more than in the tile of a narrower result: whole tiles of that are of this too.
    """
    rows = (16, 8, 8, 4) if target.vector_registers == 32 else (8, 4, 4)
    across = min(vectors, len(rows))
    return rows[across - 1], across


def even_unroll(count: int) -> int:
    """Return how many steps of a sum the body of its loop has."""
    return 2 - count % 2


def run_range(
    b: Builder, over: SummedRange, sums: Sequence[Reg], step: Callable[[Reg, int, Sequence[Reg]], Sequence[Reg]]
) -> Sequence[Reg]:
    """The sums after `step(index, count, sums)` for all of a range: so many in a turn, what remains one by one."""
    low, high = over.low, over.high
    if not over.is_exact:
        high = b.sub(high, b.bitwise_and(b.sub(high, low), over.unroll - 1))
    for first, last, count in ((low, high, over.unroll), (high, over.high, 1)):
        if count == over.unroll or not over.is_exact:
            with b.loop(first, last, count, carried=sums) as turn:
                turn.yields(*step(turn.index, count, turn.carried))
            sums = turn.results
    return sums


def multiply(
    b: Builder,
    kind: Type,
    shape: tuple[int, int],
    a: TileMatrix,
    right: TileMatrix,
    rows: tuple[Reg | int, Reg | int],
    columns: int,
    depth: SummedRange,
    finish: Finish,
) -> None:
    """Σₖ a[i, k] right[k, j], tile by tile; `finish` stores them.

    `kind`: a register of elements. `rows`: how many the matrix has, and how many of these are wanted: tiles beyond are
    left out.
    """
    high, across = shape
    total, wanted = rows

    def row_of_tiles(row: Reg, count: int) -> None:
        for first, vectors, mask, times in panels(columns, across, kind.lanes):
            if times > 1:
                with b.loop(0, times * vectors * kind.lanes, vectors * kind.lanes) as panel:
                    finish(_tile(b, kind, a, right, row, count, panel.index, vectors, mask, depth))
            else:
                column = b.constant(first, I64)
                finish(_tile(b, kind, a, right, row, count, column, vectors, mask, depth))

    for_row_blocks(b, total, wanted, high, row_of_tiles)


def for_row_blocks(
    b: Builder, total: Reg | int, wanted: Reg | int, high: int, block: Callable[[Reg, int], None]
) -> None:
    """`block(first row, count)` for blocks of `high` rows, and for what remains of `total` at the end.

    Where only the call tells the total, that is in blocks of powers of two.
    """
    if isinstance(total, Reg) or is_symbolic_size(total):
        last = as_index(b, wanted)
        with b.loop(0, b.bitwise_and(last, -high), high) as turn:
            block(turn.index, high)
        for count in (1 << bit for bit in reversed(range(high.bit_length() - 1))):
            with b.when(b.ne(b.bitwise_and(last, count), 0)):
                block(b.bitwise_and(last, -2 * count), count)
        return
    whole = total - total % high
    stop = min(wanted, whole) if isinstance(wanted, int) else b.minimum(wanted, whole)
    if whole == high and isinstance(stop, int):
        block(b.constant(0, I64), high)
    elif whole:
        with b.loop(0, stop, high) as turn:
            block(turn.index, high)
    if whole == total:
        return
    if isinstance(wanted, Reg):
        with b.when(b.gt(wanted, whole)):
            block(b.constant(whole, I64), total - whole)
    elif wanted > whole:
        block(b.constant(whole, I64), total - whole)


def panels(columns: int, across: int, lanes: int) -> list[tuple[int, int, int | None, int]]:
    """Spread columns over registers: (first, registers, lanes of the last one, how many times in a row)."""
    found: list[tuple[int, int, int | None, int]] = []
    width = across * lanes
    if columns // width:
        found.append((0, across, None, columns // width))
    first = columns - columns % width
    if first < columns:
        rest = columns - first
        found.append((first, -(-rest // lanes), rest % lanes or None, 1))
    return found


def _tile(
    b: Builder,
    kind: Type,
    a: TileMatrix,
    right: TileMatrix,
    row: Reg,
    count: int,
    column: Reg,
    vectors: int,
    mask: int | None,
    depth: SummedRange,
) -> Tile:
    # The plain loop: for k, r, j: sums[r, j] += a[row + r, k] * right[k, column + j].
    # Unrolled: the tile's sums stay in registers, `count` × `vectors` fmas share `count` + `vectors` loads, and several
    # steps of k share one turn of the loop.
    scalar, lanes = kind.scalar, kind.lanes
    left = b.gep(a.pointer, b.mul(row, a.row), scalar)
    above = b.gep(right.pointer, column, scalar)
    zeros = [b.constant(0.0, kind)] * (count * vectors)

    def add_steps(index: Reg, steps: int, carried: Sequence[Reg]) -> Sequence[Reg]:
        sums = list(carried)
        at, across = b.gep(left, b.mul(index, a.column), scalar), b.gep(above, b.mul(index, right.row), scalar)
        for step in range(steps):
            line = [
                b.load(b.gep(across, step * right.row + c * lanes, scalar), kind, mask if c == vectors - 1 else None)
                for c in range(vectors)
            ]
            for r in range(count):
                element = b.load(b.gep(at, step * a.column + r * a.row, scalar), scalar)
                spread = b.broadcast(element, lanes)
                for c in range(vectors):
                    i = r * vectors + c
                    sums[i] = b.fma(spread, line[c], sums[i])
        return sums

    sums = list(run_range(b, depth, zeros, add_steps))
    return Tile(row, column, [sums[r * vectors : (r + 1) * vectors] for r in range(count)], mask)


def store_tile(
    b: Builder, tile: Tile, into: TileMatrix, change: Callable[[Reg, int], Reg] | None = None, add: bool = False
) -> None:
    """Store a tile, as `change(register, r)` makes it; `add`: to what is there."""
    kind = tile.values[0][0].type
    corner = b.gep(b.gep(into.pointer, b.mul(tile.row, into.row), kind.scalar), tile.column, kind.scalar)
    for r, line in enumerate(tile.values):
        for c, value in enumerate(line):
            place = b.gep(corner, r * into.row + c * kind.lanes, kind.scalar)
            mask = tile.mask if c == len(line) - 1 else None
            if change is not None:
                value = change(value, r)
            if add:
                value = b.add(b.load(place, kind, mask), value)
            b.store(value, place, mask)
