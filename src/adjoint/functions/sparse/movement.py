"""Shapes of sparse tensors: transposes, slices, joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from adjoint.core.tensor.memory_format import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Operand
from adjoint.functions.shape.join import cat as cat_dense
from adjoint.functions.sparse.conversion import coalesce, convert_like, take_rows, to_coo, to_dense
from adjoint.functions.sparse.reduction import normalize_dims
from adjoint.functions.sparse.sparse_tensor import SparsePattern, SparseTensor, handles, make_sparse, replace_content

TRANSPOSED_LAYOUTS = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr}


@handles("permute")
def permute(input: SparseTensor, *dims: Operand) -> SparseTensor:
    """Return the tensor with its dimensions in another order; sparse dimensions stay before dense ones."""
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = normalize_dims("permute", tuple(given), input.ndim)
    if len(order) != input.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(order)}"
        )
    if order == tuple(range(input.ndim)):
        return input
    pattern = input.pattern
    if pattern.compressed is not None:
        return _transpose_compressed(input, order)
    count = pattern.sparse_dim
    if sorted(order[:count]) != list(range(count)):
        raise RuntimeError(
            f"permute: sparse dimensions cannot change places with dense ones; the first {count} are sparse, the "
            f"order is {list(order)}"
        )
    values: Operand = input.entries
    if order[count:] != tuple(range(count, input.ndim)):
        values = values.permute(0, *(d - count + 1 for d in order[count:]))
    indices = wrap(np.ascontiguousarray(pattern.arrays[list(order[:count])]))
    shape = tuple(pattern.shape[d] for d in order)
    kept = pattern.is_coalesced and order[:count] == tuple(range(count))
    return make_sparse(SparsePattern(sparse_coo, shape, indices, kept), values)


def _transpose_compressed(x: SparseTensor, order: tuple[int, ...]) -> SparseTensor:
    pattern = x.pattern
    k = len(pattern.batch)
    if order != (*range(k), k + 1, k, *range(k + 2, x.ndim)):
        raise RuntimeError(f"permute: only rows and columns of a tensor of the layout {x.layout!r} change places")
    shape = tuple(pattern.shape[d] for d in order)
    values: Operand = x.entries.transpose(1, 2) if pattern.block else x.entries
    indices = wrap(pattern.arrays[[*range(k), k + 1, k]])
    layout, block = TRANSPOSED_LAYOUTS[x.layout], pattern.block[::-1]
    made = replace(pattern, layout=layout, shape=shape, indices=indices, is_coalesced=False, block=block)
    return make_sparse(made, values)


@handles("transpose", "swapaxes", "swapdims")
def transpose(input: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    """Return the tensor with two dimensions exchanged."""
    first, second = (normalize_dims("transpose", d, input.ndim)[0] for d in (dim0, dim1))
    order = list(range(input.ndim))
    order[first], order[second] = order[second], order[first]
    return permute(input, order)


@handles("t", "T", "mT")
def t(input: SparseTensor) -> SparseTensor:
    """Return the transposed matrix. Raises RuntimeError for more than two dimensions."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return input if input.ndim < 2 else permute(input, (1, 0))


@handles("t_")
def t_(x: SparseTensor) -> SparseTensor:
    """Transpose in place."""
    return replace_content(x, t(x))


@handles("transpose_")
def transpose_(x: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    """Exchange two dimensions in place."""
    return replace_content(x, transpose(x, dim0, dim1))


@handles("unsqueeze")
def unsqueeze(input: SparseTensor, dim: int) -> SparseTensor:
    """Return the tensor with a dimension of size 1 more, at `dim`."""
    (place,) = normalize_dims("unsqueeze", dim, input.ndim + 1)
    if input.layout is not sparse_coo:
        raise RuntimeError(f"unsqueeze: a tensor of the layout {input.layout!r} has no strides; take x.to_sparse()")
    x = to_coo(input)
    pattern, values = x.pattern, x.entries
    shape = (*pattern.shape[:place], 1, *pattern.shape[place:])
    if place > pattern.sparse_dim:
        return make_sparse(
            SparsePattern(sparse_coo, shape, pattern.indices, pattern.is_coalesced),
            values.unsqueeze(place - pattern.sparse_dim + 1),
        )
    indices = np.insert(pattern.arrays, place, 0, axis=0)
    return make_sparse(SparsePattern(sparse_coo, shape, wrap(indices), pattern.is_coalesced), values)


@handles("squeeze")
def squeeze(input: SparseTensor, dim: int | Sequence[int] | None = None) -> SparseTensor:
    """Return the tensor without dimensions of size 1: all, or those of `dim`."""
    dims = range(input.ndim) if dim is None else normalize_dims("squeeze", dim, input.ndim)
    x: Operand = to_coo(input)
    for d in sorted((d for d in dims if input.shape[d] == 1), reverse=True):
        x = select(x, d, 0)
    return x


@handles("select")
def select(input: Operand, dim: int, index: int) -> Operand:
    """Return the part at one index of a dimension: sparse, or dense if no sparse dimension is left."""
    (axis,) = normalize_dims("select", dim, input.ndim)
    size = input.shape[axis]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {axis}"
        )
    layout, x = input.layout, to_coo(input)
    pattern, values = x.pattern, x.entries
    count, shape = pattern.sparse_dim, pattern.shape[:axis] + pattern.shape[axis + 1 :]
    if axis >= count:
        kept = SparsePattern(sparse_coo, shape, pattern.indices, pattern.is_coalesced)
        return make_sparse(kept, values.select(axis - count + 1, index))
    places = np.flatnonzero(pattern.arrays[axis] == index % size)
    taken: Operand = take_rows(values, places)
    if count == 1:
        return taken.sum(0).to(input.dtype)
    rows = np.delete(pattern.arrays, axis, 0)[:, places]
    out = make_sparse(SparsePattern(sparse_coo, shape, wrap(rows), pattern.is_coalesced), taken)
    return out if layout is sparse_coo or len(shape) > 1 else to_dense(out)


def slice_dim(x: SparseTensor, axis: int, start: int, stop: int, step: int) -> SparseTensor:
    """Return the part of a slice of one dimension."""
    pattern, values = x.pattern, x.entries
    length = len(range(start, stop, step))
    shape = (*pattern.shape[:axis], length, *pattern.shape[axis + 1 :])
    if axis >= pattern.sparse_dim:
        index = (slice(None),) * (axis - pattern.sparse_dim + 1) + (slice(start, stop, step),)
        kept = SparsePattern(sparse_coo, shape, pattern.indices, pattern.is_coalesced)
        return make_sparse(kept, values[index])
    row = pattern.arrays[axis]
    places = np.flatnonzero((row >= start) & (row < stop) & ((row - start) % step == 0))
    rows = pattern.arrays[:, places]
    rows[axis] = (rows[axis] - start) // step
    return make_sparse(SparsePattern(sparse_coo, shape, wrap(rows), pattern.is_coalesced), take_rows(values, places))


@handles("narrow")
def narrow(input: SparseTensor, dim: int, start: int, length: int) -> SparseTensor:
    """Return `length` indices of a dimension from `start` on."""
    (axis,) = normalize_dims("narrow", dim, input.ndim)
    size = input.shape[axis]
    first = start % size if -size <= start < 0 else start
    if not 0 <= first <= first + length <= size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return convert_like(slice_dim(to_coo(input), axis, first, first + length, 1), input)


@handles("index_select")
def index_select(input: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    """Return the parts at the indices of a dimension, each as often as it is named."""
    (axis,) = normalize_dims("index_select", dim, input.ndim)
    chosen: Array = index.numpy_view("index_select()").astype(np.int64)
    size = input.shape[axis]
    if chosen.size and not (-size <= chosen.min() and chosen.max() < size):
        raise IndexError(f"index_select(): index out of range for dimension {axis} of size {size}")
    chosen = chosen % size if size else chosen
    x = to_coo(input)
    pattern = x.pattern
    shape = (*pattern.shape[:axis], len(chosen), *pattern.shape[axis + 1 :])
    if axis >= pattern.sparse_dim:
        kept = SparsePattern(sparse_coo, shape, pattern.indices, pattern.is_coalesced)
        values = x.entries.index_select(axis - pattern.sparse_dim + 1, wrap(chosen))
        return make_sparse(kept, values)
    row = pattern.arrays[axis]
    order = np.argsort(row, kind="stable")
    places, repeated = join_ranges(*(np.searchsorted(row[order], chosen, side) for side in ("left", "right")))
    places = order[places]
    rows = pattern.arrays[:, places]
    rows[axis] = repeated
    out = make_sparse(SparsePattern(sparse_coo, shape, wrap(rows)), take_rows(x.entries, places))
    return convert_like(coalesce(out) if pattern.is_coalesced else out, input)


def join_ranges(starts: Array, stops: Array) -> tuple[Array, Array]:
    """Return the numbers of all ranges, one after the other, and the number of the range that each comes from."""
    lengths = stops - starts
    source = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(len(source)) - before[source] + starts[source], source


@handles("__getitem__")
def getitem(input: SparseTensor, key: Operand) -> Operand:
    """Return the part at integers, slices with a positive step, `...`, None, or one tensor of integers.

    Raises IndexError for other keys.
    """
    keys = key if isinstance(key, tuple) else (key,)
    named = len([k for k in keys if k is not None and k is not Ellipsis])
    if Ellipsis in [k for k in keys if not isinstance(k, Tensor)]:
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        keys = (*keys[:at], *(slice(None),) * (input.ndim - named), *keys[at + 1 :])
    if named > input.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input.ndim}")
    x: Operand = to_coo(input)
    axis = 0
    for k in keys:
        x, axis = _apply_key(x, axis, k)
    return convert_like(x, input) if isinstance(x, SparseTensor) and x.ndim == 2 and not input.is_sparse else x


def _apply_key(x: Operand, axis: int, key: Operand) -> tuple[Operand, int]:
    """Return the part of `x`, sparse or dense by now, at one part of a key, and the dimension of the next part."""
    if not isinstance(x, SparseTensor):
        part = x[(slice(None),) * axis + (key,)]
        return part, axis + (not isinstance(key, (int, np.integer)))
    if key is None:
        return unsqueeze(x, axis), axis + 1
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return select(x, axis, int(key)), axis
    if isinstance(key, slice):
        start, stop, step = key.indices(x.shape[axis])
        if step < 1:
            raise ValueError("step must be greater than zero")
        return x if key == slice(None) else slice_dim(x, axis, start, stop, step), axis + 1
    if isinstance(key, (Tensor, list, np.ndarray)):
        index = key if isinstance(key, Tensor) else wrap(np.asarray(key))
        if index.ndim != 1 or index.array.dtype.kind not in "iu":
            raise IndexError("a sparse tensor is indexed by one row of integers; masks: x.to_dense()")
        return index_select(x, axis, index), axis + 1
    raise IndexError(f"a sparse tensor cannot be indexed by {type(key).__name__}")


@handles("cat", "concat", "concatenate")
def cat(tensors: Sequence[Operand], dim: int = 0) -> SparseTensor:
    """Return the sparse tensors joined along a dimension."""
    if not all(isinstance(x, SparseTensor) for x in tensors):
        raise RuntimeError("cat: sparse and dense tensors cannot be joined; convert with to_dense() or to_sparse()")
    parts = [to_coo(x) for x in tensors]
    first = parts[0]
    (axis,) = normalize_dims("cat", dim, first.ndim)
    rest = [(*p.shape[:axis], *p.shape[axis + 1 :]) for p in parts]
    if any(r != rest[0] or p.sparse_dim() != first.sparse_dim() for r, p in zip(rest, parts, strict=True)):
        raise RuntimeError(f"cat: shapes differ in other dimensions than {axis}: {[list(p.shape) for p in parts]}")
    total = sum(p.shape[axis] for p in parts)
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    moved, before = [], 0
    dense_axis = axis - first.sparse_dim()
    values = [p.entries for p in parts]
    for p in parts:
        rows = p.pattern.arrays.copy()
        if dense_axis < 0:
            rows[axis] += before
        before += p.shape[axis]
        moved.append(rows)
    if dense_axis >= 0:
        values = [_pad_dense(p, dense_axis, i, parts) for i, p in enumerate(parts)]
    pattern = SparsePattern(sparse_coo, shape, wrap(np.concatenate(moved, 1)))
    out = make_sparse(pattern, cat_dense(values))
    return convert_like(out if tensors[0].is_sparse else coalesce(out), tensors[0])


def _pad_dense(part: SparseTensor, axis: int, number: int, parts: Sequence[SparseTensor]) -> Tensor:
    """Return the values with zeros where the other parts have theirs along a dense dimension."""
    sizes = [p.entries.shape[axis + 1] for p in parts]
    zeros = []
    for size in (sum(sizes[:number]), sum(sizes[number + 1 :])):
        shape = list(part.entries.shape)
        shape[axis + 1] = size
        zeros.append(wrap(np.zeros(shape, part.entries.array.dtype)))
    return cat_dense([zeros[0], part.entries, zeros[1]], axis + 1)


@handles("stack")
def stack(tensors: Sequence[Operand], dim: int = 0) -> SparseTensor:
    """Return the sparse tensors joined along a new dimension."""
    return cat([unsqueeze(x, dim) for x in tensors], dim)


@handles("sparse_resize_")
def sparse_resize_(x: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> SparseTensor:
    """Give a coordinate tensor another size, in place: one that has room for its values, of as many dimensions."""
    x._require_coo("sparse_resize_")
    size, same = tuple(size), (sparse_dim, dense_dim) == (x.sparse_dim(), x.dense_dim())
    if not x._nnz():
        return sparse_resize_and_clear_(x, size, sparse_dim, dense_dim)
    if not same or len(size) != x.ndim or any(n < m for n, m in zip(size, x.shape, strict=True)):
        raise RuntimeError(
            f"sparse_resize_: a tensor with values keeps its {x.sparse_dim()} sparse and {x.dense_dim()} dense "
            f"dimensions and does not shrink; {list(x.shape)} to {list(size)} with {sparse_dim} and {dense_dim} is not "
            "supported"
        )
    if size[sparse_dim:] != tuple(x.shape[sparse_dim:]):
        raise NotImplementedError("sparse_resize_: dense dimensions do not grow; make a tensor with padded values")
    pattern = SparsePattern(sparse_coo, size, x.pattern.indices, x.pattern.is_coalesced)
    return replace_content(x, make_sparse(pattern, x.entries))


@handles("sparse_resize_and_clear_")
def sparse_resize_and_clear_(x: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> SparseTensor:
    """Give a coordinate tensor another size and number of sparse dimensions, in place, and remove its values."""
    x._require_coo("sparse_resize_and_clear_")
    size = tuple(size)
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {len(size)}"
        )
    values = wrap(np.zeros((0, *size[sparse_dim:]), x.entries.array.dtype))
    pattern = SparsePattern(sparse_coo, size, wrap(np.zeros((sparse_dim, 0), np.int64)), True)
    return replace_content(x, make_sparse(pattern, values))


@handles("resize_as_sparse_")
def resize_as_sparse_(x: SparseTensor, other: SparseTensor) -> SparseTensor:
    """Give a coordinate tensor the size and the sparse dimensions of another, in place."""
    if not isinstance(other, SparseTensor):
        raise RuntimeError("resize_as_sparse_: expected a sparse tensor; x.to_sparse() makes one")
    return sparse_resize_(x, other.shape, other.sparse_dim(), other.dense_dim())
