"""The loop-nest kernel: any tree of elementwise equations, with any number of folds, in explicit vectors.

Loops run over the kept dimensions, then over the reduced ones; the dimension that is last in memory is spread over
lanes, its remainder done once more under a mask. A value is computed in the outermost loop that it does not depend on.
Long sums go through blocks of float32 partial sums into float64, so that their error does not grow with their length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.compiler.evaluate import literal, operand_dtype
from adjoint.compiler.fuse import Fusion, Group
from adjoint.compiler.graph import Value
from adjoint.compiler.kernels import fold
from adjoint.compiler.kernels.kernel import NAME, Kernel, named
from adjoint.compiler.kernels.space import Access, Space
from adjoint.compiler.layout import is_made
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.target import Target
from adjoint.compiler.llvm.types import F64, I64, Reg, from_dtype

BLOCK = 32  # additions after which a float32 sum is emptied into float64

Sums = tuple[Reg, ...]
Known = dict[Any, tuple[str, str]]


def lower_all(fusion: Fusion, target: Target) -> dict[Group, Kernel]:
    """The kernels of all groups that are no calls."""
    known: Known = {}
    return {group: lower(group, fusion, target, known) for group in fusion.order if not group.call}


def lower(group: Group, fusion: Fusion, target: Target, known: Known | None = None) -> Kernel:
    """The kernel of a group; equal kernels get equal names, whatever they are used for.

    `known`: names and texts for this target, by structure, to be used again and added to.
    """
    known = {} if known is None else known
    space = Space(group, fusion)
    structure = space.structure()
    if structure not in known:
        text = _Nest(space, target).write()
        known[structure] = named(text, "nest")
    return Kernel(*known[structure], space.bases, group)


class Point(NamedTuple):
    """Where in the nest code is being written: inside the first `depth` loops, at these places of all accesses, with
    these values in registers; under a `mask`, only for so many lanes.
    """

    depth: int
    places: dict[Access, Reg]
    registers: dict[Value, Reg]
    mask: int | None


class _Nest:
    def __init__(self, space: Space, target: Target) -> None:
        self.group = space.group
        self.space = space
        self.lanes = self._lanes(target)
        self.b = Builder()
        self.accesses = list(dict.fromkeys((*self.space.reads.values(), *self.space.writes.values())))
        self.level = self._levels()
        self.cut, self.block = self._blocks()

    def _lanes(self, target: Target) -> int:
        """Lanes for the narrowest float in the kernel (else the widest integer), no more than the loop has."""
        types = [from_dtype(v.dtype) for v in (*self.group.equations, *self.space.reads)]
        floats = [t for t in types if t.is_float]
        most = target.lanes(min(floats, key=lambda t: t.bits) if floats else max(types, key=lambda t: t.bits))
        size = self.space.loops[self.space.vector_at].size
        return min(most, 1 << (size - 1).bit_length()) if size else 1

    def _blocks(self) -> tuple[int | None, int]:
        """The loop that long sums cut into blocks, None for short ones, and its steps in a block."""
        loops = self.space.loops
        inside = 1  # additions in one step of the loop
        cut, block = len(loops), 1
        for depth in reversed(range(self.space.first_reduced, len(loops))):
            if inside <= BLOCK:
                cut, block = depth, BLOCK // max(inside, 1)
            inside *= -(-loops[depth].size // self.lanes) if loops[depth].vector else loops[depth].size
        return (cut, block) if inside > 4 * BLOCK else (None, 1)

    def _levels(self) -> dict[Value, int]:
        """How many loops each value lies in: 0 is computed once."""
        levels: dict[Value, int] = {}
        for operand, access in self.space.reads.items():
            levels[operand] = max((i + 1 for i, s in enumerate(access.strides) if s), default=0)
        stored = set(self.group.stored)
        for value in self.group.equations:
            inside = [levels[self.space.register(o)] for o in value.operands]
            # what is stored is stored once for each element, and so computed there
            levels[value] = len(self.space.loops) if value in stored else max(inside, default=0)
        return levels

    def write(self) -> str:
        """The kernel's module."""
        b = self.b
        with b.kernel(NAME) as (args, _, _):
            pointers = {base: b.argument(args, i) for i, base in enumerate(self.space.bases)}
            self._enter(Point(0, {a: self._origin(a, pointers) for a in self.accesses}, {}, None), ())
        return b.text()

    def _origin(self, access: Access, pointers: dict[Value, Reg]) -> Reg:
        """Where an access begins: an address, or the index of an element that is made and not loaded."""
        pointer = pointers.get(access.base)
        if pointer is None:
            return self.b.constant(access.offset, I64)
        return self.b.gep(pointer, access.offset, from_dtype(access.base.dtype)) if access.offset else pointer

    def _enter(self, at: Point, sums: Sums) -> Sums:
        """Everything inside this point; returns the accumulators as they leave."""
        at = self._computed(at)
        if at.depth == self.space.first_reduced and self.group.reductions:
            self._store_folds(at, self._fold(at))
            return ()
        if at.depth == len(self.space.loops):
            return self._innermost(at, sums)
        return self._loop(at, sums, None)

    def _loop(self, at: Point, sums: Sums, block: Reg | None) -> Sums:
        """One loop around what lies inside; only a reducing one carries accumulators. `block`: one block, from here."""
        b, loop = self.b, self.space.loops[at.depth]
        step = self.lanes if loop.vector else 1
        whole = loop.size - loop.size % step
        low: Reg | int = 0
        high: Reg | int = whole
        if block is not None:
            low, high = block, b.minimum(b.add(block, self.block * step), whole)
        if whole:
            with b.loop(low, high, step, carried=sums if loop.reduced else ()) as turn:
                left = self._enter(self._moved(at, turn.index), turn.carried if loop.reduced else sums)
                if loop.reduced:
                    turn.yields(*left)
            if loop.reduced:
                sums = turn.results
        if whole < loop.size and block is None:
            rest = self._enter(self._remainder(at, whole, loop.size), sums)
            sums = rest if loop.reduced else sums
        return sums

    def _fold(self, at: Point) -> Sums:
        """The reducing loops: accumulators start at their identities; long sums are gathered in float64."""
        start = tuple(fold.identity(self.b, v, self.lanes) for v in self.group.reductions)
        if at.depth == len(self.space.loops):  # over no dimension, or of size 1
            return self._innermost(at, start)
        if self.cut is None:
            return self._loop(at, start, None)
        wide = (fold.widened(self.b, v, s) for v, s in zip(self.group.reductions, start, strict=True))
        return self._gather(at, start, tuple(wide))

    def _gather(self, at: Point, start: Sums, totals: Sums) -> Sums:
        """The reducing loops down to the one cut into blocks, each of which is summed from `start` into `totals`."""
        b, loop = self.b, self.space.loops[at.depth]
        if at.depth != self.cut:
            with b.loop(0, loop.size, carried=totals) as turn:
                turn.yields(*self._gather(self._computed(self._moved(at, turn.index)), start, turn.carried))
            return turn.results
        step = self.lanes if loop.vector else 1
        whole = loop.size - loop.size % step
        with b.loop(0, whole, self.block * step, carried=totals) as blocks:
            blocks.yields(*self._emptied(blocks.carried, self._loop(at, start, blocks.index)))
        totals = blocks.results
        if whole < loop.size:
            totals = self._emptied(totals, self._enter(self._remainder(at, whole, loop.size), start))
        return totals

    def _emptied(self, totals: Sums, parts: Sums) -> Sums:
        reductions = self.group.reductions
        return tuple(fold.emptied(self.b, v, t, p) for v, t, p in zip(reductions, totals, parts, strict=True))

    def _moved(self, at: Point, index: Reg | int) -> Point:
        """Every access one loop further in, at this index."""
        b = self.b
        moved = dict(at.places)
        for access, place in at.places.items():
            stride = access.strides[at.depth]
            if not stride or index == 0:
                continue
            by = index * stride if isinstance(index, int) else (index if stride == 1 else b.mul(index, stride))
            if place.type.kind == "ptr":
                moved[access] = b.gep(place, by, from_dtype(access.base.dtype))
            else:
                moved[access] = b.add(place, by)
        return at._replace(depth=at.depth + 1, places=moved)

    def _remainder(self, at: Point, whole: int, size: int) -> Point:
        """The elements of a loop that fill no register, as one step under a mask."""
        return self._moved(at, whole)._replace(mask=size - whole)

    def _computed(self, at: Point) -> Point:
        """The point with what belongs exactly at its depth loaded and computed."""
        at = at._replace(registers=dict(at.registers))
        for operand, access in self.space.reads.items():
            if self.level[operand] == at.depth:
                at.registers[operand] = self._load(access, at.places[access], at.mask)
        for value in self.group.equations:
            if self.level[value] == at.depth and not value.op.combine:
                at.registers[value] = self._apply(value, at.registers)
        return at

    def _load(self, access: Access, place: Reg, mask: int | None) -> Reg:
        b, kind = self.b, from_dtype(access.base.dtype)
        stride = access.strides[self.space.vector_at]
        if is_made(access.base):
            return self._make(access.base, place, stride)
        if not stride:
            return b.load(place, kind)
        if stride == 1 or self.lanes == 1:
            return b.load(place, kind.of(self.lanes), mask)
        return b.gather(place, b.mul(b.iota(self.lanes), stride), kind, mask)

    def _make(self, value: Value, index: Reg, stride: int) -> Reg:
        """An element of a fill or a range, from its index."""
        b, kind = self.b, from_dtype(value.dtype)
        if value.op.family == "full":
            return b.constant(value.dtype.type(value.params["value"]).item(), kind)
        if stride and self.lanes > 1:
            index = b.add(b.mul(b.iota(self.lanes), stride), index)
        first, step = value.params["start"], value.params["step"]
        if isinstance(first, int) and isinstance(step, int):
            return b.cast(b.add(b.mul(index, step), first), kind)
        return b.cast(b.add(b.mul(b.cast(index, F64), float(step)), float(first)), kind)

    def _apply(self, value: Value, registers: dict[Value, Reg]) -> Reg:
        """One elementwise equation on registers."""
        b = self.b

        def register(i: int, x: Any) -> Reg:
            if isinstance(x, Value):
                return registers[self.space.register(x)]
            return b.constant(literal(value, i, x), from_dtype(operand_dtype(value, i)))

        operands = [register(i, x) for i, x in enumerate(value.inputs)]
        lanes = max((o.type.lanes for o in operands), default=1)
        operands = [b.broadcast(o, lanes) for o in operands]
        scalar = value.op.scalar
        if scalar == "cast":
            return b.cast(operands[0], from_dtype(value.dtype))
        if scalar == "pow" and not isinstance(value.inputs[1], Value):
            return b.pow(operands[0], value.inputs[1])  # x^½ of a number ½ is √x, of an element that holds ½ it is not
        made: Reg = scalar(b, *operands) if callable(scalar) else getattr(b, scalar)(*operands)
        return made

    def _innermost(self, at: Point, sums: Sums) -> Sums:
        b = self.b
        for value, access in self.space.writes.items():
            if not value.op.combine:
                b.store(b.broadcast(at.registers[value], self.lanes), at.places[access], at.mask)
        folded = []
        for value, total in zip(self.group.reductions, sums, strict=True):
            source = b.broadcast(at.registers[self.space.register(value.operands[0])], self.lanes)
            folded.append(fold.take(b, value, total, source, at.mask))
        return tuple(folded)

    def _store_folds(self, at: Point, totals: Sums) -> None:
        """Write each fold: lane by lane if the lanes are kept elements, else folded across them first."""
        across = self.space.loops[self.space.vector_at].reduced
        for value, total in zip(self.group.reductions, totals, strict=True):
            place = at.places[self.space.writes[value]]
            self.b.store(fold.finished(self.b, value, total, across), place, None if across else at.mask)
