"""Sums and extremes over any dimensions of dense arrays by native code.

NumPy folds dimensions before the last row by row, at some 10 ns for each row, however short. Here neighbouring
dimensions are folded as one, the last ones first.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.tensor.memory_format import sorted_dims
from adjoint.core.typing import Array, Operand, Shape

MIN_SIZE = 128  # elements: of fewer NumPy's call takes less
FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


class NativeFold:
    """A fold by routines: of the columns of (outer, rows, columns), of the rows of a matrix, and of all elements."""

    __slots__ = ("_all", "_columns", "_rows")

    def __init__(self, columns: SmallArrayKernel, rows: SmallArrayKernel, all: SmallArrayKernel | None = None) -> None:
        self._columns, self._rows, self._all = columns, rows, all

    def try_fold(self, x: Operand, axes: tuple[int, ...], keepdims: bool) -> Array | None:
        """Fold an array over `axes`; None if NumPy should.

        Without `keepdims` the result is row-major; with it, it has the dimension order of the array.
        """
        if not kernel_provider.enabled or not axes or x.dtype not in FLOATS or not x.size:
            return None
        if self._all is not None and len(axes) == len(x.shape) and not keepdims:
            found: Array | None = self._all.call(x)
            if found is not None:
                return found
        if x.size < MIN_SIZE:
            return None
        if x.flags.c_contiguous:
            steps = _plan_steps(x.shape, axes)
            if len(steps) == 1 and steps[0][2] == x.shape[-1] > 1:  # one call, without other shapes on the way
                folded: Array | None = self._columns.call(x, np.empty(_result_shape(x.shape, axes, keepdims), x.dtype))
                return folded
            out = self._fold_row_major(x, axes)
            return None if out is None else out.reshape(_result_shape(x.shape, axes, keepdims))
        order = sorted_dims(x.shape, x.strides)
        laid = x.transpose(order)
        if not laid.flags.c_contiguous:
            return None
        moved = tuple(sorted(order.index(a) for a in axes))
        out = self._fold_row_major(laid, moved)
        if out is None:
            return None
        out = out.reshape(_result_shape(laid.shape, moved, True)).transpose(np.argsort(order))
        return out if keepdims else np.ascontiguousarray(out).reshape(_result_shape(x.shape, axes, False))

    def _fold_row_major(self, x: Array, axes: tuple[int, ...]) -> Array | None:
        steps, out = _plan_steps(x.shape, axes), x
        if not steps:
            return None  # a copy is wanted
        for outer, rows, columns in steps:
            if columns == 1:
                found = self._rows.call(out.reshape(outer, rows))
            else:
                found = self._columns.call(out.reshape(outer, rows, columns), np.empty((outer, columns), x.dtype))
            if found is None:
                return None
            out = found
        return out


@lru_cache(1024)
def _plan_steps(shape: Shape, axes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """The steps as (outer, rows, columns): each folds neighbouring dimensions, those of size 1 left out."""
    dims = [(n, d in axes) for d, n in enumerate(shape) if n != 1]
    steps: list[tuple[int, int, int]] = []
    columns = 1
    while dims:
        n, is_folded = dims.pop()
        if not is_folded:
            columns *= n
            continue
        while dims and dims[-1][1]:
            n *= dims.pop()[0]
        steps.append((prod([m for m, _ in dims]), n, columns))
    return steps


@lru_cache(1024)
def _result_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    return tuple(1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes)
