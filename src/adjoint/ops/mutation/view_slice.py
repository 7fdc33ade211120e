"""A view as one slice of its base: its steps in one, so that a write to it is one write to a part of the base."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.core.tensor.size import range_length
from adjoint.core.tensor.storage import ViewStep
from adjoint.core.typing import Shape
from adjoint.ops.movement.movement import Bounds, Range, compose_slices


class ViewSlice:
    """The part of a base that a view shows, while its steps are followed one by one.

    The base is taken in the shape `sizes`, and of that the part at `bounds`; dimension i of the view is dimension
    `dims[i]` of that part, None for one of size 1 that the view has added.
    """

    def __init__(self, shape: Shape) -> None:
        self.sizes = list(shape)
        self.bounds: list[Range] = [(0, n, 1) for n in shape]
        self.dims: list[int | None] = list(range(len(shape)))

    @property
    def shape(self) -> Shape:
        """The shape in which the base is taken."""
        return tuple(self.sizes)

    @property
    def part(self) -> Bounds:
        """The part of the base, for `slice` and `put_slice`."""
        return tuple(self.bounds)

    @property
    def part_shape(self) -> Shape:
        """The shape of that part."""
        return tuple(range_length(*each) for each in self.bounds)

    @property
    def kept_dims(self) -> tuple[int, ...]:
        """The dimensions of the part that the view has, in the view's order; all others have size 1."""
        return tuple(d for d in self.dims if d is not None)

    def follow(self, step: ViewStep) -> bool:
        """Take a step of the view; False, and nothing is changed, if what it shows is no slice."""
        op, params, before, after = step
        if op.name == "slice":
            if any(d is None and b != (0, 1, 1) for d, b in zip(self.dims, params["bounds"], strict=True)):
                return False
            for d, part in zip(self.dims, params["bounds"], strict=True):
                if d is not None:
                    self.bounds[d] = compose_slices(self.bounds[d], part)
        elif op.name == "select":
            d = self.dims.pop(params["axis"])
            if d is not None:
                self.bounds[d] = compose_slices(self.bounds[d], (params["at"], params["at"] + 1, 1))
        elif op.name == "permute":
            self.dims = [self.dims[axis] for axis in params["axes"]]
        elif op.name == "reshape" or (op.name == "expand" and math.prod(before) == math.prod(after)):
            return self._reshape(before, after)
        else:
            return False
        return True

    def _reshape(self, before: Shape, after: Shape) -> bool:
        groups = _match_dims(before, after)
        if groups is None:
            return False
        kept = self.sizes, self.bounds, self.dims
        self.sizes, self.bounds, self.dims = [*self.sizes], [*self.bounds], [*self.dims]
        dims: list[int | None] = []
        for there, here in groups:
            found = self._replace_dims([self.dims[i] for i in there if before[i] != 1], [after[j] for j in here])
            if found is None:
                self.sizes, self.bounds, self.dims = kept
                return False
            first, count, more = found
            self.dims = [d + more if d is not None and d >= first + count - more else d for d in self.dims]
            dims = [d + more if d is not None and d >= first + count - more else d for d in dims]
            new = iter(range(first, first + count))
            dims += [None if after[j] == 1 else next(new) for j in here]
        self.dims = dims
        return True

    def _replace_dims(self, dims: list[int | None], sizes: list[int]) -> tuple[int, int, int] | None:
        """Split and merge neighbours among the dimensions of the base.

        Return the first of the new ones, how many they are, and how many more than before; None if they are no
        neighbours, or not whole.
        """
        real = [n for n in sizes if n != 1]
        first = next((d for d in dims if d is not None), 0)
        if len(dims) == len(real) <= 1:
            return first, len(real), 0
        last = first + len(dims)
        if dims != [*range(first, last)]:
            return None
        (start, stop, step), rest = self.bounds[first], self.bounds[first + 1 : last]
        if step != 1 or any(each != (0, n, 1) for each, n in zip(rest, self.sizes[first + 1 : last], strict=True)):
            return None
        # what lies at one place of the first dimension, before and now
        former, inner = math.prod(self.sizes[first + 1 : last]), math.prod(real[1:])
        whole = self.sizes[first] * former
        if any(n * former % inner for n in (start, stop, self.sizes[first])):
            return None
        self.sizes[first:last] = [whole // inner, *real[1:]]
        self.bounds[first:last] = [(start * former // inner, stop * former // inner, 1), *((0, n, 1) for n in real[1:])]
        return first, len(real), len(real) - len(dims)


def _match_dims(before: Shape, after: Shape) -> list[tuple[Sequence[int], Sequence[int]]] | None:
    """Return the groups of neighbours of two shapes that hold the same elements; None where there are none."""
    if 0 in before:
        return None
    groups: list[tuple[Sequence[int], Sequence[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        first = i, j
        there, here = before[i], after[j]
        i, j = i + 1, j + 1
        while there != here:
            if there < here:
                there, i = there * before[i], i + 1
            else:
                here, j = here * after[j], j + 1
        groups.append((range(first[0], i), range(first[1], j)))
    if i < len(before) or j < len(after):  # sizes of 1
        groups.append((range(i, len(before)), range(j, len(after))))
    return groups
