"""Sums of arrays as NumPy does them, but for float16 and for long columns, where its rounding errors pile up.

NumPy adds along the last dimension in pairs of blocks, but other dimensions row by row, in the type of the elements: a
sum of ones in float32 ends at 2²⁴, in float16 at 2048. Here columns are added block by block, halves in float32.
"""

from __future__ import annotations

from math import prod

import numpy as np

from adjoint.core.tensor.as_strided import try_view
from adjoint.core.typing import Array, Function, NumpyDtype

# NumPy's stubs give `reduce` no overload for a `keepdims` that is not a literal.
add_reduce: Function = np.add.reduce
HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
# the types, by their letters, of which columns are added in blocks, and wider ones; float64 has digits to spare
WIDE = {"f": np.dtype(np.float64), "F": np.dtype(np.complex128)}
BLOCK_ROWS = 128  # rows that are added one after the other
MIN_ROWS = 1024  # of fewer the rounding errors are small, and blocks would cost a tenth of the time


def add_up(x: Array, axes: tuple[int, ...], keepdims: bool, dtype: NumpyDtype | None = None) -> Array:
    """Return Σ over `axes` in `dtype`, by default that of x; float16 in float32, which the caller is to round."""
    if x.dtype.char == "?" and len(axes) == x.ndim and not keepdims and dtype is not None:
        return np.asarray(np.count_nonzero(x), dtype)
    if dtype is None:
        dtype = x.dtype
    if dtype.itemsize == 2 and dtype == HALF:
        dtype = SINGLE
    if x.size < MIN_ROWS or not axes or dtype.char not in WIDE:
        return add_reduce(x, axes, dtype, None, keepdims)
    repeats = tuple(d for d in axes if x.strides[d] == 0 and x.shape[d] > 1)
    if not repeats:
        return _add_columns(x, axes, keepdims, dtype)
    one = x[tuple(slice(1) if d in repeats else slice(None) for d in range(x.ndim))]
    count = prod([x.shape[d] for d in repeats])
    return np.multiply(add_up(one, axes, keepdims, dtype), float(count), dtype=WIDE[dtype.char]).astype(dtype)


def _add_columns(x: Array, axes: tuple[int, ...], keepdims: bool, dtype: NumpyDtype) -> Array:
    """Add as `add_up`; columns, as they lie in memory, in blocks."""
    if x.flags.c_contiguous and axes[-1] == len(axes) - 1 != x.ndim - 1:  # the first ones, as of a bias
        rows = prod(x.shape[: len(axes)])
        if rows < MIN_ROWS:
            return add_reduce(x, axes, dtype, None, keepdims)
        kept = x.shape[len(axes) :]
        total = _add_blocks(x.reshape(1, rows, prod(kept)), dtype)
        return total.reshape((1,) * len(axes) + kept if keepdims else kept)
    order = sorted(range(x.ndim), key=lambda d: (x.shape[d] != 1, -x.strides[d]))
    laid = x.transpose(order)
    at = [i for i, d in enumerate(order) if d in axes and x.shape[d] != 1]
    first, last = (at[0], at[-1]) if at else (0, 0)
    rows = prod(laid.shape[first : last + 1])
    beside = last - first + 1 != len(at)  # other dimensions lie between
    columns = None
    if rows >= MIN_ROWS and last != x.ndim - 1 and not beside:
        columns = try_view(laid, (prod(laid.shape[:first]), rows, prod(laid.shape[last + 1 :])))
    if columns is None:
        return add_reduce(x, axes, dtype, None, keepdims)
    total = _add_blocks(columns, dtype)
    total = total.reshape([1 if d in axes else x.shape[d] for d in order]).transpose(np.argsort(order))
    return total if keepdims else total.reshape([n for d, n in enumerate(x.shape) if d not in axes])


def _add_blocks(x: Array, dtype: NumpyDtype) -> Array:
    """Σ over the middle one of three dimensions, which keep their order in memory."""
    while x.shape[1] > 2 * BLOCK_ROWS:
        outer, rows, inner = x.shape
        count = rows // BLOCK_ROWS
        whole = count * BLOCK_ROWS
        sums = np.empty((outer, count + (whole < rows), inner), dtype)
        add_reduce(x[:, :whole].reshape(outer, count, BLOCK_ROWS, inner), 2, dtype, sums[:, :count])
        if whole < rows:
            add_reduce(x[:, whole:], 1, dtype, sums[:, count])
        x = sums
    return add_reduce(x, 1, dtype)
