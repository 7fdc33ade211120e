"""Sparse tensors from indices and values, checked, in each layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.memory_format import layout as Layout
from adjoint.core.tensor.memory_format import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from adjoint.core.tensor.sparse_array import SparseArray
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, DeviceLike, DtypeLike, Operand
from adjoint.functions.api.publish import rename_node
from adjoint.functions.creation.creation import as_tensor, tensor, zeros
from adjoint.functions.sparse import methods  # noqa: F401  what sparse tensors answer to
from adjoint.functions.sparse.row_gradient import make_row_gradient
from adjoint.functions.sparse.sparse_tensor import (
    BLOCK_LAYOUTS,
    ROW_LAYOUTS,
    SparsePattern,
    SparseTensor,
    empty_of,
    handles,
    make_sparse,
)


def sparse_coo_tensor(
    indices: Operand = None,
    values: Operand = None,
    size: Sequence[int] | None = None,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """Return a sparse tensor whose value `values[i]` stands at the column `indices[:, i]`.

    `sparse_coo_tensor(size)`, or with `size=` alone, has no values. The result is differentiable by `values`.

    Args:
        indices: integers (sparse dimensions, n).
        values: (n, dense dimensions).
        size: shape of the tensor. Default: None, as small as the indices allow.
        dtype: type of the values. Default: None, that of `values`.
        device: the CPU.
        pin_memory: ignored.
        requires_grad: True for a leaf that wants its gradient. Default: False.
        check_invariants: ignored, what can be checked is checked.
        is_coalesced: True if the indices are sorted and differ. Default: None, not known.

    Raises: RuntimeError for indices outside of `size`, or of other numbers than the values.

    Example:
        >>> x = ad.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
        >>> x.to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    if values is None or (size is None and isinstance(indices, (tuple, list)) and _is_size(indices, values)):
        shape = tuple(indices if size is None else size)
        none = wrap(np.zeros((len(shape), 0), np.int64))
        return _finish(SparsePattern(sparse_coo, shape, none, True), zeros(0, dtype=dtype), requires_grad)
    places, held = _as_indices(indices), _as_values(values, dtype)
    array: Operand = places.numpy_view("sparse_coo_tensor()")
    if array.ndim != 2:
        raise RuntimeError(
            f"indices must be sparse_dim x nnz, but got: {list(array.shape)}; they are a matrix with a column for each "
            "value"
        )
    if held.ndim == 0 and array.shape[1] == 1:
        held = held.reshape(1)
    if held.ndim == 0 or array.shape[1] != held.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {array.shape[1]}, nnz from values: "
            f"{held.shape[0] if held.ndim else 1}"
        )
    least = tuple(int(row.max(initial=-1)) + 1 for row in array)
    shape = (*least, *held.shape[1:]) if size is None else tuple(int(n) for n in size)
    _check_coordinates(array, held, shape)
    return _finish(SparsePattern(sparse_coo, shape, places, bool(is_coalesced)), held, requires_grad)


def _is_size(indices: Sequence[object], values: object) -> bool:
    return values is None and all(isinstance(n, int) for n in indices)


def _as_indices(indices: Operand, compressed: bool = False) -> Tensor:
    given: Operand = as_tensor(indices)
    if given.array.dtype.kind not in "iu" and given.numel():
        raise RuntimeError(f"indices must be an int64 tensor, they are {given.dtype}")
    kept = compressed and given.array.dtype == np.int32
    return given.detach() if kept else given.detach().long()


def _as_values(values: Operand, dtype: DtypeLike | None) -> Operand:
    if isinstance(values, Tensor):
        return values if dtype is None else values.to(dtype)
    return tensor(values, dtype=dtype)


def _finish(pattern: SparsePattern, values: Tensor, requires_grad: bool) -> SparseTensor:
    if not requires_grad:
        if values.requires_grad:  # a tensor of its own, which is no leaf
            values = rename_node(values.view(values.shape), "SparseCooTensorWithDimsAndTensorsBackward0")
        return make_sparse(pattern, values)
    return make_sparse(pattern, values.detach()).requires_grad_()


def _check_coordinates(indices: Array, values: Tensor, shape: tuple[int, ...]) -> None:
    sparse = indices.shape[0]
    if len(shape) != sparse + values.ndim - 1:
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({sparse}) + dense_dim ({values.ndim - 1}), but got {len(shape)}"
        )
    for d, row in enumerate(indices):
        if row.size and (low := int(row.min())) < 0:
            raise RuntimeError(f"found negative index {low} for dim {d}")
        if row.size and (high := int(row.max())) >= shape[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {shape[d]} but found index {high}"
            )
    if tuple(values.shape[1:]) != tuple(shape[sparse:]):
        raise RuntimeError(
            f"values has incorrect size, expected {[indices.shape[1], *shape[sparse:]]}, got {list(values.shape)}"
        )


def sparse_compressed_tensor(
    compressed_indices: Operand,
    plain_indices: Operand,
    values: Operand,
    size: Sequence[int] | None = None,
    *,
    dtype: DtypeLike | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """Return a sparse matrix in a compressed `layout`: `compressed_indices` bound each row's (or column's) entries.

    Args:
        compressed_indices: integers (…, rows + 1), or (…, columns + 1) for the layouts `sparse_csc` and `sparse_bsc`.
        plain_indices: the other index of each entry (…, n).
        values: (…, n, dense dimensions), or (n, rows, columns of a block, dense dimensions) for the blocked layouts,
            which have no batches.
        size: shape of the tensor. Default: None, as small as the indices allow.
        dtype: type of the values. Default: None, that of `values`.
        layout: one of the four compressed ones.
        device: the CPU.
        pin_memory: ignored.
        requires_grad: True for a leaf that wants its gradient. Default: False.
        check_invariants: ignored, what can be checked is checked.

    Raises: RuntimeError for indices that contradict each other, the values or the size.

    Example:
        >>> x = ad.sparse_compressed_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3), layout=ad.sparse_csr)
        >>> x.to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    if layout not in (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc):
        raise RuntimeError(f"expected a compressed sparse layout but got {layout!r}")
    bounds, others = (_as_indices(x, compressed=True) for x in (compressed_indices, plain_indices))
    held = _as_values(values, dtype)
    batch = tuple(bounds.shape[:-1])
    if batch and layout in BLOCK_LAYOUTS:
        raise NotImplementedError(f"{layout!r}: batches of blocked matrices are not there, those of sparse_csr are")
    if not bounds.ndim or tuple(others.shape[:-1]) != batch or tuple(held.shape[: len(batch)]) != batch:
        raise RuntimeError(
            f"{layout!r}: compressed_indices, plain_indices and values must have the same batch, but their shapes are "
            f"{list(bounds.shape)}, {list(others.shape)} and {list(held.shape)}"
        )
    if batch:
        given, held = held, held.reshape(-1, *held.shape[len(batch) + 1 :])
        if given.shape[len(batch)] != others.shape[-1]:
            raise RuntimeError(
                f"plain_indices has {others.shape[-1]} entries, but there are {given.shape[len(batch)]} values"
            )
    block = tuple(held.shape[1:3]) if layout in BLOCK_LAYOUTS else ()
    if layout in BLOCK_LAYOUTS and len(block) < 2:
        raise RuntimeError(f"{layout!r} expects values of at least 3 dimensions, got {held.ndim}")
    high, wide = block or (1, 1)
    along, across = (0, 1) if layout in ROW_LAYOUTS else (1, 0)
    sizes = [0, 0]
    sizes[along] = (int(bounds.shape[-1]) - 1) * (high, wide)[along]
    least = int(others.numpy_view("sparse tensor").max(initial=-1)) + 1
    sizes[across] = least * (high, wide)[across]
    dense = tuple(held.shape[1 + len(block) :])
    shape = (*batch, *sizes, *dense) if size is None else tuple(int(n) for n in size)
    starts, plain = bounds.numpy_view("sparse tensor"), others.numpy_view("sparse tensor")
    if shape[: len(batch)] != batch:
        raise RuntimeError(f"the size {list(shape)} does not begin with the batch {list(batch)} of the indices")
    for at in np.ndindex(batch):
        _check_compressed(starts[at], plain[at], held, shape[len(batch) :], sizes, along, (high, wide), bool(batch))
    lines = np.repeat(np.tile(np.arange(starts.shape[-1] - 1), prod(batch)), np.diff(starts).reshape(-1))
    pair = (lines, plain.reshape(-1)) if along == 0 else (plain.reshape(-1), lines)
    numbers = np.indices(batch).reshape(len(batch), prod(batch)).repeat(plain.shape[-1], 1)
    places = wrap(np.stack([*numbers, *pair]).astype(np.int64, copy=False))
    pattern = SparsePattern(layout, shape, places, False, (bounds, others), block, batch)
    return _finish(pattern, held, requires_grad)


def _check_compressed(
    starts: Array,
    plain: Array,
    values: Tensor,
    shape: tuple[int, ...],
    sizes: list[int],
    along: int,
    block: tuple[int, int],
    in_batch: bool,
) -> None:
    across = 1 - along
    if len(shape) < 2 or shape[along] != sizes[along]:
        raise RuntimeError(
            f"compressed_indices bound {sizes[along]} {('rows', 'columns')[along]}, but the size is {list(shape)}"
        )
    if starts[0] != 0 or starts[-1] != len(plain) or (np.diff(starts) < 0).any():
        raise RuntimeError(
            f"compressed_indices must begin with 0, never decrease, and end with the number of entries, {len(plain)}; "
            f"they end with {int(starts[-1])}"
        )
    if not in_batch and len(plain) != values.shape[0]:
        raise RuntimeError(f"plain_indices has {len(plain)} entries, but there are {values.shape[0]} values")
    if plain.size and (int(plain.min()) < 0 or int(plain.max()) >= shape[across] // block[across]):
        raise RuntimeError(
            f"plain_indices must be in [0, {shape[across] // block[across]}), they reach from {int(plain.min())} to "
            f"{int(plain.max())}"
        )


def sparse_csr_tensor(
    crow_indices: Operand, col_indices: Operand, values: Operand, size: Sequence[int] | None = None, **options: Operand
) -> SparseTensor:
    """Return a sparse matrix of the layout `sparse_csr`. Arguments: `sparse_compressed_tensor`.

    Example:
        >>> ad.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0]).shape
        adjoint.Size([2, 3])
    """
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, layout=sparse_csr, **_plain(options))


def sparse_csc_tensor(
    ccol_indices: Operand, row_indices: Operand, values: Operand, size: Sequence[int] | None = None, **options: Operand
) -> SparseTensor:
    """Return a sparse matrix of the layout `sparse_csc`. Arguments: `sparse_compressed_tensor`.

    Example:
        >>> ad.sparse_csc_tensor([0, 1, 2], [2, 0], [3.0, 4.0]).shape
        adjoint.Size([3, 2])
    """
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, layout=sparse_csc, **_plain(options))


def sparse_bsr_tensor(
    crow_indices: Operand, col_indices: Operand, values: Operand, size: Sequence[int] | None = None, **options: Operand
) -> SparseTensor:
    """Return a sparse matrix of blocks, by rows of blocks. Arguments: `sparse_compressed_tensor`.

    Example:
        >>> ad.sparse_bsr_tensor([0, 1], [1], ad.ones(1, 2, 2)).shape
        adjoint.Size([2, 4])
    """
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, layout=sparse_bsr, **_plain(options))


def sparse_bsc_tensor(
    ccol_indices: Operand, row_indices: Operand, values: Operand, size: Sequence[int] | None = None, **options: Operand
) -> SparseTensor:
    """Return a sparse matrix of blocks, by columns of blocks. Arguments: `sparse_compressed_tensor`.

    Example:
        >>> ad.sparse_bsc_tensor([0, 1], [1], ad.ones(1, 2, 2)).shape
        adjoint.Size([4, 2])
    """
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, layout=sparse_bsc, **_plain(options))


def _plain(options: dict[str, Operand]) -> dict[str, Operand]:
    return {name: value for name, value in options.items() if name != "layout"}


def wrap_sparse(array: SparseArray) -> SparseTensor:
    """Return the tensor of a sparse array."""
    pattern = SparsePattern(sparse_coo, array.shape, wrap(array.indices), array.is_coalesced)
    return make_sparse(pattern, wrap(array.values))


def make_sparse_gradient(rows: Operand, g: Operand, shape: tuple[int, ...], padding: int | None) -> SparseTensor:
    """Return the gradient of a table of this shape of which `rows` were looked up, and got the gradients `g`.

    That of the row `padding` is left out.
    """
    if mode.interpreter is not None:
        return make_row_gradient(rows, g, shape, padding)
    values = g.reshape(rows.numel(), *shape[1:])
    if padding is not None:
        held = np.flatnonzero(rows.numpy_view("a sparse gradient").reshape(-1) != padding)
        rows, values = wrap(rows.array.reshape(-1)[held]), values[wrap(held)]
    return make_sparse(SparsePattern(sparse_coo, shape, rows.reshape(1, rows.numel())), values)


def store_sparse_gradient(shape: tuple[int, ...], has_gaps: bool, stored: tuple[Operand, Tensor, Tensor]) -> None:
    """Give a tensor the gradient that a compiled step made: (the tensor, the rows of a call, their values)."""
    tensor, indices, values = stored
    array = SparseArray(shape, indices.array, values.array)
    tensor._grad = wrap_sparse(array.without_gaps() if has_gaps else array)


@handles("__reduce_ex__")
def reduce_sparse(x: SparseTensor) -> tuple[object, ...]:
    """Return what `pickle` makes the tensor of."""
    return rebuild_sparse, (x.pattern, x.entries)


def rebuild_sparse(pattern: SparsePattern, values: Tensor) -> SparseTensor:
    """Return a tensor that was pickled. This module loads what a sparse tensor answers to."""
    return make_sparse(pattern, values)


def make_sparse_zeros(shape: Sequence[int], layout: Layout, dtype: DtypeLike | None = None) -> SparseTensor:
    """Return what `zeros` with a sparse layout returns."""
    return empty_of(shape, layout, dtype)


__all__ = [
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
]
