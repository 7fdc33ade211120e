"""Sorting, the k largest, medians, quantiles, modes, distinct elements, and searches in sorted sequences."""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.elementwise_kernels import KERNEL_TYPES
from adjoint.core.op.op import op_of
from adjoint.core.op.recorder import is_evaluated_alone, wrap_unrecorded
from adjoint.core.runtime.mode import call_on_values, nondefault
from adjoint.core.runtime.mode import mode as thread_mode
from adjoint.core.tensor.size import as_float
from adjoint.core.tensor.tensor import Tensor, constant, wrap
from adjoint.core.typing import Array, Function, Operand
from adjoint.functions.api import return_types
from adjoint.functions.api.compute_dtype import autocast_float32
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.api.return_types import Extreme
from adjoint.functions.reduction.reduce import (
    _check_not_empty,
    _detach_or_rewrap,
    _gather_extremes,
    _scalar_extreme,
    check_ordered,
    find_positions,
)
from adjoint.functions.shape.shape import ravel
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.indexing import indexing
from adjoint.ops.indexing import sort as ordering
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction

__all__ = [
    "argsort", "bucketize", "isin", "kthvalue", "median", "mode", "msort", "nanmedian", "nanquantile", "quantile",
    "searchsorted", "sort", "topk", "unique", "unique_consecutive",
]  # fmt: skip

MAX_INSERTED = 32  # elements that insertion puts in order sooner than other ways
LEADING_KERNELS = {True: SmallArrayKernel("leading_largest"), False: SmallArrayKernel("leading_smallest")}


@public()
def sort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Extreme:
    """Return the elements sorted along `dim`, and the indices that sort them, as (values, indices).

    Equal elements keep their order, and NaN counts as the largest.

    Args:
        input: tensor of real numbers.
        dim: dimension to sort along. Default: -1.
        descending: True for the largest first. Default: False.
        stable: ignored, since every sort is stable.

    Example:
        >>> values, indices = ad.sort(ad.tensor([3, 1, 2]))
        >>> values, indices
        (tensor([1, 2, 3]), tensor([1, 2, 0]))
    """
    if input.ndim == 0:
        return _scalar_extreme(input, return_types.sort)
    axis = one_dim(dim, input.ndim)
    found = _try_few(input, axis, input.array.shape[axis], bool(descending), return_types.sort)
    out = found or _gather_extremes(input, argsort(input, dim, descending), axis, True, return_types.sort)
    rename_node(out[0], "SortBackward0")
    return out


@public()
def argsort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """Return the indices that sort `input` along `dim`; equal elements keep their order."""
    check_ordered("sort", input)
    if not input.ndim:
        return _scalar_extreme(input, return_types.sort).indices
    return find_positions(indexing.argsort, input, axis=one_dim(dim, input.ndim), descending=descending)


@public()
@with_out
def msort(input: Tensor) -> Tensor:
    """Return the elements sorted along dimension 0."""
    return sort(input, 0).values


@public()
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Extreme:
    """Return the k largest elements along `dim`, and their indices, as (values, indices).

    Args:
        input: tensor of real numbers.
        k: how many.
        dim: dimension to look along. Default: -1.
        largest: False for the k smallest. Default: True.
        sorted: ignored, since the result is always in order.

    Raises: RuntimeError if k is negative or greater than the size of `dim`.

    Example:
        >>> ad.topk(ad.tensor([1.0, 5.0, 3.0]), 2).values
        tensor([5., 3.])
    """
    check_ordered("topk", input)
    axis = one_dim(dim, input.ndim)
    size = input.array.shape[axis] if input.ndim else 1
    if not 0 <= k <= size:
        raise RuntimeError(f"selected index k out of range: topk with k={k} along a dimension of size {size}")
    if not input.ndim:
        return _scalar_extreme(input, return_types.topk)
    out = _try_few(input, axis, k, bool(largest), return_types.topk)
    if out is None:
        leading = find_positions(ordering.leading, input, axis=axis, count=k, descending=largest)
        out = _gather_extremes(input, leading, axis, True, return_types.topk)
    rename_node(out[0], "TopkBackward0")
    return out


def _try_few(input: Tensor, axis: int, count: int, descending: bool, kind: type[Extreme]) -> Extreme | None:
    """Return the `count` leading elements and their indices if they are few, of short rows: by one native call."""
    x = input.array
    if (
        type(x) is not np.ndarray
        or not (type(count) is int and 0 < count <= MAX_INSERTED)
        or not (x.dtype in KERNEL_TYPES and kernel_provider.enabled)
        or (nondefault.count and thread_mode.needs_slow_path)
    ):
        return None
    rows = x if axis == x.ndim - 1 else x.swapaxes(axis, -1)
    shape = (*rows.shape[:-1], count)
    places, values = np.empty(shape, np.int64), np.empty(shape, x.dtype)
    if LEADING_KERNELS[descending].call(rows, places, values) is None:
        return None
    if rows is not x:
        places, values = (np.ascontiguousarray(found.swapaxes(axis, -1)) for found in (places, values))
    indices = wrap_unrecorded(places)
    if is_evaluated_alone(input):
        return kind(wrap_unrecorded(values), indices)
    return kind(indexing.gather(input, indices, computed=values, axis=axis), indices)


@public()
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Extreme:
    """Return the k-th smallest element along `dim`, from 1, and its index. Raises RuntimeError if k is too large."""
    check_ordered("kthvalue", input)
    k = index(k)
    axis = one_dim(dim, input.ndim)
    size = input.array.shape[axis] if input.ndim else 1
    _check_not_empty("kthvalue", input, dim, IndexError)
    if not 1 <= k <= size:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(axis))
    if not input.ndim:
        return _scalar_extreme(input, return_types.kthvalue)
    ranked = find_positions(ordering.index_at_rank, input, axis=axis, rank=k - 1)
    found = _gather_extremes(input, ranked, axis, keepdim, return_types.kthvalue)
    return return_types.kthvalue(rename_node(found.values, "KthvalueBackward0"), found.indices)


@public()
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the lower of the two middle elements, NaN if one is; with `dim` the pair (values, indices).

    Of the whole tensor, elements that equal the median share the gradient.
    """
    return _median(input, dim, keepdim, False)


@public()
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return `median` of what is not NaN."""
    return _median(input, dim, keepdim, True)


def _median(input: Tensor, dim: int | None, keepdim: bool, ignore_nan: bool) -> Tensor | Extreme:
    check_ordered("median", input)
    kind = "NanmedianBackward" if ignore_nan else "MedianBackward"
    pair = return_types.nanmedian if ignore_nan else return_types.median
    if dim is None:
        return rename_node(_median_of_all(ravel(input), ignore_nan), kind + "0")
    axis = one_dim(dim, input.ndim)
    _check_not_empty("median", input, dim, RuntimeError)
    if not input.ndim:
        return _scalar_extreme(input, pair)
    found = _gather_extremes(
        input, find_positions(ordering.median_index, input, axis=axis, ignore_nan=ignore_nan), axis, keepdim, pair
    )
    return pair(rename_node(found.values, kind + "1"), found.indices)


def _median_of_all(flat: Tensor, ignore_nan: bool) -> Tensor:
    if not flat.numel():
        if flat.array.dtype.kind not in "fV":
            raise RuntimeError(f"median(): an empty tensor of {flat.dtype} has no median: there is no NaN among them")
        return arithmetic.add(reduction.sum(flat, axes=(0,), keepdims=False), np.array(np.nan, flat.array.dtype))
    array = flat.array
    is_small = type(array) is np.ndarray and array.dtype.kind != "V" and array.size <= indexing.MAX_SORTED_SIZE
    if is_small and is_evaluated_alone(flat):
        return wrap_unrecorded(np.asarray(ordering.find_median(array, ignore_nan)))
    at = find_positions(ordering.median_index, flat, axis=0, ignore_nan=ignore_nan)
    value = indexing.gather(flat.detach(), at, axis=0)
    if is_evaluated_alone(flat) and type(array) is np.ndarray:
        return movement.reshape_unshared(value, ())
    same = comparison.logical_or(
        comparison.eq(flat.detach(), value),
        comparison.logical_and(comparison.isnan(flat.detach()), comparison.isnan(value)),
    )
    if flat.array.dtype.kind not in "fV":
        return movement.reshape(value, shape=())
    share = select.cast(same, dtype=flat.array.dtype)
    share = arithmetic.div(share, reduction.sum(share, axes=(0,), keepdims=True))
    chosen = select.where(same, flat, np.zeros((), flat.array.dtype))
    out = reduction.sum(arithmetic.mul(chosen, share), axes=(0,), keepdims=False)
    value = movement.reshape(value, shape=())
    missed = arithmetic.sub(value, out.detach())  # what rounding took, added back where it is finite
    return arithmetic.add(out, select.where(comparison.isfinite(missed), missed, np.zeros((), value.array.dtype)))


@public()
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Extreme:
    """Return the most frequent element along `dim`, the smallest of these, and the index of its last occurrence."""
    check_ordered("mode", input)
    axis = one_dim(dim, input.ndim)
    if not input.ndim:
        return _scalar_extreme(input, return_types.mode)
    _check_not_empty("mode", input, dim, IndexError)
    found = _gather_extremes(input, ordering.most_frequent(input.detach(), axis=axis), axis, keepdim, return_types.mode)
    return return_types.mode(rename_node(found.values, "ModeBackward0"), found.indices)


@public()
@autocast_float32
def quantile(
    input: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Return the q-quantiles along `dim`, or of all elements; between two elements by `interpolation`.

    Raises RuntimeError for a q outside [0, 1]. Several q stand in a dimension of their own, the first.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@public()
@autocast_float32
def nanquantile(
    input: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Return `quantile` of what is not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


RANK_ROUNDING: dict[str, Function | None] = {
    "linear": None,
    "midpoint": None,
    "lower": arithmetic.floor,
    "higher": arithmetic.ceil,
    "nearest": arithmetic.round,
}


def _quantile(
    name: str, input: Tensor, q: Tensor | float, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Tensor:
    if input.array.dtype.kind not in "fV":
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if interpolation not in RANK_ROUNDING:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if isinstance(q, Tensor) and q.array.dtype != input.array.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor, got {q.dtype} and {input.dtype}")
    wanted, single = _parse_quantiles(q, name)
    x = ravel(input) if dim is None else input
    axis = one_dim(0 if dim is None else dim, x.ndim)
    if not x.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    x = x if x.ndim else movement.reshape(x, shape=(1,))
    values: Operand = sort(x, axis).values
    whole, real = np.dtype(np.int64), np.dtype(np.float64)
    end = x.array.shape[axis] - 1
    missing = reduction.sum(select.cast(comparison.isnan(values.detach()), dtype=whole), axes=(axis,), keepdims=True)
    left_out = missing if ignore_nan else arithmetic.mul(missing, 0)
    last = arithmetic.maximum(arithmetic.sub(end, left_out), 0)
    rounding, results = RANK_ROUNDING[interpolation], []
    for one in wanted:
        place = arithmetic.mul(select.cast(last, dtype=real), one)
        if rounding is not None:
            place = rounding(place)
        if not ignore_nan:  # NaN comes last in the order
            place = select.where(comparison.gt(missing, 0), as_float(end), place)
        low, high = (select.cast(rounded(place), dtype=whole) for rounded in (arithmetic.floor, arithmetic.ceil))
        if interpolation == "midpoint":
            part = arithmetic.mul(select.cast(comparison.ne(low, high), dtype=real), 0.5)
        else:
            part = arithmetic.sub(place, low)
        below, above = (indexing.gather(values, at, axis=axis) for at in (low, high))
        weight = select.cast(part, dtype=values.array.dtype)
        results.append(arithmetic.add(below, arithmetic.mul(arithmetic.sub(above, below), weight)))
    if dim is None:
        full = (1,) * input.ndim if keepdim else ()
    else:
        full = tuple(1 if d == axis else n for d, n in enumerate(input.array.shape) if keepdim or d != axis)
    results = [movement.reshape(r, shape=full) for r in results]
    if single:
        return results[0]
    if not results:
        return constant(np.zeros((0, *full), input.array.dtype))
    rows = [movement.reshape(r, shape=(1, *full)) for r in results]
    return movement.cat(*rows, axis=0)


def _parse_quantiles(q: Tensor | float, name: str) -> tuple[list[float], bool]:
    """Return the orders one by one, numbers or float64 tensors, and whether there is but one, not in a sequence."""
    if not isinstance(q, Tensor):
        wanted = np.asarray(q, np.float64)
        if not np.all((wanted >= 0) & (wanted <= 1)):
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        return wanted.reshape(-1).tolist(), not wanted.ndim
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    complaint = f"{name}() q values must be in the range [0, 1]"
    inside = comparison.logical_and(comparison.ge(q.detach(), 0.0), comparison.le(q.detach(), 1.0))
    whole = select.cast(inside, dtype=np.dtype(np.int64))
    indexing.check_range(whole, 2, complaint, low=1, error=RuntimeError)
    wide = movement.reshape(select.cast(q, dtype=np.dtype(np.float64)), shape=(q.numel(),))
    return [movement.select(wide, axis=0, at=i) for i in range(q.numel())], not q.ndim


def find_distinct(x: Tensor, axis: int, consecutive: bool, only_first: bool) -> tuple[Tensor, ...]:
    """Return positions of the distinct slices along `axis`, which of them each slice is, and their counts."""
    found = _find_distinct_rows(np.moveaxis(x.numpy_view("unique()"), axis, 0), consecutive, only_first)
    return tuple([wrap(array.astype(np.int64, copy=False)) for array in found])


def _find_distinct_rows(rows: Array, consecutive: bool, only_first: bool) -> tuple[Array, ...]:
    rows = rows.reshape(rows.shape[0], prod(rows.shape[1:]))
    if consecutive:
        new = np.r_[True, (rows[1:] != rows[:-1]).any(1)] if len(rows) else np.zeros(0, bool)
        inverse = np.cumsum(new) - 1
        return np.flatnonzero(new), inverse, np.bincount(inverse, minlength=int(new.sum()))
    if rows.shape[1] == 1:
        return _find_distinct_elements(rows[:, 0], only_first)
    _, first, inverse, counts = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return first, inverse.reshape(-1), counts


def _find_distinct_elements(x: Array, only_first: bool) -> tuple[Array, ...]:
    """Return what `find_distinct` does, of a vector; nothing but the positions if that is enough."""
    order = op_of(indexing.argsort).evaluate(x, axis=0, descending=False)
    sorted_x = x[order]
    new = np.ones(len(x), np.bool_)
    np.not_equal(sorted_x[1:], sorted_x[:-1], out=new[1:])
    starts = new.nonzero()[0]
    if only_first:
        return (order[starts],)
    counts = np.empty(len(starts), np.int64)
    np.subtract(starts[1:], starts[:-1], out=counts[:-1])
    counts[-1:] = len(x) - starts[-1:]
    inverse = np.empty(len(x), np.int64)
    inverse[order] = np.add.accumulate(new, dtype=np.int64) - 1
    return order[starts], inverse, counts


def _unique(
    input: Tensor, dim: int | None, return_inverse: bool, return_counts: bool, consecutive: bool
) -> Tensor | tuple[Tensor, ...]:
    check_ordered("unique", input)
    x = ravel(input) if dim is None else input
    axis, only_first = 0 if dim is None else one_dim(dim, x.ndim), not (return_inverse or return_counts)
    if only_first and dim is None and not consecutive and type(x.array) is np.ndarray and is_evaluated_alone(x):
        return wrap_unrecorded(ordering.sort_distinct(x.array))
    first, *others = call_on_values(lambda x: find_distinct(x, axis, consecutive, only_first), x.detach())
    values = rename_node(indexing.index(x, first, pattern=(None,) * axis + (0,)), "UniqueBackward0")
    if only_first:
        return values
    inverse, counts = others
    if dim is None:
        inverse = movement.reshape(inverse, shape=input.array.shape)
    return values, *(places for wanted, places in ((return_inverse, inverse), (return_counts, counts)) if wanted)


@public()
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the distinct elements in ascending order, or the distinct slices along `dim`.

    Returns: the values; with `return_inverse` or `return_counts` a tuple of them and the tensors asked for, in int64.

    Args:
        input: tensor of real numbers.
        sorted: ignored, since the result is always in order.
        return_inverse: True to return for each element its place among the values. Default: False.
        return_counts: True to return how often each value occurs. Default: False.
        dim: dimension whose slices are compared. Default: None, single elements.

    Example:
        >>> ad.unique(ad.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
    return _unique(input, dim, return_inverse, return_counts, False)


@public()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the first of each run of equal elements, or slices along `dim`; otherwise as `unique`."""
    return _unique(input, dim, return_inverse, return_counts, True)


@with_out
def searchsorted(
    sorted_sequence: Tensor,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return where each element of `input` belongs in the sorted last dimension: before its equals, or after them.

    Raises: RuntimeError unless the leading sizes agree, and for a `side` that contradicts `right`.
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    ordered = _detach_or_rewrap(sorted_sequence)
    if not ordered.ndim:
        raise RuntimeError("torch.searchsorted(): boundaries tensor should have at least 1 dimension, but it is 0-d")
    if sorter is not None:
        ordered = indexing.gather(ordered, sorter, axis=ordered.ndim - 1)
    values: Operand = _detach_or_rewrap(input) if isinstance(input, Tensor) else constant(np.asarray(input))
    if ordered.ndim > 1 and ordered.array.shape[:-1] != values.array.shape[:-1]:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(ordered.shape)} and input "
            f"value tensor {list(values.shape)}"
        )
    kind = np.dtype(np.int32 if out_int32 else np.int64)
    return ordering.searchsorted(ordered, values, right=right or side == "right", dtype=kind)


@with_out
def bucketize(input: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Return the number of the interval between `boundaries` in which each element lies.

    Raises: RuntimeError unless `boundaries` is a vector.
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@with_out
def isin(
    elements: Tensor, test_elements: Tensor | float, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Return True where an element is among `test_elements`."""
    x, among = (v.detach() if isinstance(v, Tensor) else constant(np.asarray(v)) for v in (elements, test_elements))
    return ordering.isin(x, among, unique=assume_unique, invert=invert)
