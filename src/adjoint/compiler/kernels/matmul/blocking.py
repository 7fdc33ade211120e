"""The blocks of registers of a matrix product: a model of its time chooses among all that fit.

A block is `rows` × `width` elements of the result, summed in registers over the whole depth. Its lanes run along
the columns, with each element of the left operand broadcast. Or they run along the depth: each element is a dot product
whose lanes are added at the end.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_symbolic_size, size_value
from adjoint.compiler.kernels.matmul.bf16_rounding import Rounding
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Type

# Cycles of a core that starts two multiplications and two loads in each, and needs four for a multiplication.
FMA_LATENCY_CYCLES = 4.0
SUM_WAIT_CYCLES = 5.0  # for all sums of a block once, which is a little more
STARTS_PER_CYCLE = 2.0
LOOP_TURN_CYCLES = 0.25  # of a loop
BLOCK_ENTRY_CYCLES = 20.0  # of entering a block, its loops and branches
STORE_CYCLES = 4.0  # for each register of a block's result
FOLD_CYCLES = 3.0  # for each register whose lanes are added up
COPY_CYCLES, TRANSPOSE_CYCLES, GATHER_CYCLES = 3.0, 5.0, 16.0  # for each register that packing fills
FAR_COPY_CYCLES, FAR_TRANSPOSE_CYCLES = 3.0, 3.0  # more, of an operand that comes from beyond the second cache
CACHE_LINE_BYTES = 64
L1_BYTES, L2_BYTES = 1 << 15, 1 << 20  # of an operand that still comes from there while others pass through
PACK_ROWS_CYCLES = 1.5  # for each register of packed rows
FAR_PACK_LINE_CYCLES = 20.0  # more, for each of their cache lines that comes from beyond the second cache
STRIDED_LINE_CYCLES = 1.0  # for each cache line of a step that does not follow that of the step before
PAGE_BYTES, MAX_NEAR_PAGES, PAGE_CYCLES = 4096, 32, 2.0  # and for a page, if a block reads more pages than so many
ALIASED_BYTES, MAX_ALIASED_STEPS = 2048, 256  # steps at such distances push each other out if they are so many
JOIN_PAIRS_CYCLES, TRANSPOSE_PAIRS_CYCLES, PARTIAL_PAIRS_CYCLES = (
    5.0,
    9.0,
    15.0,
)  # and for one of pairs: as they lie, transposed, filled in part
TILE_PRODUCT_CYCLES, TILE_LOAD_CYCLES = (
    33.0,
    8.0,
)  # a product of tiles, and filling one: 1.4 TFLOP/s of a core with 190 GFLOP/s
L2_BYTES_PER_CYCLE = 24.0  # bytes in a cycle that reach the registers from the second cache
FAR_BYTES_PER_CYCLE = 4.0  # and those that come again and again from beyond it
STREAM_CYCLES = 0.04  # for each line of an operand that is read along with the others
CACHE_WAYS, ALIAS_CYCLES = (
    8,
    0.3,
)  # rows at a distance of pages push each other out if they are more than that, at this price
MAX_COLUMN_STREAMS = 8  # registers of columns, or columns by themselves: more streams than this run slower
TILE_ROWS = 16  # rows of a tile register, and elements or pairs of a row
MAX_L1_PANEL_BYTES = 24 * 1024  # bytes of a panel that stays in the first
STRETCH_STEPS = 1024  # of the depth that are summed in registers, where it is cut at all


class MatrixStrides(NamedTuple):
    """The place of element (batch…, row, column) of an operand: strides in elements from its pointer."""

    batch: tuple[int, ...]  # one for each batch dimension of the result, 0 where the operand is broadcast
    row: int
    column: int

    @property
    def swapped_strides(self) -> MatrixStrides:
        return MatrixStrides(self.batch, self.column, self.row)

    @property
    def as_traced(self) -> MatrixStrides:
        """The strides in the call that is traced: those that are 0 or 1 there, which may be skipped, are so in all."""
        batch, row, column = self
        return MatrixStrides(tuple(map(_stride_value, batch)), _stride_value(row), _stride_value(column))


def _stride_value(stride: int) -> int:
    return operator.index(stride) if size_value(stride) in (0, 1) else size_value(stride)


class Machine(NamedTuple):
    """The facts of a target that decide the blocks."""

    registers: int
    lanes: int
    itemsize: int

    @classmethod
    def of(cls, target: Target, type: Type, lanes: int = 0) -> Machine:
        """Return the facts of a target for elements of a type; `lanes`: of its registers, or of several as one."""
        return cls(target.vector_registers, lanes or target.lanes(type), type.itemsize)


class Blocking(NamedTuple):
    """One way to cut; `cycles` is what it is thought to take."""

    along_depth: bool
    rows: int  # of the largest block; all are within one of each other
    width: int  # columns of a panel
    sets: int  # sums of one element that run side by side
    unroll: int  # steps (registers of them, along the depth) in one turn of the loop
    pack_left: bool
    pack_right: bool
    cycles: float
    rounding: Rounding | None = None  # of elements to bfloat16, pairs of which are the steps

    @property
    def is_paired(self) -> bool:
        """True if a step is that of a pair."""
        return self.rounding is not None

    @property
    def is_tiled(self) -> bool:
        """True if a block is one of tile registers."""
        return self.rounding is not None and self.rounding.is_tiled

    @property
    def parts(self) -> int:
        """The elements of scratch memory that a packed one takes, or a pair of them."""
        return self.rounding.parts if self.rounding is not None else 1

    def panels(self, m: int) -> tuple[int, int, int]:
        """m rows in panels: how many, their rows, and how many have one row more.

        The last of tiles, and of a symbolic number of rows, may have fewer.
        """
        if self.is_tiled or is_symbolic_size(m):
            return -(-m // self.rows), self.rows, 0
        return split_evenly(m, self.rows)

    def fill_registers(self, machine: Machine) -> Blocking:
        """Return the same blocks, as high as registers allow: for any number of rows."""
        if self.along_depth:
            return self
        wide = self.width // machine.lanes
        rows = _max_rows(machine, wide)
        sets, unroll = _choose_unrolling(rows, wide)
        return self._replace(rows=rows, sets=sets, unroll=unroll)


def blockings(
    machine: Machine,
    m: int,
    n: int,
    k: int,
    left: MatrixStrides,
    right: MatrixStrides,
    rounding: Rounding | None = None,
) -> Iterator[Blocking]:
    """All ways to cut the product of an (m, k) and a (k, n) matrix; also those of operands that are rounded so."""
    yield from _blockings_along_columns(machine, m, n, k, left, right)
    yield from _blockings_along_depth(machine, m, n, k, left, right)
    alongside = 1 in (left.row, left.column) and 1 in (right.row, right.column)
    if rounding is not None and alongside and m * n and k > 1:
        ways = (
            _tiled_blockings(m, n, k, left, right, rounding)
            if rounding.is_tiled
            else _paired_blockings(machine, m, n, k, left, right)
        )
        yield from (way._replace(rounding=rounding) for way in ways)


def split_evenly(size: int, most: int) -> tuple[int, int, int]:
    """`size` rows in panels of at most `most`: how many panels, their rows, and how many have one row more."""
    panels = -(-size // most)
    return panels, size // panels, size % panels


def round_up(x: int, to: int) -> int:
    """x rounded up to a multiple."""
    return -(-x // to) * to


def _blockings_along_columns(
    machine: Machine, m: int, n: int, k: int, left: MatrixStrides, right: MatrixStrides
) -> Iterator[Blocking]:
    size = machine.itemsize
    if not m * n:
        return
    aliased = ALIAS_CYCLES if left.column == 1 and abs(left.row * size) % ALIASED_BYTES == 0 else 0.0
    for pack_left in (False, True) if left.row == 1 and left.column != 1 and m > 1 else (False,):
        for pack_right in (False, True) if right.column == 1 else (True,):
            packing = right_packing_cycles(machine, n, k, right) if pack_right else 0.0
            way = Blocking(False, 0, 0, 0, 0, pack_left, pack_right, packing)
            yield from _blocks(machine, m, n, k, way, aliased, (left, right))


def right_packing_cycles(machine: Machine, n: int, k: int, right: MatrixStrides) -> float:
    """Return the cycles that packing all of the right operand takes once."""
    near, far = COPY_CYCLES, FAR_COPY_CYCLES
    if right.column != 1:
        near, far = (TRANSPOSE_CYCLES if right.row == 1 else GATHER_CYCLES), FAR_TRANSPOSE_CYCLES
    return k * -(-n // machine.lanes) * (near + far * _distance(k * n * machine.itemsize))


def left_packing_cycles(machine: Machine, m: int, k: int, rows: int) -> float:
    """Return the cycles that packing all of a left operand which runs down its columns takes once, in so many rows."""
    elements = pad_rows(rows)
    far_lines = elements * machine.itemsize / CACHE_LINE_BYTES * _distance(k * m * machine.itemsize)
    step = PACK_ROWS_CYCLES * -(-elements // machine.lanes) + FAR_PACK_LINE_CYCLES * far_lines
    return step * k * -(-m // rows)


def _strided_cycles(
    machine: Machine, k: int, rows: float, width: int, way: Blocking, left: MatrixStrides, right: MatrixStrides
) -> float:
    """Return the cycles by which a step is longer for a block that reads operands where they lie.

    Steps that lie apart come line by line, without being foreseen, and each from a page of its own. Packed ones follow
    each other.
    """
    size, panel = machine.itemsize, width * machine.itemsize
    steps = k if k <= 2 * STRETCH_STEPS else STRETCH_STEPS
    apart = 0 if way.pack_right else abs(right.row) * size
    down = abs(left.column) * size if left.row == 1 and not way.pack_left else 0
    if not apart and not down:
        return 0.0
    lines, pages, cycles = panel / CACHE_LINE_BYTES + 0.5, min(steps, steps * (apart or panel) / PAGE_BYTES), 0.0
    if apart > panel and steps * (panel + CACHE_LINE_BYTES) > MAX_L1_PANEL_BYTES:
        cycles += STRIDED_LINE_CYCLES * lines
    if apart and apart % ALIASED_BYTES == 0 and steps >= MAX_ALIASED_STEPS:
        cycles += STRIDED_LINE_CYCLES * lines
    if down:
        pages += min(steps, steps * down / PAGE_BYTES)
        if 1.5 * steps * CACHE_LINE_BYTES > MAX_L1_PANEL_BYTES:
            cycles += STRIDED_LINE_CYCLES
        if down % ALIASED_BYTES == 0 and steps >= MAX_ALIASED_STEPS:
            cycles += STRIDED_LINE_CYCLES
    else:
        pages += steps * rows * size / PAGE_BYTES + (0 if way.pack_left else rows)
    if pages > MAX_NEAR_PAGES:
        cycles += PAGE_CYCLES * (min(1.0, apart / PAGE_BYTES) + min(1.0, down / PAGE_BYTES))
    return cycles


def pad_rows(rows: int) -> int:
    """Elements for one step of so many packed rows: a power of two, so that no register crosses a cache line."""
    return 1 << (rows - 1).bit_length()


def _distance(size: int) -> float:
    """The share of the way from beyond the second cache that an operand of so many bytes comes."""
    return 0.0 if size <= L1_BYTES else 0.4 if size <= L2_BYTES else 1.0


def _arrival_cycles(size: float, operand: float, near: float, again: bool) -> float:
    """Return the cycles in which `size` bytes arrive of an operand of so many, of which the first cache holds `near`.

    `again`: whether all of them are read more than once.
    """
    if operand <= near:
        return 0.0
    return size / (FAR_BYTES_PER_CYCLE if again and operand > L2_BYTES else L2_BYTES_PER_CYCLE)


def _paired_blockings(
    machine: Machine, m: int, n: int, k: int, left: MatrixStrides, right: MatrixStrides
) -> Iterator[Blocking]:
    steps, lanes = -(-k // 2), machine.lanes
    of_left, of_right = pair_packing_costs(left, right)
    packing = steps * (of_left * m / lanes + of_right * -(-n // lanes))
    yield from _blocks(machine, m, n, steps, Blocking(False, 0, 0, 0, 0, True, True, packing), 0.0)


def _tiled_blockings(
    m: int, n: int, k: int, left: MatrixStrides, right: MatrixStrides, rounding: Rounding
) -> Iterator[Blocking]:
    """Blocks of tiles: the sums of each part, a column of the left operand's tiles, and one or more of the right's."""
    turns, columns, parts = -(-k // (2 * TILE_ROWS)), -(-n // TILE_ROWS), rounding.parts
    of_left, of_right = (
        JOIN_PAIRS_CYCLES if left.column == 1 else TRANSPOSE_PAIRS_CYCLES,
        JOIN_PAIRS_CYCLES if right.column == 1 else TRANSPOSE_PAIRS_CYCLES,
    )
    packing = parts * turns * (of_left * m + of_right * TILE_ROWS * columns)
    for tall, wide in ((2, 2), (1, 4), (2, 1), (1, 2), (1, 1)):
        if parts * tall * wide > 4 or (tall - 1) * TILE_ROWS >= m or wide > columns:
            continue
        down, across = -(-m // (tall * TILE_ROWS)), -(-columns // wide)
        filled = parts * (tall * across + columns)  # registers for each panel of rows and step
        step = down * (tall * columns * rounding.products * TILE_PRODUCT_CYCLES + filled * TILE_LOAD_CYCLES)
        cycles = packing + turns * step + 2 * m * columns * STORE_CYCLES + down * across * BLOCK_ENTRY_CYCLES
        yield Blocking(False, tall * TILE_ROWS, wide * TILE_ROWS, 1, TILE_ROWS, True, True, cycles)


def pair_packing_costs(left: MatrixStrides, right: MatrixStrides) -> tuple[float, float]:
    """Return the cycles that packing a register of pairs takes, for each operand."""
    return (
        JOIN_PAIRS_CYCLES if left.column == 1 else PARTIAL_PAIRS_CYCLES,
        JOIN_PAIRS_CYCLES if right.column == 1 else TRANSPOSE_PAIRS_CYCLES,
    )


def _blocks(
    machine: Machine,
    m: int,
    n: int,
    k: int,
    packed: Blocking,
    aliased: float,
    strides: tuple[MatrixStrides, MatrixStrides] | None = None,
) -> Iterator[Blocking]:
    """Blocks whose lanes run along columns, for operands `packed` at the price it names, and rows at their own.

    `strides` of both operands, of which some may be read where they lie.
    """
    lanes, size = machine.lanes, machine.itemsize
    packs_rows = strides is not None and packed.pack_left
    vectors = -(-n // lanes)
    for wide in range(1, min(vectors, MAX_COLUMN_STREAMS) + 1):
        most = _max_rows(machine, wide)
        if most < 1:
            break
        # Panels of equal height: the last would else be a thin one, whose loads serve few fmas.
        panels = -(-m // most)
        mean = m / panels
        full, rest = divmod(vectors, wide)
        rows = -(-m // panels)
        cycles = packed.cycles + m * vectors * STORE_CYCLES
        if packs_rows:
            cycles += left_packing_cycles(machine, m, k, rows)
        for count, width in ((full, wide), (1 if rest else 0, rest)):
            if not count:
                continue
            sums = mean * width
            # A step of the depth takes as long as the slowest of its parts: fmas, loads, the wait for a sum that is
            # still being added to, and the loop itself.
            step = max(
                sums / STARTS_PER_CYCLE,
                (mean + width) / STARTS_PER_CYCLE,
                SUM_WAIT_CYCLES / _sets(sums),
                LOOP_TURN_CYCLES,
            )
            if k * width * lanes * size > MAX_L1_PANEL_BYTES:
                step = max(step, width * lanes * size / L2_BYTES_PER_CYCLE)
            if strides is not None:
                step += _strided_cycles(machine, k, mean, width * lanes, packed, *strides)
            streams = 1.0 if packs_rows else mean
            step += LOOP_TURN_CYCLES + STREAM_CYCLES * streams + aliased * max(mean - CACHE_WAYS, 0.0)
            cycles += count * panels * (k * step + BLOCK_ENTRY_CYCLES)
        sets, unroll = _choose_unrolling(rows, wide)
        yield packed._replace(rows=rows, width=wide * lanes, sets=sets, unroll=unroll, cycles=cycles)


def _blockings_along_depth(
    machine: Machine, m: int, n: int, k: int, left: MatrixStrides, right: MatrixStrides
) -> Iterator[Blocking]:
    lanes = machine.lanes
    if k < 2 * lanes:
        return
    vectors, line, register = -(-k // lanes), k * machine.itemsize, lanes * machine.itemsize
    pack_left, pack_right = left.column != 1, right.row != 1
    if pack_left and m > 4:
        return
    # Lanes along the depth: both operands are read along their rows, and each sum is folded over its lanes at the end.
    # For a few rows and columns of great depth, such as weight gradients of small layers.
    packing = (pack_left * m + pack_right * n) * vectors * GATHER_CYCLES
    width = 1
    while width <= min(lanes, MAX_COLUMN_STREAMS) and width < 2 * n:
        for rows in range(1, min(m, 6) + 1):
            sums: float = rows * width
            if sums + min(rows, width) + 1 > machine.registers:
                break
            panels, across = -(-m // rows), n / width
            sets, mean = _sets(sums), m / panels
            sums = mean * width
            # Each panel reads all of the left operand, and a block the panel's lines again.
            arriving = _arrival_cycles(mean * register, m * line, L1_BYTES, across > 1)
            if (rows + width) * line > MAX_L1_PANEL_BYTES:
                arriving += _arrival_cycles(width * register, width * line, 0, panels > 1)
            starting = max(sums, mean + width) / STARTS_PER_CYCLE
            step = max(starting, SUM_WAIT_CYCLES / sets, arriving) + LOOP_TURN_CYCLES + STREAM_CYCLES * (rows + width)
            cycles = (
                packing
                + panels * across * (vectors * step + sums * FOLD_CYCLES + BLOCK_ENTRY_CYCLES)
                + m * n / lanes * STORE_CYCLES
            )
            yield Blocking(True, -(-m // panels), width, sets, sets, pack_left, pack_right, cycles)
        width *= 2


def _max_rows(machine: Machine, wide: int) -> int:
    """Return how many rows, of so many registers, the sums of a block have room for."""
    return min((machine.registers - 1 - wide) // wide, machine.registers // 2)


def _choose_unrolling(rows: int, wide: int) -> tuple[int, int]:
    """Return the sets of sums of a block, and the steps in a turn of its loop."""
    sets = _sets(rows * wide)
    return sets, sets if sets > 1 else 1 if rows * wide >= 16 else 2


def _sets(sums: float) -> int:
    """Return how many sums of each element hide the latency, if a block has `sums` elements."""
    sets = 1
    while sets * sums < FMA_LATENCY_CYCLES * STARTS_PER_CYCLE:
        sets *= 2
    return sets
