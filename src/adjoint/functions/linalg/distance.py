"""Distances between tensors and between rows."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.families import primitive, with_eager_fast_path
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, Operand
from adjoint.functions.api.compute_dtype import autocast_float32, in_float32
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.linalg import norms
from adjoint.functions.reduction import reduce
from adjoint.functions.shape import shape
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.indexing import indexing
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.linalg.matmul import transpose
from adjoint.ops.movement import movement
from adjoint.ops.reduction.summation import add_up
from adjoint.ops.reduction.variance import safe_sqrt

MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
MAX_ROWS_WITHOUT_MATMUL = 25  # rows, beyond which a product of matrices pays
__all__ = ["cdist", "dist", "pdist", "renorm"]


@public()
@in_float32
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return ‖input - other‖ₚ; at 0 the gradient is 0."""
    return rename_node(norms.norm(arithmetic.sub(input, other), p), "DistBackward0")


@autocast_float32
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Return ‖x1[…, i] - x2[…, j]‖ₚ for all pairs of rows: (…, P, M) and (…, R, M) give (…, P, R).

    Raises: RuntimeError unless both have two dimensions and as many columns, and for p < 0.
    """
    for i, x in enumerate((x1, x2), 1):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{i} got: {x.ndim}D")
    if x1.array.shape[-1] != x2.array.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.array.shape[-1]} X2: {x2.array.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if compute_mode not in MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    many = max(x1.array.shape[-2], x2.array.shape[-2]) > MAX_ROWS_WITHOUT_MATMUL
    by_product = compute_mode == MODES[1] or (compute_mode == MODES[0] and many)
    if p == 2 and x1.array.dtype == x2.array.dtype and x1.array.dtype.kind == "f":
        return _euclidean(x1, x2, by_product=by_product)
    if p == 2 and by_product:
        return rename_node(_euclidean_by_product(x1, x2), "CdistBackward0")
    return rename_node(norms.norm(_gaps(x1, x2), p, -1), "CdistBackward0")


def _gaps(x: Tensor, y: Tensor) -> Tensor:
    """Return the differences of all pairs of rows."""
    return arithmetic.sub(shape.unsqueeze(x, -2), shape.unsqueeze(y, -3))


def _composite(x: Tensor, y: Tensor, *, by_product: bool) -> Tensor:
    return _euclidean_by_product(x, y) if by_product else norms.norm(_gaps(x, y), 2.0, -1)


def _ratio(g: Operand, out: Operand) -> Operand:
    """Return g / out, and 0 where rows are equal."""
    if type(g) is np.ndarray and type(out) is np.ndarray:
        return np.divide(g, out, out=np.zeros_like(out), where=out != 0)
    still = comparison.eq(out, 0.0)
    return select.where(still, 0.0, arithmetic.div(g, select.where(still, 1.0, out)))


def _row_gradient(g: Operand, x: Operand, y: Operand, out: Operand, by_product: bool) -> Operand:
    """Return Σⱼ g[i, j] (x[i] - y[j]) / out[i, j]."""
    ratio = _ratio(g, out)
    if type(ratio) is np.ndarray and type(x) is type(y) is np.ndarray:
        if by_product:
            return x * add_up(ratio, (ratio.ndim - 1,), True) - multiply_matrices(ratio, y)
        return add_up(ratio[..., None] * (x[..., None, :] - y[..., None, :, :]), (ratio.ndim - 1,), False)
    x, y, ratio = (a if isinstance(a, Tensor) else constant(a) for a in (x, y, ratio))
    if by_product:
        return arithmetic.sub(arithmetic.mul(x, reduce.sum(ratio, -1, True)), ratio @ y)
    return reduce.sum(arithmetic.mul(shape.unsqueeze(ratio, -1), _gaps(x, y)), -2)


@with_eager_fast_path(
    composite=_composite,
    node="CdistBackward0",
    dx=_row_gradient,
    dy=lambda g, x, y, out, by_product: _row_gradient(transpose(g), y, x, transpose(out), by_product),
)
def _euclidean(x: Array, y: Array, *, by_product: bool) -> Operand:
    if not by_product:
        gaps = np.subtract(x[..., None, :], y[..., None, :, :])
        return np.sqrt(add_up(np.square(gaps), (gaps.ndim - 1,), False))
    total = multiply_matrices(x, transpose(y))
    total *= -2.0
    total += add_up(np.square(x), (x.ndim - 1,), True)
    total += transpose(add_up(np.square(y), (y.ndim - 1,), True))
    np.maximum(total, 0.0, out=total)
    return np.sqrt(total, out=total)


def _euclidean_by_product(x: Operand, y: Operand) -> Tensor:
    """Return √(‖x[i]‖² + ‖y[j]‖² - 2 x[i] · y[j]): quick, and as in PyTorch inexact where the rows are nearly equal."""
    squares = [reduce.sum(arithmetic.square(a), -1, True) for a in (x, y)]
    products = arithmetic.mul(x @ shape.transpose(y, -2, -1), -2.0)
    total = arithmetic.add(arithmetic.add(products, squares[0]), shape.transpose(squares[1], -2, -1))
    return safe_sqrt(arithmetic.maximum(total, 0.0))


def _pair_indices(n: int) -> tuple[Array, Array]:
    first, second = np.triu_indices(n, 1)
    return first, second


def _pdist_dx(g: Operand, x: Operand, p: float) -> Tensor:
    """Return the gradient of each distance, taken to both of its rows."""
    first, second = map(constant, _pair_indices(x.shape[0]))
    gaps = arithmetic.sub(indexing.index(x, first, pattern=(0,)), indexing.index(x, second, pattern=(0,)))
    distances = norms.norm(gaps, p, -1, True)
    zero = comparison.eq(distances, 0.0)
    safe = select.where(zero, 1.0, distances)
    size = arithmetic.abs(gaps)
    if p == 0:
        slope = arithmetic.mul(gaps, 0.0)
    elif np.isinf(p):
        slope = arithmetic.sign(gaps) * select.cast(comparison.eq(size, distances), dtype=gaps.array.dtype)
    else:
        raised = arithmetic.pow(select.where(comparison.eq(size, 0.0), 1.0, size / safe), p - 1.0)
        slope = arithmetic.sign(gaps) * raised
    each = select.where(zero, 0.0, slope) * movement.reshape(g, shape=(g.shape[0], 1))
    given, taken = (indexing.index_add(each, at, shape=tuple(x.shape), pattern=(0,)) for at in (first, second))
    return arithmetic.sub(given, taken)


@primitive(
    spec=lambda x, *, p: Spec((x.shape[0] * (x.shape[0] - 1) // 2,), x.dtype), node="PdistBackward0", dx=_pdist_dx
)
def _pdist(x: Array, *, p: float) -> Array:
    first, second = _pair_indices(x.shape[0])
    size = np.abs(x[first] - x[second])
    if p == 2:
        return np.sqrt(np.square(size).sum(-1))
    if p == 0:
        return (size != 0).sum(-1).astype(x.dtype)
    if np.isinf(p):
        return size.max(-1, initial=0)
    return ((size**p).sum(-1) ** (1.0 / p)).astype(x.dtype, copy=False)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """Return ‖x[i] - x[j]‖ₚ for all pairs of rows i < j of a matrix, as a vector.

    Raises: RuntimeError for other ranks and p < 0.
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    return _pdist(input, p=float(p))


@public(inplace=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Return `input` whose slices along `dim` with a p-norm above `maxnorm` are shortened to it.

    Raises: RuntimeError for p ≤ 0, a negative `maxnorm`, and below two dimensions.
    """
    axis = one_dim(dim, input.ndim)
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    length = norms.norm(input, p, tuple(d for d in range(input.ndim) if d != axis), True)
    scale = arithmetic.div(maxnorm, arithmetic.add(length, 1e-7))
    factor = select.where(comparison.gt(length, maxnorm), scale, np.ones((), input.array.dtype))
    return rename_node(arithmetic.mul(input, factor), "RenormBackward0")
