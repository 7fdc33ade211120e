"""How a loop nest is shared out: its outermost loop in pieces, each a tile that owns what it writes."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.kernels.loop_nest.iteration_space import IterationSpace
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import Reg

BYTES_PER_SECOND = 2e10  # that one core moves in a second
EQUATIONS_PER_SECOND = 6e10  # that one core computes in a second, for one element each
MIN_TILE_SECONDS = 15e-6  # seconds of work that are worth a tile
MAX_TILES = 16


class TilePartition(NamedTuple):
    """So many tiles, each of `chunk` steps of the outermost loop."""

    tiles: int
    chunk: int

    def bounds(self, b: Builder, tile: Reg, size: int) -> tuple[Reg, Reg]:
        """The part of range(size) that is a tile's."""
        low = b.minimum(b.mul(tile, self.chunk), size)
        return low, b.minimum(b.add(low, self.chunk), size)


def partition_tiles(space: IterationSpace, step: int) -> TilePartition:
    """The tiles of a nest whose outermost loop takes `step` turns at once: one for little work, or if it folds."""
    loop = space.loops[0]
    steps = loop.size // step
    if loop.reduced or steps < 2:
        return TilePartition(1, loop.size)
    elements = 1
    for each in space.loops:
        elements *= each.size
    moved = sum(a.base.dtype.itemsize for a in (*space.reads.values(), *space.writes.values()) if any(a.strides))
    work = elements * (moved / BYTES_PER_SECOND + len(space.group.equations) / EQUATIONS_PER_SECOND)
    tiles = max(1, min(MAX_TILES, steps, int(work / MIN_TILE_SECONDS)))
    chunk = -(-steps // tiles)
    return TilePartition(-(-steps // chunk), chunk * step)
