"""The sparse gradient of a table in a traced step: its rows have no values there, they are those of each call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from adjoint.core.dtype.dtype import int64
from adjoint.core.tensor.memory_format import sparse_coo
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand
from adjoint.functions.sparse.sparse_tensor import (
    SparsePattern,
    SparseTensor,
    handles,
    make_sparse,
    refuse_symbolic_indices,
)
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction


def make_row_gradient(rows: Operand, g: Operand, shape: tuple[int, ...], padding: int | None) -> SparseTensor:
    """Return the gradient of a table of this shape of which `rows` were looked up, and got the gradients `g`."""
    count = rows.numel()
    rows, values = rows.reshape(count).to(int64), g.reshape(count, *shape[1:])
    if padding is not None:
        held = rows != padding
        rows, values = rows.where(held, -1), values.where(held.reshape(count, *(1,) * (len(shape) - 1)), 0.0)
    indices = rows.reshape(1, count)
    return make_sparse(SparsePattern(sparse_coo, shape, indices, has_gaps=padding is not None), values)


@handles("stack_examples")
def stack_examples(x: SparseTensor, values: Operand, indices: Operand, *compressed: Operand) -> SparseTensor:
    """Return the tensor (batch, …) of examples like `x`, with the values and indices (batch, sparse dimensions, n).

    Raises NotImplementedError for a blocked layout.
    """
    if x.pattern.block:
        raise NotImplementedError(f"vmap: a result of the layout {x.layout!r}; return x.to_sparse_coo()")
    batch, depth, count = indices.array.shape
    numbers = wrap(np.repeat(np.arange(batch), count)[None])
    columns: Operand = movement.cat(numbers, indices.transpose(0, 1).reshape(depth, batch * count), axis=0)
    entries = values.reshape(batch * count, *values.array.shape[2:])
    pattern = replace(x.pattern, shape=(batch, *x.pattern.shape), indices=columns)
    if compressed:
        bounds, others = (part.clone() for part in compressed)
        pattern = replace(pattern, compressed=(bounds, others), batch=(batch, *pattern.batch))
    if pattern.has_gaps and not pattern.is_symbolic:
        held = wrap(np.flatnonzero(columns.array[1] >= 0))
        entries = indexing.index(entries, held, pattern=(0,))
        pattern = replace(pattern, indices=wrap(columns.array[:, held.array]), has_gaps=False)
    return make_sparse(pattern, entries)


def join_rows(x: SparseTensor, y: SparseTensor) -> SparseTensor:
    """Return the sum of two gradients of which one, at least, has rows without values."""
    parts = [p for p in (x, y) if p.pattern.is_symbolic or p.pattern.count]
    if not all(p.pattern.is_symbolic for p in parts):
        refuse_symbolic_indices("the step adds a sparse gradient to one from before it")
    if len(parts) == 1:
        return parts[0]
    indices = movement.cat(*(p.pattern.indices for p in parts), axis=1)
    gaps = any(p.pattern.has_gaps for p in parts)
    pattern = SparsePattern(sparse_coo, x.pattern.shape, indices, has_gaps=gaps)
    return make_sparse(pattern, movement.cat(*(p.entries for p in parts), axis=0))


def merge_rows(x: SparseTensor) -> tuple[Tensor, Tensor]:
    """Return for each entry its row, and the sum of the values of all entries of that row.

    An entry that is to be left out takes the row of another, or, where there is none, -1.
    """
    rows, number, sums = _sum_equal_rows(x)
    return rows, indexing.index(sums, number, pattern=(0,))


def sums_of_rows(x: SparseTensor) -> Tensor:
    """Return the sums of the values of each row, and zeros after the last: as many as there are entries."""
    return _sum_equal_rows(x)[2]


def _sum_equal_rows(x: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the row of each entry, the number of its sum, and the sums."""
    if x.pattern.sparse_dim != 1:
        refuse_symbolic_indices()
    rows, count = x.pattern.coordinates[0], x.pattern.count
    shape = (count, *x.entries.array.shape[1:])
    if not count:
        return rows, rows, x.entries
    if x.pattern.has_gaps:
        held: Operand = rows >= 0
        rows = rows.where(held, rows[held.to(int64).argmax()])
    order = indexing.argsort(rows, axis=0, descending=False)
    ordered: Operand = indexing.index(rows, order, pattern=(0,))
    begins = (ordered[1:] != ordered[:-1]).to(int64)
    numbers = reduction.cumsum(movement.pad(begins, widths=((1, 0),)), axis=0)
    number = indexing.index_add(numbers, order, shape=(count,), pattern=(0,))
    return rows, number, indexing.index_add(x.entries, number, shape=shape, pattern=(0,))
