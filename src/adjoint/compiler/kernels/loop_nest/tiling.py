"""The division of a loop nest: lanes of its innermost loop, squares of reads across it, tiles of its outermost loop."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import has_symbols, is_symbolic_size, size_value
from adjoint.compiler.kernels.elementwise import Access
from adjoint.compiler.kernels.loop_nest.iteration_space import IterationSpace, OperandLoad, is_read_across
from adjoint.compiler.kernels.loop_nest.size_questions import SizeQuestions
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Reg, Type, from_dtype
from adjoint.compiler.passes.materialize import is_generated

BYTES_PER_SECOND = 2e10  # that one core moves in a second
EQUATIONS_PER_SECOND = 6e10  # that one core with 512-bit registers computes in a second, for one element each
MIN_TILE_SECONDS = 15e-6  # seconds of work that are worth a tile
MAX_TILES = 16
MIN_REGISTERS_FOR_HALF = 16  # registers of a loop in whose length an empty half at the end is lost
MIN_SQUARE_LANES, MAX_SQUARE_LANES = 4, 16
MAX_SQUARE_EQUATIONS = 12  # of a kernel, as they are written once for each row of a square
MAX_EQUATIONS_FOR_WIDE = 4  # equations of a kernel whose values are few enough for many registers of each


class TilePartition(NamedTuple):
    """A number of tiles, each of `chunk` steps of the outermost loop and owner of what it writes."""

    tiles: int
    chunk: int

    def bounds(self, b: Builder, tile: Reg, size: int) -> tuple[Reg, Reg]:
        """The part of range(size) that is a tile's."""
        low = b.minimum(b.mul(tile, self.chunk), size)
        return low, b.minimum(b.add(low, self.chunk), size)


def count_tiles(space: IterationSpace, step: int, target: Target) -> int:
    """Return the tiles of a nest whose outermost loop takes `step` turns at once: one for little work, or if it folds.

    In each call there are as many, where the loop is symbolic, some of them with nothing to do.
    """
    loop = space.loops[0]
    steps = size_value(loop.size) // step
    if loop.reduced or steps < 2:
        return 1
    elements = 1
    for each in space.loops:
        elements *= size_value(each.size)
    moved = sum(a.base.dtype.itemsize for a in (*space.reads.values(), *space.writes.values()) if any(a.strides))
    computing = len(space.group.equations) / EQUATIONS_PER_SECOND * target.slowdown
    work = elements * (moved / BYTES_PER_SECOND + computing)
    tiles = max(1, min(MAX_TILES, steps, int(work / MIN_TILE_SECONDS)))
    return tiles if is_symbolic_size(loop.size) else -(-steps // -(-steps // tiles))


def partition_tiles(size: int, step: int, tiles: int) -> TilePartition:
    """Return the division of a loop that takes `step` turns at once into so many tiles."""
    return TilePartition(tiles, (size // step + (tiles - 1)) // tiles * step)


def choose_lanes(space: IterationSpace, target: Target, ask: SizeQuestions | None = None) -> int:
    """Return as many lanes as fill one register or a few, but no more than the loop over them has.

    A register is filled with the narrowest float of the kernel, else with the widest integer. A symbolic loop is taken
    for a long one, unless it folds and the order of its sums depends on its length: then `ask` is told.
    """
    types = [from_dtype(v.dtype) for v in (*space.group.equations, *(r.operand for r in space.reads))]
    floats = [t for t in types if t.is_float]
    one = target.lanes(min(floats, key=lambda t: t.bits) if floats else max(types, key=lambda t: t.bits))
    loop = space.loops[space.vector_at]
    registers = _max_registers(space, types)
    if is_symbolic_size(loop.size):
        long = registers == 1 or not loop.reduced or ask is None or _fills(ask, loop.size, registers * one)
        return registers * one if long else one
    size = loop.size
    while registers > 1:
        taken = registers * one
        enough = size >= (taken if registers == 2 else 2 * taken)
        # no half of the registers stays empty at the loop's end, or hardly any time is lost by it
        if enough and (not 0 < size % taken <= taken // 2 or size >= MIN_REGISTERS_FOR_HALF * taken // 2):
            break
        registers //= 2
    return min(registers * one, 1 << (size - 1).bit_length()) if size else 1


def find_square_reads(space: IterationSpace, lanes: int) -> dict[OperandLoad, Access]:
    """The reads that a nest takes in squares of so many lanes; none if its two inner loops have no room for them.

    A transposed array that is read lane by lane costs a load for each element, and of each line of the cache that it
    fetches it takes one element before others push the line out. A square reads whole registers along the loop in
    which the array is contiguous, and transposes them.
    """
    along = len(space.loops) - 1
    if along < 1 or space.first_reduced <= along or space.group.reductions or not space.loops[along].vector:
        return {}
    sizes = space.loops[along - 1].size, space.loops[along].size
    if has_symbols(sizes) or min(sizes) < lanes or not MIN_SQUARE_LANES <= lanes <= MAX_SQUARE_LANES:
        return {}
    if len(space.group.equations) > MAX_SQUARE_EQUATIONS:
        return {}
    return {
        read: access
        for read, access in space.reads.items()
        if not is_generated(access.base) and is_read_across(access, along, along - 1)
    }


def _fills(ask: SizeQuestions, size: int, taken: int) -> bool:
    """True if a loop that folds takes two registers at once; sums of no more than two have one order in any lanes."""
    if ask.is_greater(size, MIN_REGISTERS_FOR_HALF * taken // 2 - 1) or not ask.is_greater(size, taken):
        return True
    rest = size % taken
    return not ask.is_greater(rest, 0) or ask.is_greater(rest, taken // 2)


def _max_registers(space: IterationSpace, types: list[Type]) -> int:
    accesses = (*space.reads.values(), *space.writes.values())
    jumps = any(access.strides[space.vector_at] not in (0, 1) for access in accesses)
    if jumps or max(t.bits for t in types) > 32 or not any(t.is_float for t in types):
        return 1
    group, loop = space.group, space.loops[space.vector_at]
    if group.reductions and not loop.reduced and len(group.equations) <= MAX_EQUATIONS_FOR_WIDE:
        return 8 // len(group.reductions)  # columns are summed in pieces of rows that are worth fetching
    # Two registers share each load of a constant, which else take longer than the arithmetic.
    return 2
