"""Numbers of matrices and vectors: norms, condition, rank, determinants."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, numpy_dtype
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import DtypeLike, Operand
from adjoint.functions.api.dim_args import Dims, all_dims, one_dim
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public
from adjoint.functions.linalg.checks import check_linalg_dtype, check_matrix_stack, check_square
from adjoint.functions.linalg.solve import resolve_tolerances
from adjoint.functions.reduction import reduce
from adjoint.functions.shape import shape
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.linalg import eig_svd, inverse_det_solve, lstsq
from adjoint.ops.multi_output import split_outputs
from adjoint.ops.reduction import reduction


class SlogdetResult(NamedTuple):
    """Result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


@with_out
def det(A: Tensor) -> Tensor:
    """Return the determinant of each square matrix.

    Args:
        A: floating or complex tensor.
        out: tensor that takes the result.

    Shapes: (*, n, n) -> (*).

    Raises: RuntimeError unless the matrices are square.

    Example:
        >>> ad.linalg.det(ad.tensor([[2.0, 1.0], [0.0, 3.0]]))
        tensor(6.)
    """
    check_square("linalg.det", A)
    return inverse_det_solve.det(A)


@with_out
def slogdet(A: Tensor) -> SlogdetResult:
    """Return the sign of the determinant, and ln |det|."""
    check_square("linalg.slogdet", A)
    if A.array.dtype.kind == "c":
        return SlogdetResult(inverse_det_solve.sign_of_det(A), inverse_det_solve.logabsdet(A))
    return SlogdetResult(*split_outputs(inverse_det_solve.slogdet(A), ((), ()), "LinalgSlogdetBackward0"))


@with_out
def matrix_rank(
    A: Tensor,
    tol: Tensor | float | None = None,
    hermitian: bool = False,
    *,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
) -> Tensor:
    """Return the number of singular values above max(atol, rtol · the largest).

    Tolerances are numbers or tensors, one for each matrix; `tol` is the older name of atol. `hermitian`: A is
    symmetric, and its eigenvalues are counted.
    """
    check_matrix_stack("torch.linalg.matrix_rank", A, "input")
    hermitian = hermitian and A.numel() > 0
    if hermitian:
        check_square("linalg.eigvalsh", A)
    if tol is not None and rtol is None:
        rtol = 0.0
    A, atol, rtol = resolve_tolerances(A.detach(), tol if atol is None else atol, rtol)
    return lstsq.rank(A, atol, rtol, hermitian=hermitian)


@public(method=False)
def vector_norm(
    x: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: DtypeLike = None
) -> Tensor:
    """Return (Σ |x|ᵖ)^(1/p) over `dim`, or over all; ±inf: the extreme magnitude; 0: how many are not 0.

    Raises RuntimeError for the extreme of nothing, and for a `dtype` that is narrower than that of x.
    """
    if isinstance(ord, str):
        raise TypeError(f"linalg_vector_norm(): argument 'ord' (position 2) must be Number, not str: {ord!r}")
    _check_real_order("linalg.vector_norm", ord)
    _check_norm_dtype("linalg.vector_norm", x, dtype)
    axes = all_dims(dim, x.ndim)
    if (ord < 0 or math.isinf(ord)) and 0 in [x.array.shape[a] for a in axes]:
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have "
            "an identity"
        )
    return reduce.power_norm(x, ord, dim, keepdim, dtype=dtype)


def _check_real_order(name: str, ord: complex | str) -> None:
    if isinstance(ord, complex):
        raise RuntimeError(f"{name}: Expected a non-complex scalar as the order of norm.")


def _check_norm_dtype(name: str, x: Tensor, dtype: DtypeLike) -> None:
    if x.array.dtype.kind not in "fcV":
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {x.dtype}")
    if dtype is None:
        return
    wanted = numpy_dtype(dtype)
    if wanted.kind not in "fcV" or DTYPES[wanted].rank < x.dtype.rank:
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {DTYPES[wanted]}")
    if wanted.itemsize < x.array.dtype.itemsize:
        raise RuntimeError(
            f"{name}: the dtype of the input ({x.dtype}) should be convertible without narrowing to the specified "
            f"dtype ({DTYPES[wanted]})"
        )


@public(method=False)
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Dims = (-2, -1), keepdim: bool = False, *, dtype: DtypeLike = None
) -> Tensor:
    """Return √Σ x² ("fro"), Σ of singular values ("nuc"), extremes of those (±2) or of column or row sums (±1, ±inf).

    Raises RuntimeError for other orders.
    """
    name = "linalg.matrix_norm"
    if not isinstance(dim, (tuple, list)):
        raise TypeError(f"linalg_matrix_norm(): argument 'dim' must be tuple of ints, not {type(dim).__name__}")
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    _check_real_order(name, ord)
    if (isinstance(ord, str) and ord not in ("fro", "nuc")) or ord not in ("fro", "nuc", *_ORDERS):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    _check_norm_dtype(name, A, dtype)
    rows, columns = (one_dim(d, A.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return reduce.power_norm(A, 2, (rows, columns), keepdim, dtype=dtype)
    x = A if dtype is None else select.cast(A, dtype=numpy_dtype(dtype))
    if ord in ("nuc", 2, -2):
        check_linalg_dtype(name, A)
        values = eig_svd.svdvals(shape.movedim(x, (rows, columns), (-2, -1)))
        out = values.sum(-1) if ord == "nuc" else _max_or_min(values, -1, ord > 0, False)
        kept = [1 if d in (rows, columns) else n for d, n in enumerate(A.array.shape)]
        return shape.reshape(out, tuple(kept)) if keepdim else out
    first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = reduction.sum(arithmetic.abs(x), axes=(first,), keepdims=True)
    out = _max_or_min(sums, second, ord > 0, True)
    return out if keepdim else shape.squeeze(out, (rows, columns))


_ORDERS = (1, -1, 2, -2, math.inf, -math.inf)


def _max_or_min(x: Tensor, dim: int, largest: bool, keepdim: bool) -> Tensor:
    """Return the largest or smallest along `dim`; the largest of nothing is 0, without a history."""
    axis = one_dim(dim, x.ndim)
    if not x.array.shape[axis]:
        if not largest and math.prod(n for d, n in enumerate(x.array.shape) if d != axis):
            raise IndexError(
                "linalg.matrix_norm: the smallest of no sums or singular values has no value, where one of the matrix "
                "dimensions has size 0"
            )
        return reduction.sum(x.detach(), axes=(axis,), keepdims=keepdim)
    return (reduction.max if largest else reduction.min)(x, axes=(axis,), keepdims=keepdim)


@public(method=False)
def norm(
    A: Tensor, ord: float | str | None = None, dim: Dims = None, keepdim: bool = False, *, dtype: DtypeLike = None
) -> Tensor:
    """Return a norm of vectors or of matrices.

    Without `ord`, the result is √Σ|x|² over any number of dimensions. With `ord`, one dimension means a vector norm
    (Σ|x|ᵖ)^(1/p), two dimensions a matrix norm.

    Args:
        A: floating or complex tensor.
        ord: order. For vectors a number: ±inf for the extreme magnitude, 0 for the count of elements that are not 0.
            For matrices "fro", "nuc" (sum of singular values), ±2 (their extremes), ±1 (extremes of column sums) or
            ±inf (extremes of row sums). Default: None.
        dim: dimension, or tuple of one or two of them. Default: None, all.
        keepdim: True to keep the reduced dimensions with size 1. Default: False.
        dtype: type to which the elements are converted first; it must not be narrower. Default: that of A.
        out: tensor that takes the result.

    Raises: RuntimeError for integers, for another order, and for an order of more than two dimensions.

    Example:
        >>> A = ad.tensor([[3.0, 4.0], [0.0, 12.0]])
        >>> ad.linalg.norm(A), ad.linalg.norm(A, dim=1), ad.linalg.norm(A, 1)
        (tensor(13.), tensor([ 5., 12.]), tensor(16.))
    """
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is None:
        return vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if dims is None and A.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    if isinstance(ord, str) or len(dims or A.array.shape) == 2:
        return matrix_norm(A, ord, dims or (-2, -1), keepdim, dtype=dtype)
    return vector_norm(A, ord, dims, keepdim, dtype=dtype)


@with_out
def cond(A: Tensor, p: Operand = None) -> Tensor:
    """Return |A| |A⁻¹| in the norm p of `matrix_norm`, 2 unless given; inf for a singular matrix.

    Raises: RuntimeError below two dimensions and for another p.
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p is None or p in (2, -2):
        check_linalg_dtype("linalg.svd", A)
        if not A.numel():
            return constant(np.zeros(A.array.shape[:-2], A.array.dtype))
        values = eig_svd.svdvals(A)
        first, last = shape.select(values, -1, 0), shape.select(values, -1, -1)
        return arithmetic.div(last, first) if p == -2 else arithmetic.div(first, last)
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    check_square(f"linalg.cond(ord={p})", A)
    if not A.numel():
        return constant(np.zeros(A.array.shape[:-2], A.array.dtype))
    if p == "nuc":
        values = eig_svd.svdvals(A)
        return values.sum(-1) * (1.0 / values).sum(-1)
    singular = comparison.ne(inverse_det_solve.singular_at(A.detach()), 0)
    size = arithmetic.mul(matrix_norm(A, p), matrix_norm(inverse_det_solve.inv(A, name=""), p))
    return select.where(singular, math.inf, size)
