"""The loop-nest kernel: any tree of elementwise equations, with any number of folds, in explicit vectors.

Loops run over the kept dimensions, then over the reduced ones; the dimension that is last in memory is spread over
lanes, its remainder done once more under a mask. A value is computed in the outermost loop that it does not depend on.
Long sums go through blocks of float32 partial sums into float64, so that their error does not grow with their length.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from adjoint.compiler.evaluate import operand_dtype
from adjoint.compiler.fuse import Fusion, Group
from adjoint.compiler.graph import Value
from adjoint.compiler.kernels.space import Access, Space
from adjoint.compiler.layout import is_made
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.target import Target
from adjoint.compiler.llvm.types import F64, I64, Reg, Type, from_dtype

BLOCK = 32  # additions after which a float32 sum is emptied into float64
NAME = "KERNEL"
ACROSS = {
    "add": "hsum", "mul": "hprod", "maximum": "hmax", "minimum": "hmin", "logical_or": "hor", "logical_and": "hand",
}  # fmt: skip


class Kernel:
    """The text of one function, and the values whose addresses it takes, in the order of its table."""

    __slots__ = ("arguments", "group", "name", "text")

    def __init__(self, name: str, text: str, arguments: list[Value], group: Group) -> None:
        self.name = name
        self.text = text
        self.arguments = arguments
        self.group = group

    def __repr__(self) -> str:
        return f"<{self.name}: {' '.join(v.op.name for v in self.group.equations)}>"


def lower(group: Group, fusion: Fusion, target: Target) -> Kernel:
    """The kernel of a group; equal kernels get equal names, whatever they are used for."""
    nest = _Nest(group, fusion, target)
    text = nest.write()
    name = "adjoint_" + hashlib.sha256(text.encode()).hexdigest()[:20]
    return Kernel(name, text.replace(NAME, name), nest.arguments, group)


class _Nest:
    def __init__(self, group: Group, fusion: Fusion, target: Target) -> None:
        self.group = group
        self.fusion = fusion
        self.space = Space(group, fusion)
        self.lanes = self._lanes(target)
        self.b = Builder()
        self.accesses = list(dict.fromkeys((*self.space.reads.values(), *self.space.writes.values())))
        self.arguments = list(dict.fromkeys(a.base for a in self.accesses if not is_made(a.base)))
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
            inside = [levels[self._register(o)] for o in value.operands]
            # what is stored is stored once for each element, and so computed there
            levels[value] = len(self.space.loops) if value in stored else max(inside, default=0)
        return levels

    def _register(self, operand: Value) -> Value:
        """The name under which the operand's register is kept: itself if loaded, else the equation that made it."""
        return operand if operand in self.space.reads else self.fusion.views[operand].base

    def write(self) -> str:
        """The kernel's module."""
        b = self.b
        with b.kernel(NAME) as (args, _, _):
            pointers = {base: b.argument(args, i) for i, base in enumerate(self.arguments)}
            self._enter(0, {a: self._origin(a, pointers) for a in self.accesses}, {}, (), None)
        return b.text()

    def _origin(self, access: Access, pointers: dict[Value, Reg]) -> Reg:
        """Where an access begins: an address, or the index of an element that is made and not loaded."""
        pointer = pointers.get(access.base)
        if pointer is None:
            return self.b.constant(access.offset, I64)
        return self.b.gep(pointer, access.offset, from_dtype(access.base.dtype)) if access.offset else pointer

    def _enter(
        self,
        depth: int,
        places: dict[Access, Reg],
        registers: dict[Value, Reg],
        sums: tuple[Reg, ...],
        mask: int | None,
    ) -> tuple[Reg, ...]:
        """Everything inside the first `depth` loops; returns the accumulators as they leave."""
        registers = dict(registers)
        self._compute(depth, places, registers, mask)
        if depth == self.space.first_reduced and self.group.reductions:
            finished = self._fold(depth, places, registers, mask)
            self._store_folds(finished, places, mask)
            return ()
        if depth == len(self.space.loops):
            return self._innermost(places, registers, sums, mask)
        return self._loop(depth, places, registers, sums, mask, None)

    def _loop(
        self,
        depth: int,
        places: dict[Access, Reg],
        registers: dict[Value, Reg],
        sums: tuple[Reg, ...],
        mask: int | None,
        block: Reg | None,
    ) -> tuple[Reg, ...]:
        """One loop around what lies inside; only a reducing one carries accumulators. `block`: one block, from here."""
        b, loop = self.b, self.space.loops[depth]
        step = self.lanes if loop.vector else 1
        whole = loop.size - loop.size % step
        low: Reg | int = 0
        high: Reg | int = whole
        if block is not None:
            low, high = block, b.minimum(b.add(block, self.block * step), whole)
        if whole:
            with b.loop(low, high, step, carried=sums if loop.reduced else ()) as turn:
                inner = turn.carried if loop.reduced else sums
                left = self._enter(depth + 1, self._moved(places, depth, turn.index), registers, inner, mask)
                if loop.reduced:
                    turn.yields(*left)
            if loop.reduced:
                sums = turn.results
        if whole < loop.size and block is None:
            rest = self._enter(depth + 1, self._moved(places, depth, whole), registers, sums, loop.size - whole)
            sums = rest if loop.reduced else sums
        return sums

    def _fold(
        self, depth: int, places: dict[Access, Reg], registers: dict[Value, Reg], mask: int | None
    ) -> tuple[Reg, ...]:
        """The reducing loops: accumulators start at their identities; long sums are gathered in float64."""
        start = tuple(self._identity(v) for v in self.group.reductions)
        if depth == len(self.space.loops):  # over no dimension, or of size 1
            return self._innermost(places, registers, start, mask)
        if self.cut is None:
            return self._loop(depth, places, registers, start, mask, None)
        wide = tuple(self._widened(v, s) for v, s in zip(self.group.reductions, start, strict=True))
        return self._gather(depth, places, registers, start, wide, mask)

    def _gather(
        self,
        depth: int,
        places: dict[Access, Reg],
        registers: dict[Value, Reg],
        start: tuple[Reg, ...],
        totals: tuple[Reg, ...],
        mask: int | None,
    ) -> tuple[Reg, ...]:
        """The reducing loops down to the one cut into blocks, each of which is summed from `start` into `totals`."""
        b, loop = self.b, self.space.loops[depth]
        if depth != self.cut:
            with b.loop(0, loop.size, carried=totals) as turn:
                moved, inner = self._moved(places, depth, turn.index), dict(registers)
                self._compute(depth + 1, moved, inner, mask)
                turn.yields(*self._gather(depth + 1, moved, inner, start, turn.carried, mask))
            return turn.results
        step = self.lanes if loop.vector else 1
        whole = loop.size - loop.size % step
        with b.loop(0, whole, self.block * step, carried=totals) as blocks:
            sums = self._loop(depth, places, registers, start, mask, blocks.index)
            blocks.yields(*self._emptied(blocks.carried, sums))
        totals = blocks.results
        if whole < loop.size:
            rest = self._enter(depth + 1, self._moved(places, depth, whole), registers, start, loop.size - whole)
            totals = self._emptied(totals, rest)
        return totals

    def _widened(self, value: Value, start: Reg) -> Reg:
        return self.b.cast(start, F64) if self._sums_wide(value) else start

    def _emptied(self, totals: tuple[Reg, ...], sums: tuple[Reg, ...]) -> tuple[Reg, ...]:
        return tuple(
            self._combine(v, total, self.b.cast(part, F64) if self._sums_wide(v) else part)
            for v, total, part in zip(self.group.reductions, totals, sums, strict=True)
        )

    def _sums_wide(self, value: Value) -> bool:
        return value.op.combine == "add" and value.dtype == np.float32

    def _identity(self, value: Value) -> Reg:
        """The start of a fold, in every lane."""
        kind = self._accumulator(value)
        start: Any = value.op.identity
        if kind.is_integer and isinstance(start, float):
            info = np.iinfo(value.dtype)
            start = info.min if start < 0 else info.max
        elif kind.is_bool and isinstance(start, float):
            start = start > 0
        return self.b.constant(start, kind)

    def _accumulator(self, value: Value) -> Type:
        return from_dtype(value.dtype).of(self.lanes)

    def _combine(self, value: Value, x: Any, y: Any) -> Reg:
        combined: Reg = getattr(self.b, value.op.combine)(x, y)
        return combined

    def _moved(self, places: dict[Access, Reg], depth: int, index: Reg | int) -> dict[Access, Reg]:
        """Every access one loop further in, at this index."""
        b = self.b
        moved = dict(places)
        for access, place in places.items():
            stride = access.strides[depth]
            if not stride or index == 0:
                continue
            by = index * stride if isinstance(index, int) else (index if stride == 1 else b.mul(index, stride))
            if place.type.kind == "ptr":
                moved[access] = b.gep(place, by, from_dtype(access.base.dtype))
            else:
                moved[access] = b.add(place, by)
        return moved

    def _compute(self, depth: int, places: dict[Access, Reg], registers: dict[Value, Reg], mask: int | None) -> None:
        """Load and compute what belongs exactly at this depth."""
        for operand, access in self.space.reads.items():
            if self.level[operand] == depth:
                registers[operand] = self._load(access, places[access], mask)
        for value in self.group.equations:
            if self.level[value] == depth and not value.op.combine:
                registers[value] = self._apply(value, registers)

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
            return b.constant(value.params["value"], kind)
        if stride and self.lanes > 1:
            index = b.add(b.mul(b.iota(self.lanes), stride), index)
        first, step = value.params["start"], value.params["step"]
        if isinstance(first, int) and isinstance(step, int):
            return b.cast(b.add(b.mul(index, step), first), kind)
        return b.cast(b.add(b.mul(b.cast(index, F64), float(step)), float(first)), kind)

    def _apply(self, value: Value, registers: dict[Value, Reg]) -> Reg:
        """One elementwise equation on registers."""
        b = self.b
        operands = [
            registers[self._register(x)] if isinstance(x, Value) else b.constant(x, from_dtype(operand_dtype(value, i)))
            for i, x in enumerate(value.inputs)
        ]
        lanes = max((o.type.lanes for o in operands), default=1)
        operands = [b.broadcast(o, lanes) for o in operands]
        scalar = value.op.scalar
        if scalar == "cast":
            return b.cast(operands[0], from_dtype(value.dtype))
        made: Reg = scalar(b, *operands) if callable(scalar) else getattr(b, scalar)(*operands)
        return made

    def _innermost(
        self, places: dict[Access, Reg], registers: dict[Value, Reg], sums: tuple[Reg, ...], mask: int | None
    ) -> tuple[Reg, ...]:
        b = self.b
        for value, access in self.space.writes.items():
            if not value.op.combine:
                self.b.store(b.broadcast(registers[value], self.lanes), places[access], mask)
        folded = []
        for value, sum_ in zip(self.group.reductions, sums, strict=True):
            source = b.broadcast(registers[self._register(value.operands[0])], self.lanes)
            if value.op.combine.startswith("logical"):
                source = b.ne(source, 0)
            combined = self._combine(value, sum_, source)
            if mask is not None and self.lanes > 1:
                combined = b.select(b.lane_mask(mask, self.lanes), combined, sum_)
            folded.append(combined)
        return tuple(folded)

    def _store_folds(self, finished: tuple[Reg, ...], places: dict[Access, Reg], mask: int | None) -> None:
        """Write each fold: lane by lane if the lanes are kept elements, else folded across them first."""
        b = self.b
        across = self.space.loops[self.space.vector_at].reduced
        for value, total in zip(self.group.reductions, finished, strict=True):
            access = self.space.writes[value]
            if across:
                total = self._across(value, total)
            total = b.cast(total, from_dtype(value.dtype)) if total.type.is_float else total
            self.b.store(total, places[access], None if across else mask)

    def _across(self, value: Value, total: Reg) -> Reg:
        folded: Reg = getattr(self.b, ACROSS[value.op.combine])(total) if total.type.lanes > 1 else total
        return folded
