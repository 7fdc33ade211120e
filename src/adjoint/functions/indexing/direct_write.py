"""In-place writes at positions that are data, into the array itself: what `in_place` tries before it makes a copy.

Each function takes the array that is written, which is row-major and shares no memory with the others, and the
arguments of the method, arrays in place of tensors. It returns False, and has written nothing, for what it does not
treat itself: other types and shapes, positions out of range, numbers that the type may not hold.
"""

from __future__ import annotations

import numpy as np

from adjoint.core.op.eager_kernels import kernel_provider
from adjoint.core.typing import Array, Operand
from adjoint.functions.api.quiet_write import MAX_SMALL
from adjoint.ops.indexing.indexing import ADD_ALONG_ROWS, first_column, picks_rows
from adjoint.ops.indexing.row_positions import ADD_ROWS, positions_along
from adjoint.ops.indexing.scatter import PUT_ALONG_ROWS

ndarray = np.ndarray
INT64 = np.dtype(np.int64)


def write_along(array: Array, dim: Operand, index: Operand, source: Operand) -> bool:
    """Write for `scatter_`: a number, or elements at positions along the last dimension."""
    if not _are_along_last(array, dim, index):
        return False
    if type(source) is not ndarray:
        if not _is_plain_number(source, array):
            return False
        source = np.full(index.shape, source, array.dtype)
    return _is_like(source, array, index.shape) and PUT_ALONG_ROWS.call(source, index, array) is not None


def add_along(array: Array, dim: Operand, index: Operand, source: Operand) -> bool:
    """Write for `scatter_add_`."""
    if type(index) is not ndarray or not _is_like(source, array, index.shape) or not kernel_provider.enabled:
        return False
    if _are_along_last(array, dim, index):
        return ADD_ALONG_ROWS.call(source, index, array) is not None
    if type(dim) is not int or not 0 <= dim < array.ndim or index.dtype is not INT64 or len(index.shape) != array.ndim:
        return False
    if any(n > m for d, (n, m) in enumerate(zip(index.shape, array.shape, strict=True)) if d != dim):
        return False
    if not dim and picks_rows(index, 0, array.shape[1:]):
        rows = np.ascontiguousarray(first_column(index))
        return ADD_ROWS.call(_as_matrix(source), rows, _as_matrix(array)) is not None
    places = positions_along(array.shape, index, dim)
    return places is not None and places.fold_into(ADD_ROWS, array, source)


def add_rows(array: Array, dim: Operand, index: Operand, source: Operand) -> bool:
    """Write for `index_add_` in the first dimension."""
    if not _are_rows(array, index) or type(dim) is not int or dim or not kernel_provider.enabled:
        return False
    if not _is_like(source, array, (len(index), *array.shape[1:])) or not source.size:
        return False
    return ADD_ROWS.call(_as_matrix(source), index, _as_matrix(array)) is not None


def write_rows(array: Array, dim: Operand, index: Operand, source: Operand) -> bool:
    """Write for `index_copy_` in the first dimension, where no position counts from the end."""
    if not _are_rows(array, index) or type(dim) is not int or dim:
        return False
    if not _is_like(source, array, (len(index), *array.shape[1:])) or (index.size and index.min() < 0):
        return False
    return write_at_indices(array, (index,), source)


def fill_rows(array: Array, dim: Operand, index: Operand, value: Operand) -> bool:
    """Write for `index_fill_` in the first dimension."""
    if not _are_rows(array, index) or type(dim) is not int or dim or not _is_plain_number(value, array):
        return False
    return write_at_indices(array, (index,), np.asarray(value, array.dtype))


def write_at_indices(array: Array, indices: Operand, values: Operand, accumulate: bool = False) -> bool:
    """Write for `index_put_`."""
    if accumulate or type(indices) is not tuple or type(values) is not ndarray or values.dtype is not array.dtype:
        return False
    if not 0 < len(indices) <= array.ndim:
        return False
    for index in indices:
        if type(index) is not ndarray or index.dtype is not INT64 or not index.shape:
            return False
    try:
        array[indices] = values
    except (IndexError, ValueError):  # of which the method tells in PyTorch's words; none is written
        return False
    return True


def _are_along_last(array: Array, dim: Operand, index: Operand) -> bool:
    """Return whether positions are given along the last dimension, for native code, which looks at their range."""
    if not kernel_provider.enabled or type(index) is not ndarray or type(dim) is not int or not array.shape:
        return False
    return dim in (-1, array.ndim - 1) and index.size > 0 and index.shape[:-1] == array.shape[:-1]


def _as_matrix(x: Array) -> Array:
    return x if x.ndim == 2 else x.reshape(len(x), -1)


def _are_rows(array: Array, index: Operand) -> bool:
    return type(index) is ndarray and index.ndim == 1 and index.dtype is INT64 and array.ndim > 0 and array.size > 0


def _is_like(source: Operand, array: Array, shape: tuple[int, ...]) -> bool:
    return type(source) is ndarray and source.dtype is array.dtype and source.shape == shape


def _is_plain_number(value: Operand, array: Array) -> bool:
    """Return whether a number fits a floating type."""
    return type(value) in (int, float) and array.dtype.kind == "f" and abs(value) <= MAX_SMALL and array.itemsize > 2
