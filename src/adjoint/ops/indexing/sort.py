"""Positions in sorted order: searches, ranks, the leading elements; membership and the most frequent element."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.op.eager_kernels import RowKernel
from adjoint.core.op.families import primitive
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, NumpyDtype, Operand
from adjoint.ops.indexing.indexing import MAX_SORTED_SIZE

SEARCHSORTED, LEADING, MEDIAN_INDEX, INDEX_AT_RANK = (
    RowKernel(name, finds_positions=True) for name in ("searchsorted", "leading", "median_index", "index_at_rank")
)
MIN_PARTITION_LENGTH = 64  # elements: shorter rows are sorted as fast as they are parted
MAX_COMPARED_PAIRS = 4096
MIN_PARTITION_SIZE = 2048  # elements: fewer are sorted in the time of the calls that part them


@primitive(spec=lambda x, values, *, right, dtype: Spec(values.shape, dtype))
def searchsorted(x: Array, values: Array, *, right: bool, dtype: NumpyDtype) -> Array:
    """The position of each value in x, sorted: before its equals, or behind them if `right`.

    One vector x for all, or (…, n) with a row for each of (…, m).
    """
    side: Any = "right" if right else "left"
    if x.ndim == 1 and values.size <= MAX_SORTED_SIZE:
        return np.asarray(x.searchsorted(values, side)).astype(dtype, copy=False)
    native: Array | None = SEARCHSORTED.call(x, values, right=right, dtype=dtype)
    if native is not None:
        return native
    if x.ndim == 1:
        return np.asarray(np.searchsorted(x, values, side)).astype(dtype)
    out = np.empty(values.shape, dtype)
    for at in np.ndindex(*x.shape[:-1]):
        out[at] = np.searchsorted(x[at], values[at], side)
    return out


@primitive(spec=lambda x, among, *, unique, invert: Spec(x.shape, np.dtype(np.bool_)))
def isin(x: Array, among: Array, *, unique: bool, invert: bool) -> Array:
    """True where an element of x is in `among`, or, if `invert`, is not; `unique`: neither repeats an element."""
    if x.size * among.size <= MAX_COMPARED_PAIRS:  # in half the time of a sort
        found = np.logical_or.reduce(x.reshape(-1, 1) == among.reshape(-1), -1).reshape(x.shape)
        return np.logical_not(found) if invert else found
    return np.isin(x, among, assume_unique=unique, invert=invert)


def _position_spec(x: Operand, *, axis: int, count: int = 1, **_: object) -> Spec:
    return Spec((*x.shape[:axis], count, *x.shape[axis + 1 :]), np.dtype(np.int64))


@primitive(spec=_position_spec)
def most_frequent(x: Array, *, axis: int) -> Array:
    """The index of the last occurrence of the most frequent element along `axis`, the smallest at a tie."""
    rows = np.swapaxes(x, axis, -1)
    order = rows.argsort(-1, "stable")
    ordered = np.sort(rows, -1, "stable")
    at = np.arange(rows.shape[-1])
    begins = np.zeros(rows.shape, np.int64)  # where the run of equal elements begins
    begins[..., 1:] = np.where(ordered[..., 1:] != ordered[..., :-1], at[1:], 0)
    lengths = at - np.maximum.accumulate(begins, -1)
    ends = lengths.argmax(-1).reshape(-1)  # of the first of the longest runs
    places = order.reshape(len(ends), rows.shape[-1])[np.arange(len(ends)), ends]
    return np.swapaxes(places.reshape(*rows.shape[:-1], 1), axis, -1)


@primitive(spec=_position_spec)
def leading(x: Array, *, axis: int, count: int, descending: bool) -> Array:
    """The first `count` indices of a stable sort of x along `axis`; NaN is the largest."""
    native: Array | None = LEADING.call(x, axis=axis, count=count, descending=descending)
    if native is not None:
        return native
    rows = x if axis == x.ndim - 1 else np.swapaxes(x, axis, -1)  # `moveaxis` takes ten times as long
    size = rows.shape[-1]
    is_short = x.size < MIN_PARTITION_SIZE or size < MIN_PARTITION_LENGTH or 4 * count >= size
    if is_short or not count or (x.dtype.kind == "f" and np.isnan(x).any()):
        places = _in_order(rows, descending, count)
    else:
        last = size - count if descending else count - 1
        edge = np.partition(rows, last, axis=-1)[..., last : last + 1]
        inside, equal = rows > edge if descending else rows < edge, rows == edge
        left = count - inside.sum(-1, keepdims=True)
        chosen = inside | (equal & (np.cumsum(equal, -1) <= left))
        some = np.nonzero(chosen)[-1].reshape(*rows.shape[:-1], count)
        places = np.take_along_axis(some, _in_order(np.take_along_axis(rows, some, -1), descending, count), -1)
    return np.ascontiguousarray(places if rows is x else np.swapaxes(places, axis, -1))


def _in_order(rows: Array, descending: bool, count: int) -> Array:
    """Return the first `count` indices of a stable sort of rows."""
    if not descending:
        return rows.argsort(-1, "stable")[..., :count]
    size = rows.shape[-1]
    order = rows[..., ::-1].argsort(-1, "stable")[..., size - count :]
    return size - 1 - order[..., ::-1]


@primitive(spec=_position_spec)
def median_index(x: Array, *, axis: int, ignore_nan: bool) -> Array:
    """The index along `axis` of the lower median of what is not NaN; of the first NaN unless they are ignored."""
    if x.size <= MAX_SORTED_SIZE and x.dtype.kind != "V" and not (x.dtype.kind == "f" and np.isnan(x).any()):
        return op_of(index_at_rank).evaluate(x, axis=axis, rank=(x.shape[axis] - 1) // 2)
    native: Array | None = MEDIAN_INDEX.call(x, axis=axis, ignore_nan=ignore_nan)
    if native is not None:
        return native
    size = x.shape[axis]
    missing = np.isnan(x).sum(axis, keepdims=True) if x.dtype.kind == "f" else np.zeros(1, np.int64)
    if ignore_nan:
        places = (np.maximum(size - missing, 1) - 1) // 2
    else:
        places = np.where(missing > 0, size - missing, (size - 1) // 2)
    if places.size and (places == places.flat[0]).all():
        return op_of(index_at_rank).evaluate(x, axis=axis, rank=int(places.flat[0]))
    return np.take_along_axis(np.argsort(x, axis=axis, kind="stable"), places, axis)


def sort_distinct(x: Array) -> Array:
    """Return the distinct elements of a vector in ascending order; NaN equals none."""
    ordered = np.sort(x, kind="stable")
    new = np.ones(len(x), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def find_median(x: Array, ignore_nan: bool) -> Operand:
    """Return the lower median of a vector as `median_index` finds it, which is sorted."""
    ordered = np.sort(x, kind="stable")
    count = len(x)
    if x.dtype.kind == "f" and np.isnan(ordered[-1]):
        if not ignore_nan:
            return ordered[-1]
        count = max(count - int(np.isnan(ordered).sum()), 1)
    return ordered[(count - 1) // 2]


@primitive(spec=_position_spec)
def index_at_rank(x: Array, *, axis: int, rank: int) -> Array:
    """The index of the element at `rank` of a stable sort of x along `axis`; NaN is the largest."""
    rows = x if axis == x.ndim - 1 else np.swapaxes(x, axis, -1)
    if x.size <= MAX_SORTED_SIZE:
        return np.ascontiguousarray(np.swapaxes(rows.argsort(-1, "stable")[..., rank : rank + 1], axis, -1))
    native: Array | None = INDEX_AT_RANK.call(x, axis=axis, rank=rank)
    if native is not None:
        return native
    found = np.partition(rows, rank, axis=-1)[..., rank : rank + 1]
    below, equal = rows < found, rows == found
    if x.dtype.kind == "f":
        missing, beyond = np.isnan(rows), np.isnan(found)
        below, equal = np.where(beyond, ~missing, below), np.where(beyond, missing, equal)
    nth = rank - below.sum(-1, keepdims=True)
    places = np.argmax(np.cumsum(equal, -1) > nth, axis=-1, keepdims=True)
    return np.ascontiguousarray(np.swapaxes(places, axis, -1))
