"""The map from points of a grid to elements of an array, in which positions along some dimensions are data.

Reading, the grid is the result and the array is what is read; writing, the grid is the source and the array the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.kernels.index_arithmetic import Index, add_index, add_strided, lane_offsets
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg, Type, from_dtype
from adjoint.core.typing import Operand

Shape = tuple[int, ...]
Offsets = tuple[Reg, ...]
Bounds = dict[int, tuple[Index, Index]]

MIN_TILE_BYTES = 2**18  # bytes for each of which a tile is worth while
MAX_TILES = 32
MIN_STRIP_BYTES = 256  # bytes of neighbouring columns that one tile writes at least: some cache lines


class Lookup(NamedTuple):
    """A position along one dimension of the array, read from `indices` at the point of the grid."""

    indices: StridedView  # over the grid
    step: int  # elements of the array from one position to the next
    size: int  # positions there are; negative ones count from the end


class IndexMap(NamedTuple):
    """Point (i, j, …) of the grid is element start + i·strides[0] + … + lookup·step + … of the array.

    `along`: for each dimension of the grid the dimension of the array in which it runs from the first place to the
    last, or None.
    """

    shape: Shape
    start: int
    strides: Shape
    lookups: tuple[Lookup, ...] = ()
    along: tuple[int | None, ...] = ()

    @property
    def valid(self) -> bool:
        """False if no index is right, since the dimension has no positions."""
        return not prod(self.shape) or all(lookup.size for lookup in self.lookups)


def index_positions(
    array: StridedView, indices: Sequence[StridedView], pattern: tuple[int | None, ...], shape: Shape
) -> IndexMap:
    """The places `array[indices]` over its result, of this shape."""
    pattern = pattern + (None,) * (len(array.shape) - len(pattern))
    at = [d for d, slot in enumerate(pattern) if slot is not None]
    kept = [d for d, slot in enumerate(pattern) if slot is None]
    front = at[0] if at[-1] - at[0] + 1 == len(at) else 0
    middle = len(shape) - len(kept)
    along = (*kept[:front], *[None] * middle, *kept[front:])
    lookups = []
    for d in at:
        view = indices[pattern[d] or 0]
        wide = view.expand(shape[front : front + middle])
        strides = (0,) * front + wide.strides + (0,) * (len(kept) - front)
        lookups.append(Lookup(wide._replace(shape=shape, strides=strides), array.strides[d], array.shape[d]))
    own = tuple(0 if d is None else array.strides[d] for d in along)
    return IndexMap(shape, array.offset, own, tuple(lookups), along)


def gather_positions(array: StridedView, indices: StridedView, axis: int) -> IndexMap:
    """The point's own position, but along `axis` that in `indices`, whose shape is the grid; the one of a 0-d array."""
    if not array.shape:
        return IndexMap(indices.shape, array.offset, (0,) * len(indices.shape), (), (None,) * len(indices.shape))
    strides = tuple(0 if d == axis else s for d, s in enumerate(array.strides))
    along = tuple(None if d == axis else d for d in range(len(strides)))
    lookup = Lookup(indices, array.strides[axis], array.shape[axis])
    return IndexMap(indices.shape, array.offset, strides, (lookup,), along)


def slice_positions(array: StridedView, bounds: Sequence[tuple[int, int, int]]) -> IndexMap:
    """The part of the array at one (start, stop, step) for each dimension."""
    part = array.slice(tuple(bounds))
    whole = [tuple(b) == (0, n, 1) for b, n in zip(bounds, array.shape, strict=True)]
    along = tuple(d if same else None for d, same in enumerate(whole))
    return IndexMap(part.shape, part.offset, part.strides, (), along)


NO_OFFSETS: Mapping[int, Reg] = {}


def number_offsets(plan: Operand, numbers: dict[int, int]) -> Operand:
    """Return a plan with numbers in place of the offsets in it; `numbers` gets those it has not, and 0 stays 0.

    Plans that are equal then have one text, which reads the offsets from the kernel's table.
    """
    if isinstance(plan, IndexMap):
        lookups = tuple(number_offsets(lookup, numbers) for lookup in plan.lookups)
        return plan._replace(start=numbers.setdefault(plan.start, len(numbers)), lookups=lookups)
    if isinstance(plan, StridedView):
        return plan._replace(offset=numbers.setdefault(plan.offset, len(numbers)))
    if isinstance(plan, tuple | list):
        parts = [number_offsets(part, numbers) for part in plan]
        return tuple(parts)
    return plan


class GridPoint(NamedTuple):
    """The point of the grid for which code is written: its first indices, their element, and the other offsets.

    `others`: offsets along other strides. `waiting`: lookups whose position depends on what follows, and where in
    their arrays they stand.
    """

    indices: tuple[Index, ...]
    offset: Reg
    others: Offsets
    waiting: tuple[tuple[Lookup, Reg], ...]


Body = Callable[[GridPoint], None]


class GridSweep:
    """Loops over a grid in row-major order, all but its last dimension, which the body runs along itself."""

    def __init__(
        self,
        b: Builder,
        places: IndexMap,
        pointers: dict[Value, Reg],
        others: Sequence[tuple[int, Shape]] = (),
        offsets: Mapping[int, Reg] = NO_OFFSETS,
    ) -> None:
        self.b, self.places, self.pointers = b, places, pointers
        self.others = others  # (start, strides) of each
        self.offsets = offsets  # the registers of those that each call brings

    def run(self, bounds: Bounds, body: Body) -> None:
        """Write the loops; `bounds`: those of dimensions that are not run through from end to end."""
        waiting = tuple((lookup, self._offset(lookup.indices.offset)) for lookup in self.places.lookups)
        others = tuple(self._offset(start) for start, _ in self.others)
        start = GridPoint((), self._offset(self.places.start), others, waiting)
        self._enter(self._resolve_lookups(start, 0), bounds, body)

    def step_into(self, at: GridPoint, index: Index) -> GridPoint:
        """The point one dimension further in."""
        d, b = len(at.indices), self.b
        offset = add_strided(b, at.offset, index, self.places.strides[d])
        others = tuple(add_strided(b, o, index, s[d]) for o, (_, s) in zip(at.others, self.others, strict=True))
        waiting = tuple((lookup, add_strided(b, o, index, lookup.indices.strides[d])) for lookup, o in at.waiting)
        return self._resolve_lookups(GridPoint((*at.indices, index), offset, others, waiting), d + 1)

    def position(self, lookup: Lookup, offset: Reg, lanes: int, mask: Reg | int | None, stride: int) -> Reg:
        """Write the offset that is looked up, in elements of the array: within it, whatever the indices hold."""
        b, indices = self.b, lookup.indices
        kind = from_dtype(indices.base.dtype)
        pointer = b.gep(self.pointers[indices.base], offset, kind)
        if lanes == 1 or stride == 1:
            found = b.load(pointer, kind.of(lanes), mask)
        elif stride == 0:
            found = b.broadcast(b.load(pointer, kind), lanes)
        else:
            found = b.gather(pointer, lane_offsets(b, lanes, stride), kind, mask)
        found = b.cast(found, I64)
        size: Reg | int = lookup.size
        last: Reg | int = lookup.size - 1
        if is_symbolic_size(lookup.size):
            size, last = (b.broadcast(b.constant(n, I64), lanes) for n in (lookup.size, lookup.size - 1))
            last = Reg(last.name, Type("u", 64, lanes))
        if kind.kind == "i":
            found = b.select(b.lt(found, 0), b.add(found, size), found)
        # Indices are checked before, but another thread may write to them meanwhile.
        unsigned = b.minimum(Reg(found.name, Type("u", 64, lanes)), last)
        position = Reg(unsigned.name, I64.of(lanes))
        step: Reg | int = lookup.step
        if is_symbolic_size(lookup.step):
            step = b.broadcast(b.constant(lookup.step, I64), lanes)
        return position if lookup.step == 1 else b.mul(position, step)

    def _offset(self, offset: int) -> Reg:
        return self.offsets.get(offset) or self.b.constant(offset, I64)

    def _enter(self, at: GridPoint, bounds: Bounds, body: Body) -> None:
        d = len(at.indices)
        if d >= len(self.places.shape) - 1:
            body(at)
            return
        low, high = bounds.get(d, (0, self.places.shape[d]))
        with self.b.loop(low, high) as turn:
            self._enter(self.step_into(at, turn.index), bounds, body)

    def _resolve_lookups(self, at: GridPoint, depth: int) -> GridPoint:
        """The point with the lookups added that depend on nothing further in."""
        waiting, offset = [], at.offset
        for lookup, place in at.waiting:
            if any(lookup.indices.strides[depth:]):
                waiting.append((lookup, place))
            else:
                offset = add_index(self.b, offset, self.position(lookup, place, 1, None, 0))
        return at._replace(offset=offset, waiting=tuple(waiting))


def count_tiles(size: int, parts: int) -> int:
    """Into how many tiles to cut work that moves `size` bytes and has so many independent parts."""
    return max(1, min(size // MIN_TILE_BYTES, parts, MAX_TILES))


def tile_range(b: Builder, tile: Reg, tiles: int, size: int, step: int = 1) -> tuple[Index, Index]:
    """The range of a dimension that belongs to a tile; it begins at a multiple of `step`."""
    if tiles == 1:
        return 0, size
    each = -(-size // (tiles * step)) * step
    low = b.minimum(b.mul(tile, each), size)
    return low, b.minimum(b.add(low, each), size)


def load_strided(b: Builder, pointer: Reg, stride: int, kind: Type, lanes: int, mask: Reg | int | None) -> Reg:
    """A register of elements that lie `stride` apart."""
    if stride == 1 or lanes == 1:
        return b.load(pointer, kind.of(lanes), mask)
    if stride == 0:
        return b.broadcast(b.load(pointer, kind), lanes)
    return b.gather(pointer, lane_offsets(b, lanes, stride), kind, mask)
