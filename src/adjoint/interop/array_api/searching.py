"""Positions, order, distinct elements, and elements at positions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from adjoint.core.op.apply import apply
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.indexing import gather, masked_nonzero
from adjoint.functions.reduction import reduce as folded
from adjoint.functions.reduction import sort_quantile_unique
from adjoint.interop.array_api.operands import cast_to, normalize_axes, promote_operands
from adjoint.ops.elementwise import comparison, select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction

__all__ = [
    "argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted", "sort", "take", "take_along_axis",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
]  # fmt: skip

INDEX_DTYPE = np.dtype(np.int64)
_index: Any = indexing.index
_index_op = _index.op


class UniqueAllResult(NamedTuple):
    """Result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCountsResult(NamedTuple):
    """Result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverseResult(NamedTuple):
    """Result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the first largest element along `axis`, or of the flattened tensor."""
    return folded.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the first smallest element along `axis`, or of the flattened tensor."""
    return folded.argmin(x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """Count the elements over `axis` that are not zero."""
    truths = select.cast(comparison.ne(x.detach(), 0), dtype=INDEX_DTYPE)
    return reduction.sum(truths, axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The positions of the elements that are not zero, one vector for each dimension. Raises ValueError for 0-d."""
    if not x.ndim:
        raise ValueError("nonzero: a 0-d tensor has no positions")
    positions: tuple[Tensor, ...] = masked_nonzero.nonzero(x, as_tuple=True)
    return positions


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Positions at which each of x2 would be put into the sorted vector x1: before ("left") or after its equals."""
    ordered, values = promote_operands("searchsorted", x1, x2)
    order = None if sorter is None else cast_to(sorter, INDEX_DTYPE)
    return sort_quantile_unique.searchsorted(ordered, values, side=side, sorter=order)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """x1 where `condition`, else x2; of numbers alone in their default type."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        out: Tensor = select.choose(condition, x1, x2)
        return out
    chosen: Tensor = select.choose(condition, *promote_operands("where", x1, x2))
    return chosen


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Indices that sort x along `axis`; equal elements keep their order."""
    return sort_quantile_unique.argsort(x, axis, descending, stable=stable)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """x sorted along `axis`."""
    return sort_quantile_unique.sort(x, axis, descending, stable=stable).values


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices of x along `axis` at the positions `indices`, which may be omitted for vectors.

    Raises ValueError for several dimensions without an axis, IndexError outside of the dimension.
    """
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: a tensor of {x.ndim} dimensions needs an axis")
    d = one_dim(0 if axis is None else axis, x.ndim)
    size = x.array.shape[d]
    positions = cast_to(indices, INDEX_DTYPE)
    indexing.check_range(positions, size, f"take: index {{}} is out of bounds for axis {d} of size {size}")
    return apply(_index_op, (x, positions), {"pattern": (None,) * d + (0,)})


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """out[i…] = x[i…] with `indices[i…]` for the index along `axis`; other dimensions broadcast."""
    d = one_dim(axis, x.ndim)
    size = x.array.shape[d]
    positions = cast_to(indices, INDEX_DTYPE)
    indexing.check_range(positions, size, f"take_along_axis: index {{}} is out of bounds for axis {d} of size {size}")
    from_front: Any = select.where(comparison.lt(positions, 0), positions + size, positions)
    return gather.take_along_dim(x, from_front, d)


def unique_all(x: Tensor, /) -> UniqueAllResult:
    """The distinct elements, where each is first, which one each element is, and how many each has."""
    flat = movement.reshape(x, shape=(x.numel(),))
    _, first, inverse, counts = np.unique(
        flat.numpy_view("unique()"), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    positions = constant(first.astype(INDEX_DTYPE))
    values = apply(_index_op, (flat, positions), {"pattern": (0,)})
    elements = constant(inverse.reshape(x.array.shape).astype(INDEX_DTYPE))
    multiplicities = constant(counts.astype(INDEX_DTYPE))
    return UniqueAllResult(values, positions, elements, multiplicities)


def unique_counts(x: Tensor, /) -> UniqueCountsResult:
    """The distinct elements, and how many each has."""
    unique = unique_all(x)
    return UniqueCountsResult(unique.values, unique.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverseResult:
    """The distinct elements, and which one each element is."""
    unique = unique_all(x)
    return UniqueInverseResult(unique.values, unique.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements; each NaN is one."""
    return unique_all(x).values
