"""The places that indices name, counted in rows of the array in memory, and folds of rows into those places.

NumPy's `ufunc.at` takes some 10 ns for each element where several index arrays name it. One array of positions makes
each row one step of a native loop, whichever dimensions are indexed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.typing import Array, Operand, Shape

# Where the index arrays stand among the dimensions: a slot for each dimension of x, the number of its index, or None
# for a dimension that is kept whole.
Pattern = tuple[int | None, ...]

ADD_ROWS, MULTIPLY_ROWS = SmallArrayKernel("add_rows"), SmallArrayKernel("multiply_rows")
LARGER_ROWS, SMALLER_ROWS = SmallArrayKernel("larger_rows"), SmallArrayKernel("smaller_rows")


class RowPositions(NamedTuple):
    """Positions of rows of `width` elements, the last dimensions of an array."""

    rows: Array
    width: int

    def fold_into(self, kernel: SmallArrayKernel, out: Array, x: Array) -> bool:
        """Fold the rows of x into those of `out`, which is row-major; False if NumPy should."""
        if not kernel_provider.enabled:
            return False
        if not x.size:
            return True
        parts = np.ascontiguousarray(x).reshape(-1, self.width)
        places = np.ascontiguousarray(self.rows, np.int64).reshape(-1)
        return kernel.call(parts, places, out.reshape(-1, self.width)) is not None


def positions_of_indices(shape: Shape, indices: tuple[Array, ...], pattern: Pattern) -> RowPositions | None:
    """Return the positions that index arrays name; None for indices apart from each other, or out of range."""
    at = [d for d, slot in enumerate(pattern) if slot is not None]
    first, last = at[0], at[-1]
    if last - first + 1 != len(at):
        return None
    rows: Operand = 0
    are_known = False
    if len(at) > 1:
        with suppress(ValueError):  # negative ones, or some out of range
            rows = np.ravel_multi_index([indices[pattern[d] or 0] for d in at], shape[first : last + 1])
            are_known = True
    if not are_known:
        for d in at:
            index, n = indices[pattern[d] or 0], shape[d]
            if not are_in_range(index, n):
                lowest, highest = int(index.min()), int(index.max())
                if lowest < -n or highest >= n:
                    return None
                index = np.where(index < 0, index + n, index)
            rows = index if d == first else rows * n + index
    if first:
        lead = row_starts(prod(shape[:first]), prod(shape[first : last + 1]))
        rows = lead.reshape(-1, *(1,) * rows.ndim) + rows
    return RowPositions(rows, prod(shape[last + 1 :]))


def positions_along(shape: Shape, indices: Array, axis: int) -> RowPositions | None:
    """Return the positions of `indices` along `axis`, each element at its own place along the other dimensions.

    Dimensions after `axis` along which the indices are expanded belong to the rows. None for indices out of range.
    """
    if indices.ndim != len(shape) or not indices.ndim or not indices.size:
        return None
    if not are_in_range(indices, shape[axis]):
        return None
    end = indices.ndim
    while end - 1 > axis and indices.shape[end - 1] == shape[end - 1] and not indices.strides[end - 1]:
        end -= 1
        indices = indices[..., 0]
    rows: Operand = 0
    step = 1
    for d in range(end)[::-1]:
        if d == axis:
            rows = rows + (indices if step == 1 else indices * step)
        else:
            rows = rows + row_starts(indices.shape[d], step).reshape(-1, *(1,) * (end - d - 1))
        step *= shape[d]
    return RowPositions(rows, prod(shape[end:]))


@lru_cache(256)
def row_starts(count: int, step: int) -> Array:
    """Return 0, step, 2 step and so on, an array of `count` that is not to be written."""
    starts = np.arange(0, count * step, step or 1)
    starts.flags.writeable = False
    return starts


def drop_repeats(x: Array) -> Array:
    """Return a view of an expanded array, with one element in place of each that is repeated."""
    if 0 in x.strides and x.size:
        return x[tuple([slice(0, 1) if not step else slice(None) for step in x.strides])]
    return x


def are_in_range(indices: Array, n: int) -> bool:
    """Return whether all indices are known to lie in [0, n)."""
    indices = drop_repeats(indices)
    if indices.dtype != np.int64:
        return not indices.size or (int(indices.min()) >= 0 and int(indices.max()) < n)
    return not indices.size or bool(np.maximum.reduce(indices.view(np.uint64), None) < n)  # -1 becomes the largest
