"""Diagonals and triangles of matrices: taken, made, and their positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from adjoint.core.dtype.dtype import numpy_dtype, promote
from adjoint.core.op.autocast import autocast_up
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, DeviceLike, DtypeLike
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.indexing.masked_nonzero import nonzero
from adjoint.functions.shape import join
from adjoint.functions.shape import shape as shapes
from adjoint.functions.shape.join import atleast_2d
from adjoint.functions.shape.shape import as_tensor_list
from adjoint.ops.creation import mark_triangle
from adjoint.ops.elementwise import comparison, select
from adjoint.ops.movement import as_strided as strides
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction

__all__ = [
    "block_diag", "diag", "diag_embed", "diagflat", "diagonal", "trace", "tril", "tril_indices", "triu", "triu_indices",
]  # fmt: skip


@public(view=True)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a view of a diagonal of two dimensions, as the last dimension. Raises RuntimeError for equal dims."""
    first, second = one_dim(dim1, input.ndim), one_dim(dim2, input.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return strides.diagonal(input, at=(offset, first, second))


_diagonal = diagonal  # which is a parameter of diag


@public()
@with_out
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return a vector as the diagonal of a matrix of zeros; of a matrix, the diagonal as a vector.

    Raises: RuntimeError for other ranks than 1 and 2.
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return rename_node(select.copy(_diagonal(input, diagonal)), "DiagonalBackward0_copy")


@public()
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return zeros with the last dimension on a diagonal of the new dimensions dim1 and dim2.

    Raises: RuntimeError for equal dimensions.
    """
    first, second = one_dim(dim1, input.ndim + 1), one_dim(dim2, input.ndim + 1)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    side = input.array.shape[-1] + abs(offset)
    full = list(input.array.shape[:-1])
    for d in sorted((first, second)):
        full.insert(d, side)
    return strides.diagonal_back(input, shape=tuple(full), at=(offset, first, second))


@public()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Return the elements as the diagonal of a matrix of zeros."""
    return diag_embed(shapes.ravel(input), offset)


def block_diag(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Return matrices along the diagonal of one, zeros elsewhere; vectors count as rows.

    Raises: RuntimeError for more than two dimensions.
    """
    parts = [atleast_2d(part) for part in as_tensor_list(tensors)] or [constant(np.zeros((1, 0), np.float32))]
    for i, part in enumerate(parts):
        if part.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {part.ndim} dimensions"
            )
    kind = promote(part.array for part in parts)
    width = sum(part.array.shape[1] for part in parts)
    rows, start = [], 0
    for part in parts:
        n = part.array.shape[1]
        part = part if part.array.dtype == kind else select.cast(part, dtype=kind)
        rows.append(movement.pad(part, widths=((0, 0), (start, width - start - n)), value=0))
        start += n
    return join.cat(rows)


@public()
def trace(input: Tensor) -> Tensor:
    """Return Σ x[i, i] of a matrix. Raises RuntimeError for other ranks."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    found: Tensor = _diagonal(input)
    if nondefault.count and mode.autocast is not None:
        found = autocast_up(found)
    if input.array.dtype.kind in "iub":
        found = select.cast(found, dtype=np.dtype(np.int64))
    total = reduction.sum(found, axes=(0,), keepdims=False)
    return rename_node(total, "TraceBackward0")


@public(inplace=True)
@with_out
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return the elements on and below a diagonal of each matrix, and zeros above it.

    Args:
        input: tensor (*, n, m).
        diagonal: 0 for the main diagonal, positive for one above it, negative for one below. Default: 0.
        out: tensor that takes the result.

    Raises: RuntimeError for fewer than two dimensions.

    Example:
        >>> ad.tril(ad.ones(3, 3))
        tensor([[1., 0., 0.],
                [1., 1., 0.],
                [1., 1., 1.]])
    """
    return _mask_triangle("tril", input, True, diagonal)


@public(inplace=True)
@with_out
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return the elements on and above the diagonal, zeros below."""
    return _mask_triangle("triu", input, False, diagonal)


def _mask_triangle(name: str, input: Tensor, lower: bool, diagonal: int) -> Tensor:
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    if isinstance(diagonal, float):
        raise TypeError(f"{name}(): argument 'diagonal' (position 2) must be int, not float")
    out: Tensor = _keep_triangle(input, lower=lower, diagonal=diagonal)
    return out


def _keep_triangle_composite(x: Tensor, *, lower: bool, diagonal: int) -> Tensor:
    zero = np.asarray(0, x.array.dtype)
    n, m = x.array.shape[-2:]
    mask = mark_triangle(n, m, diagonal if lower else diagonal - 1)
    out = select.where(mask, x, zero) if lower else select.where(mask, zero, x)
    return rename_node(out, "TrilBackward0" if lower else "TriuBackward0")


@with_eager_fast_path(
    composite=_keep_triangle_composite,
    node=lambda node: "TrilBackward0" if node.params["lower"] else "TriuBackward0",
    linear=True,
    dx=lambda g, lower, diagonal: _keep_triangle(g, lower=lower, diagonal=diagonal),
)
def _keep_triangle(x: Array, *, lower: bool, diagonal: int) -> Array:
    x, zero = np.ascontiguousarray(x), np.zeros((), x.dtype)
    if lower:
        return np.asarray(select.select_elements(_below_diagonal(*x.shape[-2:], diagonal), x, zero))
    return np.asarray(select.select_elements(_below_diagonal(*x.shape[-2:], diagonal - 1), zero, x))


@lru_cache(64)
def _below_diagonal(rows: int, columns: int, diagonal: int) -> Array:
    mask = np.tri(rows, columns, diagonal, np.bool_)
    mask.setflags(write=False)
    return mask


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DtypeLike = np.int64, device: DeviceLike = None
) -> Tensor:
    """Return the positions on and below a diagonal of a matrix: (2, count)."""
    return _find_positions(row, col, offset, dtype, is_upper=False)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DtypeLike = np.int64, device: DeviceLike = None
) -> Tensor:
    """Return the positions on and above a diagonal of a matrix: (2, count)."""
    return _find_positions(row, col, offset - 1, dtype, is_upper=True)


def _find_positions(row: int, col: int, offset: int, dtype: DtypeLike, is_upper: bool) -> Tensor:
    """Return the positions on and below a diagonal, or above it: found anew in each call where sizes differ."""
    mask, kind = mark_triangle(row, col, offset), numpy_dtype(dtype)
    if type(mask.array) is np.ndarray:
        return constant(np.array(np.nonzero(mask.array != is_upper)).astype(kind))
    found = nonzero(comparison.logical_not(mask) if is_upper else mask)
    return select.cast(movement.permute(found, axes=(1, 0)), dtype=kind)
