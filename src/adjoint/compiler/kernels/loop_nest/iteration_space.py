"""The iteration space of a loop nest: which loops there are, and how far each access steps in each."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView, iteration_shape, view_over
from adjoint.compiler.ir.symbolic_size import find_symbols
from adjoint.compiler.kernels.elementwise import Access, Accesses, fingerprint
from adjoint.core.runtime.fork_safety import CachedProperty

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group

Shape = tuple[int, ...]
ACROSS_DTYPES = tuple(map(np.dtype, ("float32", "float64", "int32", "int64")))  # whose registers are transposed


class OperandLoad(NamedTuple):
    """An operand that is loaded: once for each element, or, if `is_per_reduction`, once for each reduction."""

    operand: Value
    is_per_reduction: bool


class LoopDim(NamedTuple):
    """One loop: its length, whether it folds a dimension, and whether its neighbours share a register."""

    size: int
    reduced: bool
    vector: bool


def space_of(group: Group, fusion: Fusion) -> IterationSpace:
    """The space of a group, found once."""
    space: IterationSpace = fusion.spaces.get(group) or IterationSpace(group, fusion)
    fusion.spaces[group] = space
    return space


class IterationSpace:
    """Loops from the outside in, and for every access its steps along them.

    Neighbouring dimensions through which all accesses run evenly are one loop. The last one is spread over lanes; kept
    dimensions lie outside, reduced ones inside.
    """

    def __init__(self, group: Group, fusion: Fusion) -> None:
        assert group.shape is not None
        self.group, self.fusion = group, fusion
        self._sources: dict[Value, list[OperandLoad | Value]] = {}
        self.shape = group.shape
        self.axes = group.axes or ()
        self.reads: dict[OperandLoad, Access] = {}
        self.writes: dict[Value, Access] = {}
        for value in group.equations:
            kept = value in group.reduced_values
            sources: list[OperandLoad | Value] = []
            for operand in value.operands:
                view = fusion.views[operand]
                if fusion.maker.get(view.base) is group:
                    sources.append(view.base)
                    continue
                read = OperandLoad(operand, kept)
                self.reads[read] = self._access(view, iteration_shape(value), kept)
                sources.append(read)
            self._sources[value] = sources
        for value in group.stored:
            folded = value in group.reduced_values or value.op.combine
            self.writes[value] = self._access(StridedView.whole(value), value.shape, bool(folded))
        self._collapse()
        self.accesses = Accesses((*self.reads.values(), *self.writes.values()))

    def _access(self, view: StridedView, shape: Shape, kept: bool) -> Access:
        seen = view_over(view, shape, self.group.keepdims_shape if kept else self.shape)
        assert seen is not None, f"{view} cannot be read over {self.shape}"
        strides = tuple(0 if kept and i in self.axes else s for i, s in enumerate(seen.strides))
        return Access(seen.base, seen.offset, strides)

    def _collapse(self) -> None:
        accesses = [*self.reads.values(), *self.writes.values()]
        dims: list[tuple[int, bool, list[int]]] = []
        for d, n in enumerate(self.shape):
            if n == 1:
                continue
            steps = [a.strides[d] for a in accesses]
            reduced = d in self.axes
            if dims and dims[-1][1] == reduced and all(p == n * s for p, s in zip(dims[-1][2], steps, strict=True)):
                dims[-1] = (dims[-1][0] * n, reduced, steps)
            else:
                dims.append((n, reduced, steps))
        if not dims:
            dims = [(1, False, [0] * len(accesses))]
        last = len(dims) - 1
        kept = [i for i, dim in enumerate(dims) if not dim[1] and i != last]
        folded = [i for i, dim in enumerate(dims) if dim[1] and i != last]
        if len(kept) == last > 1:  # no fold: what reads an array across is to have its squares in the two inner loops
            far = [a._replace(strides=tuple(dim[2][i] for dim in dims)) for i, a in enumerate(accesses)]
            kept.sort(key=lambda d: any(is_read_across(a, last, d) for a in far))
        order = [*kept, *folded, last] if dims[last][1] else [*kept, last, *folded]
        self.loops = [LoopDim(dims[i][0], dims[i][1], i == last) for i in order]
        strides = iter([tuple(dims[i][2][k] for i in order) for k in range(len(accesses))])
        self.reads = {v: a._replace(strides=next(strides)) for v, a in self.reads.items()}
        self.writes = {v: a._replace(strides=next(strides)) for v, a in self.writes.items()}

    @CachedProperty
    def vector_at(self) -> int:
        """The position of the loop that is spread over lanes."""
        return next(i for i, loop in enumerate(self.loops) if loop.vector)

    @CachedProperty
    def first_reduced(self) -> int:
        """The position of the outermost reducing loop; the number of loops if none reduces."""
        return next((i for i, loop in enumerate(self.loops) if loop.reduced), len(self.loops))

    def sources(self, value: Value) -> list[OperandLoad | Value]:
        """Return for each operand of an equation the key of its register: the read, or the equation that made it."""
        return self._sources[value]

    def find_symbols(self) -> list[str]:
        """Return the names of the symbols that the kernel's text reads."""
        accesses = (*self.reads.values(), *self.writes.values())
        return find_symbols(self.loops, [(a.offset, a.strides) for a in accesses])

    def structure(self) -> Hashable:
        """Return the structure that decides a kernel's text, with numbers for values."""
        registers: dict[object, int] = {v: i for i, v in enumerate((*self.reads, *self.group.equations))}
        place = self.accesses.make_fingerprinter()

        def inputs(value: Value) -> Hashable:
            sources = iter(self.sources(value))
            return tuple(registers[next(sources)] if isinstance(x, Value) else fingerprint(x) for x in value.inputs)

        return (
            tuple(self.loops),
            tuple((read.is_per_reduction, place(access)) for read, access in self.reads.items()),
            tuple((v.op, v.dtype.str, v in self.group.reduced_values, inputs(v)) for v in self.group.equations),
            tuple((registers[v], place(access)) for v, access in self.writes.items()),
        )


def is_read_across(access: Access, along: int, across: int) -> bool:
    """True if neighbours in the loop of lanes lie apart, and those in the other loop beside each other."""
    return access.strides[along] not in (0, 1) and access.strides[across] == 1 and access.base.dtype in ACROSS_DTYPES
