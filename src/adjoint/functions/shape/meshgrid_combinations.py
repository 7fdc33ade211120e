"""Grids, products and combinations of vectors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.functions.shape import join
from adjoint.functions.shape import shape as shapes
from adjoint.functions.shape.shape import as_tensor_list
from adjoint.ops.indexing import indexing

__all__ = ["cartesian_prod", "combinations", "meshgrid"]


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return for each vector a grid with one dimension per vector, along which its values vary.

    Args:
        *tensors: vectors or 0-d tensors of one dtype, one by one or as a list.
        indexing: "ij", or "xy" to exchange the first two dimensions. Default: None, the same as "ij".

    Returns: a tuple of tensors of one shape; they are views, so clone them before you write.

    Raises: RuntimeError for different dtypes, for tensors of more dimensions, and without any tensor.

    Example:
        >>> rows, columns = ad.meshgrid(ad.arange(2), ad.arange(3), indexing="ij")
        >>> rows
        tensor([[0, 0, 0],
                [1, 1, 1]])
    """
    parts = as_tensor_list(tensors)
    if not parts:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for part in parts:
        if part.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {part.ndim}D")
        if part.array.dtype != parts[0].array.dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swapped = indexing == "xy" and len(parts) > 1
    if swapped:
        parts[:2] = parts[1::-1]
    full = tuple(part.numel() for part in parts)
    grids = [
        shapes.expand(shapes.reshape(part, tuple(-1 if i == d else 1 for i in range(len(parts)))), full)
        for d, part in enumerate(parts)
    ]
    if swapped:
        grids[:2] = grids[1::-1]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Return all tuples with one element of each vector, as rows; a single vector itself.

    Raises: RuntimeError unless all are vectors.
    """
    parts = as_tensor_list(tensors)
    for part in parts:
        if part.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(part.array.shape)}")
    if len(parts) == 1:
        return parts[0]
    return join.stack([shapes.ravel(grid) for grid in meshgrid(*parts, indexing="ij")], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all choices of r elements of a vector, as rows. Raises RuntimeError for other ranks."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.array.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return constant(np.zeros(0, input.array.dtype))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(input.numel()), r)), np.int64).reshape(-1, r)
    return indexing.index(input, constant(rows), pattern=(0,))
