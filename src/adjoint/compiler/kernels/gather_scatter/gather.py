"""Kernels that read at positions which are data: `index` (an embedding's rows), `gather`; and `cat`, which joins.

Where the last dimension is kept whole, rows are copied in vectors; else each lane loads its own element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.ir.symbolic_size import is_symbolic_size, size_value
from adjoint.compiler.kernels.gather_scatter.index_space import (
    NO_OFFSETS,
    GridPoint,
    GridSweep,
    IndexMap,
    Shape,
    count_tiles,
    gather_positions,
    index_positions,
    load_strided,
    tile_range,
)
from adjoint.compiler.kernels.index_arithmetic import Index, add_index, add_strided, lane_offsets
from adjoint.compiler.kernels.kernel import Finish, ResultRegister
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I32, Reg, Type, from_dtype

REGISTERS_PER_FINISH = 4  # registers handed over at once
MAX_SCALAR_LOADS = 16  # lanes of a register whose elements are loaded one by one
MIN_PIECES_IN_LOOP = 9  # pieces that differ in their array alone, from which on one loop goes through all of them

ViewOf = Callable[[Value], StridedView]


class GatherPiece(NamedTuple):
    """One array that is read, over a part of the result which begins at `shift`."""

    base: Value
    places: IndexMap
    shift: Shape
    tiled: int  # the dimension that tiles cut


class GatherPlan(NamedTuple):
    """The plan of a read; `arguments` are the arrays and the indices, in the order of the table."""

    shape: Shape
    kind: Type
    pieces: tuple[GatherPiece, ...]
    arguments: list[Value]
    tiles: int


def plan_gather(value: Value, target: Target, view_of: ViewOf = StridedView.whole) -> GatherPlan | None:
    """Plan the read that `index`, `gather` or `cat` asks for; None if NumPy must do it.

    Operands may be views. Indices are taken to be checked: a wrong one reads some other element, nothing outside.
    """
    made = _index_maps(value, view_of)
    if made is None or not all(places.valid for _, places, _ in made):
        return None
    try:
        kind = from_dtype(value.dtype)
    except TypeError:
        return None
    lanes = target.lanes(kind)
    bases = [base for base, _, _ in made]
    bases += [lookup.indices.base for _, places, _ in made for lookup in places.lookups]
    pieces, parts = [], []
    for base, places, shift in made:
        # into how many parts each dimension can be cut
        *outer, last = map(size_value, places.shape)
        counts = [*outer, max(1, last // (lanes * REGISTERS_PER_FINISH))]
        enough = count_tiles(2 * value.nbytes, max(counts))
        d = next(d for d, n in enumerate(counts) if n >= enough)
        pieces.append(GatherPiece(base, places, shift, d))
        parts.append(counts[d])
    tiles = count_tiles(2 * value.nbytes, max(parts))
    return GatherPlan(value.shape, kind, tuple(pieces), list(dict.fromkeys(bases)), tiles)


def _index_maps(value: Value, view_of: ViewOf) -> list[tuple[Value, IndexMap, Shape]] | None:
    """Return for each part of the result the array that is read, the places in it, and where the part begins."""
    views = [view_of(v) for v in value.operands]
    if len(views) != len(value.inputs):
        return None
    nowhere = (0,) * len(value.shape)
    if value.op.name == "index":
        places = index_positions(views[0], views[1:], value.params["pattern"], value.shape)
        return [(views[0].base, _atleast_1d(places), nowhere)]
    if value.op.name == "gather":
        places = gather_positions(views[0], views[1], value.params["axis"])
        return [(views[0].base, _atleast_1d(places), nowhere)]
    if value.op.name == "cat":
        made, axis, at = [], value.params["axis"], 0
        for view in views:
            shift = tuple(at if d == axis else 0 for d in range(len(value.shape)))
            # parts are alike whatever the strides of dimensions with one element
            strides = tuple([0 if n == 1 else s for n, s in zip(view.shape, view.strides, strict=True)])
            made.append((view.base, IndexMap(view.shape, view.offset, strides), shift))
            at += view.shape[axis]
        return made
    return None


def _atleast_1d(places: IndexMap) -> IndexMap:
    """A grid without dimensions as one of a single point."""
    if places.shape:
        return places
    lookups = (lookup._replace(indices=lookup.indices._replace(shape=(1,), strides=(0,))) for lookup in places.lookups)
    return places._replace(shape=(1,), strides=(0,), lookups=tuple(lookups), along=(None,))


def find_runs(plan: GatherPlan) -> list[list[GatherPiece]]:
    """Pieces that one loop can go through, since they differ in their array and place alone; others are by themselves.

    Their arrays follow one another in the table, and their places lie evenly apart.
    """
    rows = {base: i for i, base in enumerate(plan.arguments)}
    runs: list[list[GatherPiece]] = []
    for piece in plan.pieces:
        run = runs[-1] if runs else [piece]
        first, last, follows = run[0], run[-1], rows[piece.base] - rows[run[0].base] == len(run)
        steady = len(run) == 1 or _step_between(last, piece) == _step_between(first, run[1])
        if follows and steady and piece.places == first.places and piece.tiled == first.tiled:
            run.append(piece)
        else:
            runs.append([piece])
    return [part for run in runs for part in ([run] if len(run) >= MIN_PIECES_IN_LOOP else [[piece] for piece in run])]


def _step_between(piece: GatherPiece, other: GatherPiece) -> Shape:
    return tuple(y - x for x, y in zip(piece.shift, other.shift, strict=True))


def write_gather(
    plan: GatherPlan,
    b: Builder,
    args: Reg,
    pointers: dict[Value, Reg],
    tile: Reg,
    finish: Finish,
    target: Target,
    offsets: Mapping[int, Reg] = NO_OFFSETS,
) -> None:
    """The body of the kernel: every element of the tile's part of the result, handed to `finish`.

    `pointers`: of the arrays of pieces outside of long runs; those of a run are read from `args` one after another.
    `offsets`: the registers of those that each call brings.
    """
    for run in find_runs(plan):
        piece = run[0]
        if not all(piece.places.shape):
            continue
        if len(run) == 1:
            _GatherWriter(plan, piece, b, pointers, target, finish, offsets).write(tile)
            continue
        with b.loop(0, len(run)) as turn:
            array = b.argument(args, b.add(turn.index, plan.arguments.index(piece.base)))
            step = _step_between(*run[:2])
            shift = [add_strided(b, at, turn.index, by) if by else at for at, by in zip(piece.shift, step, strict=True)]
            _GatherWriter(plan, piece, b, {**pointers, piece.base: array}, target, finish, offsets, shift).write(tile)


class _GatherWriter:
    def __init__(
        self,
        plan: GatherPlan,
        piece: GatherPiece,
        b: Builder,
        pointers: dict[Value, Reg],
        target: Target,
        finish: Finish,
        offsets: Mapping[int, Reg],
        shift: Sequence[Index] = (),
    ) -> None:
        self.plan, self.piece, self.b, self.finish = plan, piece, b, finish
        self.pointer = pointers[piece.base]
        self.places, self.shift = piece.places, shift or piece.shift
        self.sweep = GridSweep(b, self.places, pointers, (), offsets)
        self.size = self.places.shape[-1]
        self.lanes = target.lanes(plan.kind)
        if not is_symbolic_size(self.size):
            self.lanes = min(self.lanes, 1 << (self.size - 1).bit_length())
        looked_up = any(lookup.indices.strides[-1] for lookup in self.places.lookups)
        if looked_up or self.places.strides[-1] not in (0, 1):
            self.lanes = min(self.lanes, MAX_SCALAR_LOADS)

    def write(self, tile: Reg) -> None:
        tiled, last = self.piece.tiled, len(self.places.shape) - 1
        span = self.lanes * REGISTERS_PER_FINISH
        bounds = {
            tiled: tile_range(self.b, tile, self.plan.tiles, self.places.shape[tiled], span if tiled == last else 1)
        }
        self.sweep.run(bounds, lambda at: self._columns(at, tile, *bounds.get(last, (0, self.size))))

    def _columns(self, at: GridPoint, tile: Reg, low: Index, high: Index) -> None:
        """The last dimension, some registers at a time; what remains is the last tile's."""
        b, span = self.b, self.lanes * REGISTERS_PER_FINISH
        whole = self.size - self.size % span
        if is_symbolic_size(self.size):
            with b.loop(low, b.minimum(high, whole) if isinstance(high, Reg) else whole, span) as turn:
                self._hand_over(at, turn.index, span)
            first = b.maximum(low, whole) if isinstance(low, Reg) else whole
            with b.loop(first, high, self.lanes) as turn:
                mask = b.lane_mask(b.sub(high, turn.index), self.lanes)
                self._hand_over(at, turn.index, self.lanes, mask)
            return
        if whole:
            until = b.minimum(high, whole) if isinstance(high, Reg) else whole
            with b.loop(low, until, span) as turn:
                self._hand_over(at, turn.index, span)
        if whole < self.size:
            if isinstance(high, Reg):
                # The tile that the remainder falls to: the one whose range holds its beginning.
                mine = b.logical_and(b.le(low, whole), b.gt(high, whole))
                with b.when(mine):
                    self._hand_over(at, whole, self.size - whole)
            else:
                self._hand_over(at, whole, self.size - whole)

    def _hand_over(self, at: GridPoint, column: Index, count: int, chosen: Reg | None = None) -> None:
        """Hand over so many elements; `chosen` tells those of one register that there are."""
        rank, parts = len(self.plan.shape), []
        for k in range(0, count, self.lanes):
            mask = chosen or (count - k if count - k < self.lanes else None)
            by = column + k if isinstance(column, int) else self.b.add(column, k) if k else column
            value = self._load(at, by, mask)
            parts.append(ResultRegister((*(0,) * (rank - 1), k)[:rank], value, mask))
        origin = [add_index(self.b, i, s) for i, s in zip((*at.indices, column), self.shift, strict=False)]
        self.finish(origin, parts)

    def _load(self, at: GridPoint, column: Index, mask: Reg | int | None) -> Reg:
        """The register of elements from `column` on."""
        b, kind, lanes = self.b, self.plan.kind, self.lanes
        stride = self.places.strides[-1]
        offset = add_strided(b, at.offset, column, stride)
        if not at.waiting:
            return load_strided(b, b.gep(self.pointer, offset, kind), stride, kind, lanes, mask)
        offsets = lane_offsets(b, lanes, stride) if stride and lanes > 1 else None
        for lookup, start in at.waiting:
            step = lookup.indices.strides[-1]
            found = self.sweep.position(lookup, add_strided(b, start, column, step), lanes, mask, step)
            offsets = found if offsets is None else b.add(offsets, found)
        assert offsets is not None
        pointer = b.gep(self.pointer, offset, kind)
        if self.piece.base.size < 2**31 and lanes > 1:
            offsets = b.cast(offsets, I32)  # as many lanes as float32 has
        return b.gather(pointer, offsets, kind, mask)
