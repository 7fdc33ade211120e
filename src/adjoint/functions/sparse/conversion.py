"""Conversions of sparse tensors: to dense and back, between layouts and types; coalescing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from adjoint.core.tensor.memory_format import layout as Layout
from adjoint.core.tensor.memory_format import sparse_coo, sparse_csc, sparse_csr, strided
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, DtypeLike, Operand
from adjoint.functions.api.publish import rename_node
from adjoint.functions.creation.creation import zeros
from adjoint.functions.sparse.sparse_tensor import (
    BLOCK_LAYOUTS,
    ROW_LAYOUTS,
    SparsePattern,
    SparseTensor,
    empty_of,
    handles,
    make_sparse,
    ravel_keys,
    replace_content,
    with_values,
)
from adjoint.ops.indexing import indexing
from adjoint.ops.indexing.nonzero import find_nonzero


def take_rows(values: Tensor, places: Array) -> Tensor:
    """Return the values at `places`, differentiably."""
    return indexing.index(values, wrap(places), pattern=(0,))


def add_rows(values: Tensor, places: Array, count: int) -> Tensor:
    """Return `count` sums: of the values that go to each place."""
    return indexing.index_add(values, wrap(places), shape=(count, *values.array.shape[1:]), pattern=(0,))


@handles("coalesce")
def coalesce(x: SparseTensor) -> SparseTensor:
    """Return the tensor with sorted indices that differ; values at equal ones are added.

    Raises RuntimeError for another layout than `sparse_coo`.
    """
    x._require_coo("coalesce")
    pattern = x.pattern
    if pattern.is_coalesced:
        return x
    keys, inverse = np.unique(pattern.keys, return_inverse=True)
    shape = pattern.shape[: pattern.sparse_dim]
    indices = np.stack(np.unravel_index(keys, shape)) if shape else np.zeros((0, len(keys)), np.int64)
    held = SparsePattern(sparse_coo, pattern.shape, wrap(indices.astype(np.int64)), True)
    if len(keys) == pattern.count:
        values = take_rows(x.entries, np.argsort(pattern.keys, kind="stable"))
    else:
        values = add_rows(x.entries, inverse.reshape(-1), len(keys))
    return make_sparse(held, rename_node(values, "CoalesceBackward0"))


@handles("to_dense")
def to_dense(x: SparseTensor, dtype: DtypeLike = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return the dense tensor. The gradient of `x` has its pattern, whatever `masked_grad` says."""
    pattern, values = x.pattern, x.entries
    if dtype is not None:
        values = values.to(dtype)
    if pattern.block:
        high, wide = pattern.block
        rows, columns = x.shape[0] // high, x.shape[1] // wide
        keys = pattern.arrays[0] * columns + pattern.arrays[1]
        blocks: Operand = add_rows(values, keys, rows * columns)
        dense = blocks.reshape(rows, columns, high, wide, *blocks.shape[3:]).transpose(1, 2)
        return dense.reshape(x.shape)
    sizes = pattern.shape[: pattern.sparse_dim]
    if pattern.is_symbolic:
        dims = tuple(range(pattern.sparse_dim))
        out = indexing.index_add(values, *pattern.coordinates, shape=pattern.shape, pattern=dims)
        return rename_node(out, "ToDenseBackward0")
    flat: Operand = add_rows(values, pattern.keys, int(np.prod(sizes, dtype=np.int64)))
    return rename_node(flat.reshape(pattern.shape), "ToDenseBackward0")


def to_coo(x: SparseTensor) -> SparseTensor:
    """Return the tensor in the layout `sparse_coo`."""
    pattern = x.pattern
    if pattern.layout is sparse_coo:
        return x
    if pattern.block:
        return _split_blocks(x)
    made = SparsePattern(sparse_coo, pattern.shape, pattern.indices, pattern.layout is sparse_csr)
    out = make_sparse(made, x.entries)
    return out if made.is_coalesced else coalesce(out)


def _split_blocks(x: SparseTensor) -> SparseTensor:
    """Return each element of the blocks, zeros too, as a value of its own."""
    (high, wide), pattern = x.pattern.block, x.pattern
    inner = np.indices((high, wide)).reshape(2, 1, high * wide)
    places = pattern.arrays[:, :, None] * np.array([high, wide])[:, None, None] + inner
    values = x.entries.reshape(pattern.count * high * wide, *x.entries.shape[3:])
    return coalesce(make_sparse(SparsePattern(sparse_coo, pattern.shape, wrap(places.reshape(2, -1))), values))


def convert_like(x: Operand, like: SparseTensor) -> Operand:
    """Return a sparse tensor in the layout of another, and without blocks where those do not fit."""
    layout, block = like.layout, like.pattern.block
    if like.pattern.batch:
        return to_compressed(x, layout, batch_dims=max(x.pattern.sparse_dim - 2, 0))
    if block and (x.shape[0] % block[0] or x.shape[1] % block[1]):
        layout, block = sparse_csr if layout in ROW_LAYOUTS else sparse_csc, ()
    return convert(x, layout, block or None)


def dense_to_coo(x: Operand, sparse_dim: int | None = None) -> SparseTensor:
    """Return the nonzero values of a dense tensor, with the first `sparse_dim` dimensions as sparse ones."""
    rank = x.ndim
    count = rank if sparse_dim is None else int(sparse_dim)
    if not 0 <= count <= rank or (rank and not count):
        raise RuntimeError(f"sparse_dim must be in [1, {rank}] for a tensor of {rank} dimensions, it is {sparse_dim}")
    array = x.detach().numpy_view("to_sparse()")
    held = (array != 0).reshape(*array.shape[:count], -1).any(-1)
    places = find_nonzero(held)
    shape = tuple(array.shape)
    indices = np.stack(places) if count else np.zeros((0, len(places[0])), np.int64)
    values = x[tuple(wrap(row) for row in indices)] if count else x.reshape(1)[wrap(places[0])]
    return make_sparse(SparsePattern(sparse_coo, shape, wrap(indices), True), values)


def to_compressed(
    x: Operand, layout: Layout, dense_dim: int | None = None, batch_dims: int | None = None
) -> SparseTensor:
    """Return a dense or sparse matrix in the layout `sparse_csr` or `sparse_csc`.

    The dimensions of a dense tensor before the last two, apart from dense ones, are those of a batch of matrices, of
    which each must have as many values; so are the first `batch_dims` sparse dimensions.
    """
    name = f"to_{repr(layout).partition('.')[2]}"
    if isinstance(x, SparseTensor):
        if x.layout is layout:
            return x
        held, batch_dims = coalesce(to_coo(x)), batch_dims or len(x.pattern.batch)
    else:
        held = dense_to_coo(x, None if dense_dim is None else x.ndim - dense_dim)
        batch_dims = max(held.sparse_dim() - 2, 0)
    if held.sparse_dim() != 2 + batch_dims:
        raise RuntimeError(
            f"{name}: only a matrix, with two sparse dimensions, can be converted; this tensor has {held.sparse_dim()}"
        )
    *numbers, rows, columns = held.pattern.arrays
    values, batch = held.entries, held.pattern.shape[:batch_dims]
    if layout is sparse_csc:
        order = np.lexsort((rows, columns, *numbers[::-1]))
        numbers = [row[order] for row in numbers]
        rows, columns, values = rows[order], columns[order], take_rows(values, order)
    along, across = (rows, columns) if layout is sparse_csr else (columns, rows)
    lines, matrices = held.pattern.shape[batch_dims + (layout is sparse_csc)], prod(batch)
    keys = ravel_keys(np.stack([*numbers, along]), (*batch, lines)).astype(np.intp, copy=False)
    counts = np.bincount(keys, minlength=matrices * lines)
    counts = counts.reshape(matrices, lines)
    if (counts.sum(1) * matrices != held.pattern.count).any():
        raise RuntimeError("Expect the same number of specified elements per batch.")
    bounds = np.zeros((matrices, lines + 1), np.int64)
    np.cumsum(counts, 1, out=bounds[:, 1:])
    count = held.pattern.count // max(matrices, 1)
    parts = wrap(bounds.reshape(*batch, lines + 1)), wrap(across.reshape(*batch, count))
    places = wrap(np.stack([*numbers, rows, columns]))
    return make_sparse(SparsePattern(layout, held.pattern.shape, places, False, parts, batch=batch), values)


def to_blocks(x: Operand, blocksize: Sequence[int], layout: Layout) -> SparseTensor:
    """Return a matrix in the layout `sparse_bsr` or `sparse_bsc`, with blocks of `blocksize`.

    Raises RuntimeError unless the blocks divide the shape.
    """
    dense: Operand = to_dense(x) if isinstance(x, SparseTensor) else x
    high, wide = (int(n) for n in blocksize)
    name = f"to_{repr(layout).partition('.')[2]}"
    if dense.ndim < 2 or high < 1 or wide < 1 or dense.shape[0] % high or dense.shape[1] % wide:
        raise RuntimeError(f"{name}: blocks of {(high, wide)} do not divide the shape {list(dense.shape)}")
    rows, columns = dense.shape[0] // high, dense.shape[1] // wide
    blocks = dense.reshape(rows, high, columns, wide, *dense.shape[2:]).transpose(1, 2)
    if isinstance(x, SparseTensor):  # blocks that hold a value, be it zero
        row, column = to_coo(x).pattern.arrays
        held = np.zeros((rows, columns), bool)
        held[row // high, column // wide] = True
    else:
        held = (blocks.detach().numpy_view(f"{name}()") != 0).reshape(rows, columns, -1).any(-1)
    by_rows = layout in ROW_LAYOUTS
    first, second = find_nonzero(held if by_rows else held.T)
    pair = (first, second) if by_rows else (second, first)
    bounds = np.searchsorted(first, np.arange((rows if by_rows else columns) + 1)).astype(np.int64)
    pattern = SparsePattern(
        layout, tuple(dense.shape), wrap(np.stack(pair)), False, (wrap(bounds), wrap(second)), (high, wide)
    )
    return make_sparse(pattern, blocks[wrap(pair[0]), wrap(pair[1])])


def convert(
    x: Operand, layout: Layout, blocksize: Sequence[int] | None = None, dense_dim: int | None = None
) -> Operand:
    """Return a dense or sparse tensor in the layout."""
    if layout is strided:
        return to_dense(x) if isinstance(x, SparseTensor) else x
    if layout is sparse_coo:
        if not isinstance(x, SparseTensor):
            return dense_to_coo(x, None if dense_dim is None else x.ndim - dense_dim)
        return to_coo(x)
    if layout in BLOCK_LAYOUTS:
        if blocksize is None and isinstance(x, SparseTensor) and x.layout is layout:
            return x
        if blocksize is None:
            raise RuntimeError(f"conversion to {layout!r} needs a blocksize")
        return to_blocks(x, blocksize, layout)
    return to_compressed(x, layout, dense_dim)


@handles("clone")
def clone(x: SparseTensor, *, memory_format: object = None) -> SparseTensor:
    """Return a copy with history."""
    return make_sparse(replace(x.pattern, indices=x.pattern.indices.clone()), x.entries.clone())


@handles("to")
def to(x: Operand, *args: Operand, **kwargs: Operand) -> Operand:
    """Return the values in another type; the device is the CPU."""
    if not isinstance(x, SparseTensor):
        return x.to(args[0].dtype) if isinstance(args[0], SparseTensor) else x.to(*args, **kwargs)
    given = [a.entries if isinstance(a, SparseTensor) else a for a in args]
    values = x.entries.to(*given, **kwargs)
    return x if values is x.entries else with_values(x, values)


def _register_types() -> None:
    def make(name: str) -> Operand:
        def convert(x: SparseTensor, *args: object, **kwargs: object) -> SparseTensor:
            values = getattr(x.entries, name)(*args, **kwargs)
            return x if values is x.entries else with_values(x, values)

        return convert

    names = "float double half bfloat16 int long short char byte bool cfloat cdouble cpu contiguous pin_memory"
    for name in names.split():
        handles(name)(make(name))


_register_types()


@handles("numpy", "__array__")
def refuse_numpy(x: SparseTensor, *args: object, **kwargs: object) -> None:
    """Raise TypeError: an array has no zeros that are not stored."""
    kind = "".join(word.capitalize() for word in x.layout.name.split("_")).removesuffix("Coo")
    raise TypeError(f"can't convert {kind} layout tensor to numpy. Use Tensor.to_dense() first.")


@handles("zeros_like", "empty_like")
def zeros_like(x: SparseTensor, *, dtype: DtypeLike = None, layout: Layout | None = None, **_: object) -> Operand:
    """Return zeros of the shape: a sparse tensor without values, unless another layout is asked for."""
    kind = x.dtype if dtype is None else dtype
    if layout is strided:
        return zeros(*x.shape, dtype=kind)
    return empty_of(x.shape, x.layout if layout is None else layout, kind)


@handles("new_zeros", "new_empty")
def new_zeros(x: SparseTensor, *size: Operand, dtype: DtypeLike = None, **_: object) -> SparseTensor:
    """Return zeros of another shape in the layout."""
    shape = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    return empty_of(shape, x.layout, x.dtype if dtype is None else dtype)


@handles("copy_")
def copy_(x: Operand, source: Operand, non_blocking: bool = False) -> Operand:
    """Write `source` into `x`, a sparse tensor, and return it."""
    if not isinstance(x, SparseTensor) or not isinstance(source, SparseTensor):
        raise RuntimeError("copy_(): both tensors must be sparse, or both dense")
    return replace_content(x, to(convert(source, x.layout), x.dtype))
