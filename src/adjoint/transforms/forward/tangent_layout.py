"""Memory layout of tangents: the same as the tensor's, so that a view of one is a view of the other."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from adjoint.core.tensor.as_strided import _has_same_strides, element_strides, memory_span, offset, owner, strided_view
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, NumpyDtype, Operand
from adjoint.ops.elementwise.select import copy

ndarray = np.ndarray


def match_layout(tangent: Tensor, x: Tensor) -> Tensor:
    """Return the tangent itself where it lies in its memory as `x` does; else a copy, with its history, that does."""
    array, like = _first_example(tangent.array), _first_example(x.array)
    if type(array) is not ndarray or type(like) is not ndarray:
        return tangent
    single = array is tangent.array and like is x.array
    if _has_same_layout(array, like) if single else _has_same_order(array, like):
        return tangent
    out: Tensor = copy(tangent)
    if type(out.array) is not ndarray:
        rows = out.array.physical
        rows.array = (
            _copy_rows_like(rows.array, like) if out.array.batched and type(rows.array) is ndarray else rows.array
        )
        return out
    laid = _allocate_like(like, array.dtype)
    laid[...] = array
    out.array = laid
    return out


def _first_example(array: Operand) -> Operand:
    """Return the first example of a batch, as it lies in memory; any other array as it is."""
    if not hasattr(array, "physical"):
        return array
    rows = _first_example(array.physical.array)
    if not array.batched or type(rows) is not ndarray:
        return rows
    return rows[0] if len(rows) else np.empty(rows.shape[1:], rows.dtype)


def _copy_rows_like(rows: Array, like: Array) -> Array:
    """Return `rows` in memory where the elements of each have the order of those of `like`."""
    order = sorted(range(like.ndim), key=lambda d: -like.strides[d])
    room = np.empty((len(rows), *(like.shape[d] for d in order)), rows.dtype)
    room = room.transpose(0, *(1 + order.index(d) for d in range(like.ndim)))
    room[...] = rows
    return room


def _has_same_order(x: Array, y: Array) -> bool:
    """Return whether the elements of x have the order of those of y, between which may be other examples."""
    order = sorted((d for d, n in enumerate(x.shape) if n > 1), key=lambda d: -y.strides[d])
    ordered = all(x.strides[a] >= x.strides[b] for a, b in pairwise(order))
    return (ordered and all(x.strides[d] > 0 for d in order)) or _has_same_strides(x, y)


def _has_same_layout(x: Array, y: Array) -> bool:
    """Return whether x and y have one layout in memories of the same extent."""
    if x.strides == y.strides and x.base is None and y.base is None:
        return True
    if not x.size:
        return True
    return _has_same_strides(x, y) and offset(x) == offset(y) and _count_places(x) >= _count_places(y)


def _count_places(x: Array) -> int:
    """Return how many elements the memory of x holds: of x's type, for the real part of complex memory has its own."""
    return int(owner(x).nbytes // x.itemsize)


def _allocate_like(like: Array, dtype: NumpyDtype) -> Array:
    """Return an array laid out in memory of its own as `like` is; dense where elements of `like` share memory."""
    plain = all(n == 1 or s > 0 for n, s in zip(like.shape, like.strides, strict=True))
    if not plain or like.size > memory_span(like.shape, element_strides(like), 0):
        return np.empty(like.shape, dtype)
    return strided_view(np.zeros(_count_places(like), dtype), like.shape, element_strides(like), offset(like))
