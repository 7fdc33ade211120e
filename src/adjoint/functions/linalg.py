"""Linear algebra on stacks of matrices, `adjoint.linalg`: what NumPy computes, with gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from adjoint.core.mode import mode, unusual
from adjoint.core.tensor import Tensor, constant
from adjoint.functions import gather, joining, linear, products, reduce, shape
from adjoint.functions.products import matrix_power
from adjoint.functions.surface import named, public
from adjoint.ops import arithmetic, comparison, linalg, reduction, selection, transcendental
from adjoint.ops.joint import parts

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "inverse", "logdet", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "norm", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "vector_norm",
]  # fmt: skip


class SignAndLogarithm(NamedTuple):
    """What `slogdet` returns."""

    sign: Tensor
    logabsdet: Tensor


class Eigen(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class Orthogonal(NamedTuple):
    """What `qr` returns."""

    Q: Tensor
    R: Tensor


class Singular(NamedTuple):
    """What `svd` returns."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _check(name: str, A: Tensor, square: bool = True) -> None:
    if A.ndim < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")
    if A.array.dtype.kind not in "fc":
        raise RuntimeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {A.dtype}")
    m, n = A.array.shape[-2:]
    if square and m != n:
        raise RuntimeError(f"linalg.{name}: A must be batches of square matrices, but they are {m} by {n} matrices")


def inv(A: Tensor) -> Tensor:
    """A⁻¹. Raises RuntimeError for a singular matrix."""
    _check("inv", A)
    return linalg.inv(A)


inverse = inv
setattr(Tensor, "inverse", inv)  # noqa: B010  mypy would take a plain assignment for a mistake


@public()
def det(A: Tensor) -> Tensor:
    """The determinant; its gradient needs an inverse."""
    _check("det", A)
    return linalg.det(A)


@public()
def slogdet(A: Tensor) -> SignAndLogarithm:
    """The sign of the determinant, and ln |det|."""
    _check("slogdet", A)
    both = joining.stack([linalg.sign_of_det(A), linalg.logabsdet(A)], -1)
    return SignAndLogarithm(*parts(both, ((), ()), "LinalgSlogdetBackward0"))


@public()
def logdet(A: Tensor) -> Tensor:
    """ln det, NaN for a negative determinant."""
    _check("logdet", A)
    sign, size = slogdet(A)
    return size + transcendental.log(sign)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B, or X A = B unless `left`; B is a matrix, or a vector for each matrix."""
    _check("solve", A)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.array.shape == A.array.shape[:-1])
    b = shape.unsqueeze(B, -1) if vector else B
    if b.array.shape[-2 if left else -1] != A.array.shape[-1]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.array.shape[-2]}x{A.array.shape[-1]} and {b.array.shape[-2]}x{b.array.shape[-1]})"
        )
    if not left:
        return linalg.transposed(linalg.solve(linalg.transposed(A), linalg.transposed(b)))
    out = linalg.solve(A, b)
    return shape.squeeze(out, -1) if vector else out


@public()
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangle L with L Lᵀ = A, or its transpose. Raises RuntimeError unless A is positive definite."""
    _check("cholesky", A)
    out = linalg.cholesky(_read_below(linalg.transposed(A) if upper else A))
    return linalg.transposed(out) if upper else out


def _read_below(A: Tensor) -> Tensor:
    """A with what lies above the diagonal replaced by what lies below; the gradient is that of a symmetric matrix."""
    array = A.array
    readable = type(array) is np.ndarray and not (unusual.count and mode.special)
    if readable and np.array_equal(array, np.swapaxes(array, -1, -2)):
        return A
    x = A.detach()
    above = linalg.transposed(gather.tril(x, -1))
    return arithmetic.add(A, arithmetic.sub(arithmetic.add(gather.tril(x), above), x))


def eigh(A: Tensor, UPLO: str = "L") -> Eigen:
    """Eigenvalues, rising, and eigenvectors, as columns, of symmetric matrices, of which one triangle is read.

    Raises RuntimeError for a `UPLO` but "L" and "U".
    """
    _check("eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    x = _read_below(A if UPLO.upper() == "L" else linalg.transposed(A))
    return Eigen(*parts(linalg.eigh(x), linalg.eigh_shapes(A.array.shape), "LinalgEighBackward0"))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, rising."""
    return eigh(A, UPLO).eigenvalues


@public()
def qr(A: Tensor, mode: str = "reduced") -> Orthogonal:
    """Q with orthonormal columns and upper triangular R, A = Q R. RuntimeError for modes but "reduced", "r"."""
    _check("qr", A, square=False)
    if mode not in ("reduced", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default) or 'r'")
    q, r = parts(linalg.qr(A), linalg.qr_shapes(A.array.shape), "LinalgQrBackward0", mode=mode)
    return Orthogonal(q if mode == "reduced" else constant(np.zeros(0, A.array.dtype)), r)


def svd(A: Tensor, full_matrices: bool = False) -> Singular:
    """U, S and Vᵀ with A = U diag(S) Vᵀ; full matrices have no gradient."""
    _check("svd", A, square=False)
    m, n = A.array.shape[-2:]
    if full_matrices and m != n:
        if A.requires_grad:
            raise RuntimeError("svd: gradients need full_matrices=False")
        return Singular(*(constant(part) for part in np.linalg.svd(A.numpy_view("svd()"))))
    return Singular(*parts(linalg.svd(A), linalg.svd_shapes(A.array.shape), "LinalgSvdBackward0"))


def svdvals(A: Tensor) -> Tensor:
    """The singular values, falling."""
    return svd(A).S


def pinv(A: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudoinverse, by way of the singular values above rcond · the largest."""
    u, s, vh = svd(A)
    values = s.detach()
    if not values.numel():
        return linalg.transposed(A)
    largest = reduction.max(values, axes=(values.ndim - 1,), keepdims=True)
    small = comparison.le(values, arithmetic.mul(largest, rcond))
    inverted = selection.where(small, 0.0, 1.0 / selection.where(small, 1.0, s))
    scaled = linalg.transposed(vh) * shape.unsqueeze(inverted, -2)
    return linear.matmul(scaled, linalg.transposed(u))


def matrix_rank(A: Tensor, *, tol: float | None = None, hermitian: bool = False) -> Tensor:
    """How many singular values are above a tolerance."""
    return constant(np.asarray(np.linalg.matrix_rank(A.detach().numpy_view("matrix_rank()"), tol, hermitian), np.int64))


def vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """(Σ|x|ᵖ)^(1/p) over `dim`, or of all elements."""
    return reduce.norm(x, ord, dim, keepdim, dtype=dtype)


def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Frobenius' norm, the nuclear norm, the largest (or smallest) sum of a row or column, or the spectral norm."""
    rows, columns = dim
    if ord == "fro":
        return reduce.norm(A, 2, (rows, columns), keepdim, dtype=dtype)
    if ord in ("nuc", 2, -2):
        values: Any = svdvals(shape.movedim(A, (rows, columns), (-2, -1)))
        out = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord == 2 else values.amin(-1)
        kept = [1 if d in (rows % A.ndim, columns % A.ndim) else n for d, n in enumerate(A.array.shape)]
        return shape.reshape(out, tuple(kept)) if keepdim else out
    if ord not in (1, -1, np.inf, -np.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums: Any = reduction.sum(abs(A), axes=(first % A.ndim,), keepdims=True)
    out = sums.amax(second, True) if ord > 0 else sums.amin(second, True)
    return out if keepdim else shape.squeeze(out, (rows, columns))


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """`vector_norm` or `matrix_norm`, by the number of dimensions that are meant."""
    if ord is None:
        return reduce.norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None and A.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    both = isinstance(dim, (tuple, list)) and len(dim) == 2
    if both or (dim is None and A.ndim == 2):
        return matrix_norm(A, ord, dim or (-2, -1), keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """x × y of vectors of three elements along `dim`."""
    if input.ndim != other.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions, got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    return products.cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of a stack of matrices: a view."""
    x: Any = A
    return named(x.diagonal(offset, dim1, dim2), "DiagonalBackward0")


matmul = linear.matmul
