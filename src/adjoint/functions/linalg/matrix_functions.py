"""Products of vectors and matrices, powers and exponentials."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.linalg import matmul, products
from adjoint.functions.linalg.checks import check_square
from adjoint.functions.reduction import cumulative
from adjoint.functions.shape import join, shape
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.elementwise.complex import conj, is_complex
from adjoint.ops.linalg import matrix_exp as matrix_exponential
from adjoint.ops.reduction import reduction


@with_out
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Return x × y of vectors of three elements along `dim`; the other dimensions broadcast.

    Raises: RuntimeError unless `dim` has size 3 and the ranks are equal.
    """
    if input.ndim != other.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions, got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    axis = one_dim(dim, input.ndim)
    if input.array.shape[axis] != 3 or other.array.shape[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.array.shape[axis]} and "
            f"{other.array.shape[axis]}"
        )
    return products.cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return the diagonals of a stack of matrices: a view."""
    out: Tensor = A.diagonal(offset, dim1, dim2)
    return rename_node(out, "DiagonalBackward0")


@with_out
@in_float32
def matrix_exp(A: Tensor) -> Tensor:
    """Return Σ Aᵏ / k! of square matrices."""
    check_square("linalg.matrix_exp", A)
    return matrix_exponential.matrix_exp(A)


@with_out
@in_float32
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Return Σ x y along `dim`; the other dimensions broadcast.

    Raises: RuntimeError for integers and for different dtypes.
    """
    if x.array.dtype.kind not in "fcV":
        raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype}")
    if x.array.dtype != y.array.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type {x.dtype} and y of type "
            f"{y.dtype} instead"
        )
    conjugated: Tensor = conj(x) if is_complex(x) else x
    product = arithmetic.mul(conjugated, y)
    axis = one_dim(dim, product.ndim)
    return reduction.sum(product, axes=(axis,) if product.ndim else (), keepdims=False)


@public(method=False)
def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Return the powers 0 … N - 1 of the elements along a new last dimension; by default N is the last size.

    Raises: RuntimeError for N < 2.
    """
    n = N if N is not None else (x.array.shape[-1] if x.ndim else 1)
    if n <= 1 and (N is not None or not x.ndim):
        raise RuntimeError("N must be greater than 1.")
    if not x.ndim:
        x = shape.unsqueeze(x, 0)
    first = constant(np.ones((*x.array.shape, 1), x.array.dtype))
    return join.cat([first, cumulative.cumprod(shape.unsqueeze(x, -1).expand(*x.array.shape, n - 1), -1)], -1)


@with_out
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Return the product of two or more matrices, in the order that takes the fewest multiplications.

    The first may be a row and the last a column, given as vectors.
    Source of the order: Cormen and others, "Introduction to Algorithms", section 15.2.

    Raises: RuntimeError for less than two, for sizes that do not fit, and for different dtypes.
    """
    given = list(tensors)
    if len(given) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(given)}")
    for i, x in enumerate(given):
        allowed = (1, 2) if i in (0, len(given) - 1) else (2,)
        if x.ndim not in allowed:
            expected = "1D or 2D" if len(allowed) > 1 else "2D"
            which = "the first tensor" if i == 0 else "the last tensor" if len(allowed) > 1 else f"tensor {i}"
            raise RuntimeError(f"multi_dot(): {which} must be {expected} but got {x.ndim}D")
        if x.array.dtype != given[0].array.dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {given[0].dtype} and tensor {i} "
                f"{x.dtype}"
            )
    row, column = given[0].ndim == 1, given[-1].ndim == 1
    matrices = list(given)
    if row:
        matrices[0] = shape.unsqueeze(given[0], 0)
    if column:
        matrices[-1] = shape.unsqueeze(given[-1], -1)
    for i, (x, y) in enumerate(pairwise(matrices)):
        if x.array.shape[1] != y.array.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(given[i].shape)} and "
                f"{list(given[i + 1].shape)} cannot be multiplied"
            )
    sizes = [matrices[0].array.shape[0], *(x.array.shape[1] for x in matrices)]
    out = _multiply_chain(matrices, _find_best_splits(sizes), 0, len(matrices))
    out = shape.squeeze(out, -1) if column else out
    return shape.squeeze(out, 0) if row else out


def _find_best_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return the best place to split the product of the matrices i … j - 1, for each i and j."""
    n = len(sizes) - 1
    cost, best = {(i, i + 1): 0 for i in range(n)}, {}
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length
            ways = [(cost[i, k] + cost[k, j] + sizes[i] * sizes[k] * sizes[j], k) for k in range(i + 1, j)]
            cost[i, j], best[i, j] = min(ways)
    return best


def _multiply_chain(matrices: list[Tensor], best: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if j == i + 1:
        return matrices[i]
    k = best[i, j]
    return matmul.mm(_multiply_chain(matrices, best, i, k), _multiply_chain(matrices, best, k, j))
