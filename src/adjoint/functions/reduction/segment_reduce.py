"""Reductions over segments: stretches of one dimension, of lengths of their own."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.functions.creation import creation
from adjoint.functions.indexing import scatter
from adjoint.functions.reduction import sort_quantile_unique
from adjoint.functions.shape import join, shape
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.reduction import reduction

__all__ = ["segment_reduce"]

SCATTER_REDUCTIONS = {"max": "amax", "min": "amin"}
EMPTY_SEGMENT_VALUES = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Return the "sum", "mean", "max", "min" or "prod" of each segment along `axis`, the last dimension of the tables.

    Segments are told by their `lengths`, or by the `offsets` at which each begins and the last ends. `initial` takes
    part in each; without it empty ones have the sum 0, the product 1, the mean NaN and infinite extremes. Raises
    RuntimeError for lengths below 0 and, unless `unsafe`, for those that do not add up to the size of the dimension.
    """
    how = SCATTER_REDUCTIONS.get(reduce, reduce)
    if how not in EMPTY_SEGMENT_VALUES:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if data.array.dtype.kind not in "fV":
        raise NotImplementedError(f'"segment_reduce" not implemented for {data.dtype}')
    starts = _segment_starts(data, lengths, offsets, axis, unsafe)
    places, count = _segment_numbers(starts, data, axis), starts.array.shape[axis] - 1
    sums = {"mean": "sum"}.get(how, how)
    full = [*data.array.shape]
    full[axis] = count + 2  # one before the first segment, one behind the last
    begun = creation.full(tuple(full), EMPTY_SEGMENT_VALUES[how], dtype=data.dtype)
    out: Operand = shape.narrow(scatter.scatter_reduce(begun, axis, places, data, sums), axis, 1, count)
    sizes = shape.narrow(starts, axis, 1, count) - shape.narrow(starts, axis, 0, count)
    sizes = select.cast(_expand_trailing(sizes, data, axis), dtype=data.array.dtype)
    return _apply_initial(initial, how, out, sizes)


def _apply_initial(initial: float | None, how: str, out: Operand, sizes: Tensor) -> Tensor:
    if how == "mean":
        if initial is None:
            return arithmetic.div(out, sizes)
        empty = comparison.eq(sizes, 0)
        return arithmetic.div(out + initial, select.where(empty, 1.0, sizes))
    if initial is None:
        return out
    if how == "sum":
        return arithmetic.add(out, initial)
    if how == "prod":
        return arithmetic.mul(out, initial)
    beyond = comparison.gt if how == "amin" else comparison.lt
    return select.where(beyond(out, initial), initial, out)


def _segment_starts(data: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int, unsafe: bool) -> Tensor:
    """Return the start of each segment and the end of the last: (…, segments + 1)."""
    given = lengths if lengths is not None else offsets
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    name = "lengths" if lengths is not None else "offsets"
    if given.array.dtype.kind not in "iu":
        raise NotImplementedError(f"segment_reduce(): {name} must be integers, given {given.dtype}")
    if axis != given.ndim - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}.")
    if given.array.shape[:-1] != data.array.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): {name} of shape {list(given.array.shape)} for data of shape {list(data.array.shape)}"
        )
    if lengths is None:
        return given
    known = given.array if type(given.array) is np.ndarray else None
    if known is not None and (known < 0).any():
        raise RuntimeError("lengths contains negative value!")
    if not unsafe and known is not None and (known.sum(-1) != data.array.shape[axis]).any():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe."
        )
    ends = reduction.cumsum(given, axis=axis)
    none = creation.zeros(*given.array.shape[:-1], 1, dtype=ends.dtype)
    return join.cat([none, ends], axis)


def _segment_numbers(starts: Tensor, data: Tensor, axis: int) -> Tensor:
    """Return the number of the segment of each element, counted from 1."""
    size = data.array.shape[axis]
    at = creation.arange(size, dtype=starts.dtype)
    rows = shape.expand(at, (*starts.array.shape[:-1], size))
    found = sort_quantile_unique.searchsorted(starts, select.copy(rows), right=True)
    return _expand_trailing(found, data, axis)


def _expand_trailing(table: Tensor, data: Tensor, axis: int) -> Tensor:
    """Return (…, n) with the dimensions of the data that follow the axis."""
    inner = data.array.shape[axis + 1 :]
    wide = shape.reshape(table, (*table.array.shape, *(1 for _ in inner)))
    return shape.expand(wide, (*table.array.shape, *inner))
