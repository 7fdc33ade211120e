"""The iteration space of a loop nest: which loops there are, and how far each access steps in each."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from adjoint.compiler.fuse import Fusion, Group, align
from adjoint.compiler.graph import Value
from adjoint.compiler.layout import is_made
from adjoint.compiler.view import View, row_major

Shape = tuple[int, ...]


class Access(NamedTuple):
    """A value read or written in the nest: its array, the element at the origin, the step along each loop."""

    base: Value
    offset: int
    strides: Shape


class Loop(NamedTuple):
    """One loop: its length, whether it folds a dimension, and whether its neighbours share a register."""

    size: int
    reduced: bool
    vector: bool


class Space:
    """Loops from the outside in, and for every access its steps along them.

    Neighbouring dimensions through which all accesses run evenly are one loop. The last one is spread over lanes; kept
    dimensions lie outside, reduced ones inside.
    """

    def __init__(self, group: Group, fusion: Fusion) -> None:
        assert group.shape is not None
        self.group, self.fusion = group, fusion
        self.shape = group.shape
        self.axes = group.axes or ()
        self.reads: dict[Value, Access] = {}  # by the operand as the equation names it
        self.writes: dict[Value, Access] = {}
        for value in group.equations:
            for operand in value.operands:
                view = fusion.views[operand]
                if fusion.maker.get(view.base) is not group:
                    aligned = align(view, self.shape)
                    assert aligned is not None
                    self.reads[operand] = Access(aligned.base, aligned.offset, aligned.strides)
        for value in group.stored:
            self.writes[value] = Access(value, 0, self._result_strides(value))
        self._collapse()

    def _result_strides(self, value: Value) -> Shape:
        if not value.op.combine:
            view = align(View.whole(value), self.shape)
            assert view is not None
            return view.strides
        kept = tuple(1 if i in self.axes else n for i, n in enumerate(self.shape))
        return tuple(0 if i in self.axes else s for i, s in enumerate(row_major(kept)))

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
        order = [*kept, *folded, last] if dims[last][1] else [*kept, last, *folded]
        self.loops = [Loop(dims[i][0], dims[i][1], i == last) for i in order]
        strides = iter([tuple(dims[i][2][k] for i in order) for k in range(len(accesses))])
        self.reads = {v: a._replace(strides=next(strides)) for v, a in self.reads.items()}
        self.writes = {v: a._replace(strides=next(strides)) for v, a in self.writes.items()}

    @cached_property
    def vector_at(self) -> int:
        """The position of the loop that is spread over lanes."""
        return next(i for i, loop in enumerate(self.loops) if loop.vector)

    @cached_property
    def first_reduced(self) -> int:
        """The position of the outermost reducing loop; the number of loops if none reduces."""
        return next((i for i, loop in enumerate(self.loops) if loop.reduced), len(self.loops))

    @property
    def bases(self) -> list[Value]:
        """The values in memory that are read or written."""
        accesses = (*self.reads.values(), *self.writes.values())
        return list(dict.fromkeys(a.base for a in accesses if not is_made(a.base)))

    def register(self, operand: Value) -> Value:
        """The name under which the operand's register is kept: itself if loaded, else the equation that made it."""
        return operand if operand in self.reads else self.fusion.views[operand].base

    def structure(self) -> Any:
        """All that a kernel's text is made from, with numbers for values: groups of one structure have one text."""
        places = {base: i for i, base in enumerate(self.bases)}
        registers = {v: i for i, v in enumerate((*self.reads, *self.group.equations))}

        def place(access: Access) -> Any:
            base = access.base
            return base.dtype, access.offset, access.strides, places[base] if base in places else _told(base)

        def source(x: Any) -> Any:
            return registers[self.register(x)] if isinstance(x, Value) else (type(x), repr(x))

        return (
            tuple(self.loops),
            tuple(map(place, self.reads.values())),
            tuple((v.op, v.dtype, *map(source, v.inputs)) for v in self.group.equations),
            tuple((registers[v], place(access)) for v, access in self.writes.items()),
        )


def _told(made: Value) -> Any:
    """What tells a value made from the index from others."""
    return made.op, made.shape, tuple((key, type(x), repr(x)) for key, x in sorted(made.params.items()))
