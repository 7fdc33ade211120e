"""Reductions of sparse tensors: sums, norms, and softmax over the values that are there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjoint.core.tensor.memory_format import sparse_coo
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, DtypeLike, Operand
from adjoint.functions.sparse.conversion import add_rows, coalesce, convert_like, take_rows, to_coo
from adjoint.functions.sparse.row_gradient import sums_of_rows
from adjoint.functions.sparse.sparse_tensor import SparsePattern, SparseTensor, handles, make_sparse, with_values


def normalize_dims(name: str, dim: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return dimensions as numbers from 0. Raises IndexError for one that is not there, RuntimeError for a repeated."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    for d in dims:
        if not -rank <= d < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})")
    found = tuple(d % rank for d in dims)
    if len(set(found)) < len(found):
        raise RuntimeError(f"{name}: dim {list(dims)} names a dimension twice")
    return found


@handles("sum")
def sum(
    input: SparseTensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: DtypeLike = None
) -> Operand:
    """Return the sum over dimensions: a number for all, dense if no sparse dimension is left, else sparse."""
    values: Operand = input.entries if dtype is None else input.entries.to(dtype)
    dims = None if dim is None or dim == () else normalize_dims("sum", dim, input.ndim)
    if dims is None and not keepdim:
        return values.sum()
    x = to_coo(with_values(input, values))
    values, sparse_dim = x.entries, x.sparse_dim()
    dims = tuple(range(x.ndim)) if dims is None else dims
    dense = [d - sparse_dim + 1 for d in dims if d >= sparse_dim]
    if dense:
        values = values.sum(dense, keepdim=keepdim)
    gone = [d for d in dims if d < sparse_dim]
    if len(gone) == sparse_dim:
        total = values.sum(0)
        return total.reshape((1,) * sparse_dim + tuple(total.shape)) if keepdim else total
    if input.dtype.itemsize and values.array.dtype.kind in "bui" and dtype is None:
        values = values.long()
    kept = [d for d in range(sparse_dim) if d not in gone]
    shape = tuple(x.shape[d] for d in kept) + tuple(values.shape[1:])
    indices = np.ascontiguousarray(x.pattern.arrays[kept])
    if keepdim:
        indices = x.pattern.arrays.copy()
        indices[gone] = 0
        shape = tuple(1 if d in gone else x.shape[d] for d in range(sparse_dim)) + tuple(values.shape[1:])
    unsorted = SparsePattern(sparse_coo, shape, wrap(indices), not gone and x.pattern.is_coalesced)
    total = coalesce(make_sparse(unsorted, values))
    return total if input.is_sparse or total.sparse_dim() != 2 else convert_like(total, input)


@handles("mean")
def mean(input: SparseTensor, dim: Operand = None, keepdim: bool = False, *, dtype: DtypeLike = None) -> Operand:
    """Return the mean over dimensions, zeros included."""
    dims = range(input.ndim) if dim is None or dim == () else normalize_dims("mean", dim, input.ndim)
    count = int(np.prod([input.shape[d] for d in dims], dtype=np.int64))
    total = sum(input, dim, keepdim, dtype=dtype)
    return total / count


@handles("norm", "vector_norm", "matrix_norm")
def norm(
    input: SparseTensor,
    p: Operand = 2,
    dim: Operand = None,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    **_: Operand,
) -> Tensor:
    """Return the norm of all values. Raises RuntimeError for a norm along dimensions."""
    if dim is not None and len(normalize_dims("norm", dim, input.ndim)) < input.ndim:
        raise RuntimeError("norm: only the norm of the whole sparse tensor is there, without dim")
    order = 2 if p in ("fro", None) else p
    if input.pattern.is_symbolic:
        values: Operand = sums_of_rows(input)
    else:
        values = coalesce(input).entries if input.is_sparse else input.entries
    return values.reshape(-1).norm(order, dtype=dtype)


@handles("any")
def any(input: SparseTensor) -> Tensor:
    """Return whether a value is not zero."""
    return (coalesce(input) if input.is_sparse else input).entries.any()


@handles("softmax", "_sparse_softmax")
def softmax(input: SparseTensor, dim: int, _stacklevel: int = 3, dtype: DtypeLike = None) -> SparseTensor:
    """Return softmax along a dimension over the values that are there: what is not stored counts as minus infinity."""
    return _apply_along("softmax", input, dim, dtype)


@handles("log_softmax", "_sparse_log_softmax")
def log_softmax(input: SparseTensor, dim: int, _stacklevel: int = 3, dtype: DtypeLike = None) -> SparseTensor:
    """Return the logarithm of `softmax`."""
    return _apply_along("log_softmax", input, dim, dtype)


def _apply_along(name: str, input: SparseTensor, dim: int, dtype: DtypeLike) -> SparseTensor:
    (axis,) = normalize_dims(name, dim, input.ndim)
    x = coalesce(to_coo(input))
    values: Operand = x.entries if dtype is None else x.entries.to(dtype)
    sparse_dim = x.sparse_dim()
    if axis >= sparse_dim:
        return with_values(x, getattr(values, name)(axis - sparse_dim + 1))
    groups, count = _groups_without(x.pattern, axis)
    high = np.full((count, *values.array.shape[1:]), -np.inf, values.array.dtype)
    np.maximum.at(high, groups, values.detach().numpy_view(name))
    shifted = values - take_rows(wrap(high), groups)
    powers = shifted.exp()
    totals: Operand = add_rows(powers, groups, count)
    if name == "softmax":
        return convert_like(with_values(x, powers / take_rows(totals, groups)), input)
    return convert_like(with_values(x, shifted - take_rows(totals.log(), groups)), input)


def _groups_without(pattern: SparsePattern, axis: int) -> tuple[Array, int]:
    """Return for each value the number of its group, of those that differ in the index `axis` only; their count."""
    others = [d for d in range(pattern.sparse_dim) if d != axis]
    rows = pattern.arrays[others]
    keys = np.zeros(pattern.count, np.int64)
    for row, d in zip(rows, others, strict=True):
        keys = keys * pattern.shape[d] + row
    different, inverse = np.unique(keys, return_inverse=True)
    return inverse.reshape(-1), len(different)
