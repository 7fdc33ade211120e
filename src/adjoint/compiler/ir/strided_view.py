"""Strided views: the places of a moved value's elements in the memory of the value it was moved from."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from numpy.lib.stride_tricks import as_strided

from adjoint.compiler.ir.graph import Argument, StateInput, Value
from adjoint.compiler.ir.symbolic_size import has_symbols, size_value
from adjoint.core.tensor.as_strided import element_strides, memory_span
from adjoint.core.tensor.size import range_length
from adjoint.core.typing import Array

Shape = tuple[int, ...]
MIN_EXPANDED_BYTES = 2**16  # bytes of repeated elements from which on an input is read where it lies


def repeats_elements(shape: Shape, strides: Shape | None, itemsize: int) -> bool:
    """True if an array with these strides repeats so many elements that it is not copied into row-major order."""
    if strides is None:
        return False
    own = prod(n for n, s in zip(shape, strides, strict=True) if s)
    return (prod(shape) - own) * itemsize >= MIN_EXPANDED_BYTES


def is_expanded_input(value: Value) -> bool:
    """True for an input that repeats elements, is never written, and is read through its strides."""
    source = value.source
    if not isinstance(source, (Argument, StateInput)) or not isinstance(source.strides, tuple):
        return False
    return repeats_elements(value.shape, source.strides, value.dtype.itemsize)


@lru_cache(4096)
def row_major(shape: Shape) -> Shape:
    """Strides, in elements, of a contiguous array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


class StridedView(NamedTuple):
    """Element (i, j, …) is element `offset + i·strides[0] + j·strides[1] + …` of the memory of `base`.

    That is contiguous, unless `base` is an expanded input.
    """

    base: Value
    shape: Shape
    strides: Shape
    offset: int

    @classmethod
    def whole(cls, base: Value) -> StridedView:
        """The array itself."""
        return cls(base, base.shape, row_major(base.shape), 0)

    @classmethod
    def in_memory(cls, base: Value) -> StridedView:
        """The array itself, with the strides that it has in memory."""
        shape = base.shape
        expanded = base.op is None and is_expanded_input(base)
        return cls(base, shape, base.source.strides if expanded else row_major(shape), 0)

    @property
    def is_linear(self) -> bool:
        """True if the elements are those of the base, all of them and in its order."""
        base, shape, strides, offset = self
        if offset or 0 in shape:
            return not offset
        expected = row_major(shape)
        same = strides == expected or all(n == 1 or s == e for n, s, e in zip(shape, strides, expected, strict=True))
        return same and (shape == base.shape or prod(shape) == base.size)

    def permute(self, axes: Shape) -> StridedView:
        """Dimension i is the former dimension `axes[i]`."""
        shape, strides = self.shape, self.strides
        return StridedView(self.base, tuple([shape[a] for a in axes]), tuple([strides[a] for a in axes]), self.offset)

    def expand(self, shape: Shape) -> StridedView:
        """New and size-1 dimensions repeated: stride 0."""
        if shape == self.shape:
            return self
        lead = len(shape) - len(self.shape)
        own = [s if n != 1 or m == 1 else 0 for n, m, s in zip(self.shape, shape[lead:], self.strides, strict=True)]
        return StridedView(self.base, shape, (*[0] * lead, *own), self.offset)

    def flip(self, axes: Shape) -> StridedView:
        """The order reversed along `axes`."""
        offset, strides = self.offset, list(self.strides)
        for a in axes:
            offset += strides[a] * max(self.shape[a] - 1, 0)
            strides[a] = -strides[a]
        return self._replace(strides=tuple(strides), offset=offset)

    def slice(self, bounds: tuple[tuple[int, int, int], ...]) -> StridedView:
        """One (start, stop, step) per dimension."""
        offset = self.offset + sum(b[0] * s for b, s in zip(bounds, self.strides, strict=True))
        return self._replace(
            shape=tuple(range_length(*b) for b in bounds),
            strides=tuple(b[2] * s for b, s in zip(bounds, self.strides, strict=True)),
            offset=offset,
        )

    def select(self, axis: int, at: int) -> StridedView:
        """One position along `axis`; the dimension goes."""
        return StridedView(
            self.base,
            self.shape[:axis] + self.shape[axis + 1 :],
            self.strides[:axis] + self.strides[axis + 1 :],
            self.offset + at * self.strides[axis],
        )

    def reshape(self, shape: Shape) -> StridedView | None:
        """The same elements in row-major order under another shape; None if no strides say so."""
        if shape == self.shape:
            return self
        if 0 in shape:
            # with a stride along the last empty dimension, no load can be taken out of its loop
            return self._replace(shape=shape, strides=row_major(shape))
        if self.strides == row_major(self.shape):
            return StridedView(self.base, shape, row_major(shape), self.offset)
        runs = _merge_contiguous_dims(self.shape, self.strides)
        strides: list[int] = []
        pending = list(reversed(shape))  # innermost first
        for size, stride in reversed(runs):
            covered = 1
            while covered < size:
                n = pending.pop(0) if pending else 0
                if n == 0 or size % (covered * n):
                    return None
                strides.append(stride * covered)
                covered *= n
        strides.extend(0 for _ in pending)  # what is left has size 1
        return StridedView(self.base, shape, tuple(strides[::-1]), self.offset)


def _merge_contiguous_dims(shape: Shape, strides: Shape) -> list[tuple[int, int]]:
    """Dimensions as (size, stride), neighbours that lie in one run joined, those of size 1 dropped; outermost first."""
    runs: list[tuple[int, int]] = []
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * s:
            runs[-1] = (runs[-1][0] * n, s)
        else:
            runs.append((n, s))
    return runs


def strided_view_of(value: Value, views: dict[Value, StridedView]) -> StridedView | None:
    """The view that a value is of its base: the whole for a computed one; None where a movement needs a copy first."""
    found = views.get(value)
    if found is not None:
        return found
    view: StridedView | None
    if value.op is not None and value.op.index is not None:
        source = strided_view_of(value.operands[0], views)
        view = None if source is None else value.op.index(source, **value.params)
    else:
        view = StridedView.in_memory(value)
    if view is not None:
        views[value] = view
    return view


def view_over(view: StridedView, shape: Shape, space: Shape) -> StridedView | None:
    """Return `view`, read over `shape`, re-expressed over the iteration space `space`, which has as many elements;
    None if that takes more than one stride per dimension.
    """
    if view.shape == shape == space:
        return view
    return view.expand(shape).reshape(space)


def iteration_shape(value: Value) -> Shape:
    """The shape over which an equation runs: of its result, or of what it folds."""
    return value.operands[0].shape if value.op.combine else value.shape


@lru_cache(4096)
def keepdims_shape(shape: Shape, axes: Shape | None) -> Shape:
    """`shape` with the folded dimensions as 1."""
    return tuple(1 if i in (axes or ()) else n for i, n in enumerate(shape))


def indexes_reduction_result(view: StridedView, shape: Shape, axes: Shape) -> bool:
    """True if a view over `shape` reads, at each element, the result of the folds over `axes` that it is part of."""
    expected = row_major(keepdims_shape(shape, axes))
    return not view.offset and all(
        n == 1 or s == (0 if i in axes else e)
        for i, (n, s, e) in enumerate(zip(shape, view.strides, expected, strict=True))
    )


def forget_shapes() -> None:
    """Empty the caches of shapes: symbolic ones are of use to no other program, and keep all that they are made of."""
    row_major.cache_clear()
    keepdims_shape.cache_clear()


def apply_view(view: StridedView, array: Array) -> Array:
    """The elements of `array`, the memory of the view's base, that the view describes, where they lie."""
    if view == StridedView.in_memory(view.base):
        return array
    if has_symbols((view.shape, view.strides, view.offset)):
        shape, strides = tuple(map(size_value, view.shape)), tuple(map(size_value, view.strides))
        view = StridedView(view.base, shape, strides, size_value(view.offset))
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
    else:  # the memory from the first element to the last one
        span = memory_span(array.shape, element_strides(array), 0)
        flat = as_strided(array, (span,), (array.itemsize,), writeable=False)
    if 0 in view.shape:
        return flat[:0].reshape(view.shape)
    return as_strided(flat[view.offset :], view.shape, tuple(s * array.itemsize for s in view.strides))
