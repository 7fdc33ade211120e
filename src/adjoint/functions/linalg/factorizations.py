"""Factors of stacks of matrices: Cholesky's, Q and R, and products of reflectors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.functions.api.out import with_out
from adjoint.functions.linalg import matmul
from adjoint.functions.linalg.checks import check_linalg_dtype, check_matrix_stack, check_square
from adjoint.functions.shape import diag_tril, shape
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.linalg import cholesky_qr, matrices, packed_factors, triangular
from adjoint.ops.multi_output import compute_outputs, split_outputs


class QrResult(NamedTuple):
    """Result of `qr`."""

    Q: Tensor
    R: Tensor


class CholeskyExResult(NamedTuple):
    """Result of `cholesky_ex`."""

    L: Tensor
    info: Tensor


class GeqrfResult(NamedTuple):
    """Result of `geqrf`."""

    a: Tensor
    tau: Tensor


@with_out
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """Return the lower triangular L with L Lᴴ = A of positive-definite matrices.

    Args:
        A: symmetric or Hermitian matrices, floating or complex; one triangle is read.
        upper: True to read the upper triangle and return the upper factor Lᴴ. Default: False.
        out: tensor that takes the result.

    Shapes: (*, n, n) -> (*, n, n).

    Raises: LinAlgError, a RuntimeError, for a matrix that is not positive-definite.

    Example:
        >>> ad.linalg.cholesky(ad.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    return factor_cholesky("linalg.cholesky", A, upper)


@with_out
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyExResult:
    """Return `cholesky` and the order of the first leading minor that is not positive-definite, or 0, without an error.

    A matrix that has no factor gives NaN. `check_errors`: raise LinAlgError all the same.
    """
    out = factor_cholesky("linalg.cholesky_ex", A, upper, check_errors)
    read = A.detach()
    read = matrices.adjoint(read) if upper else read
    return CholeskyExResult(out, cholesky_qr.minor_not_positive(read, triangle=True))


def factor_cholesky(name: str, A: Tensor, upper: bool, raises: bool = True) -> Tensor:
    """Return Cholesky's factor, and errors by the name of what was called."""
    check_square(name, A)
    read = read_upper_triangle(A) if upper else A
    out = cholesky_qr.cholesky(read, name=name if raises else "", triangle=True)
    return matrices.adjoint(out) if upper else out


def read_upper_triangle(A: Tensor) -> Tensor:
    """Return Hermitian matrices whose lower triangle is the upper one of A, conjugated.

    A complex gradient is not Hermitian: it goes to A as it is, as that of a symmetric matrix.
    """
    array = A.array
    if array.dtype.kind != "c":
        return matrices.adjoint(A)
    readable = type(array) is np.ndarray and not (nondefault.count and mode.is_intercepted)
    if readable and np.array_equal(array, np.swapaxes(array, -1, -2).conj()):
        return A
    x = A.detach()
    read = matrices.adjoint(x)
    above = matrices.adjoint(diag_tril.tril(read, -1))
    return arithmetic.add(A, arithmetic.sub(arithmetic.add(diag_tril.tril(read), above), x))


@with_out
def qr(A: Tensor, mode: str = "reduced") -> QrResult:
    """Return (Q, R) with A = Q R, orthonormal columns in Q, and an upper triangular R.

    Args:
        A: floating or complex matrices.
        mode: "reduced"; "complete" for a square Q; "r" for R alone with an empty Q, without gradients. Default:
            "reduced".
        out: pair of tensors that take the result.

    Shapes: with k = min(m, n), (*, m, n) -> Q (*, m, k), R (*, k, n); complete: Q (*, m, m), R (*, m, n).

    Raises: RuntimeError for another `mode`.

    Example:
        >>> A = ad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=ad.float64)
        >>> Q, R = ad.linalg.qr(A)
        >>> Q.shape, R.shape, ad.allclose(Q @ R, A)
        (adjoint.Size([3, 2]), adjoint.Size([2, 2]), True)
    """
    check_matrix_stack("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    found = compute_outputs(A, lambda x: cholesky_qr.find_q_r(x, mode)) if mode != "r" else None
    if found is not None:
        return QrResult(*found)
    shapes = cholesky_qr.qr_shapes(A.array.shape, mode)
    q, r = split_outputs(cholesky_qr.qr(A, mode=mode), shapes, "LinalgQrBackward0", mode=mode)
    return QrResult(q if mode != "r" else constant(np.zeros(0, A.array.dtype)), r)


@with_out
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """Return the first columns of ∏ (1 - τ v vᵀ), the v being the columns of `input` below a 1 on the diagonal.

    With S what is above the diagonal of Vᵀ V it is 1 - V (1 + diag(τ) S)⁻¹ diag(τ) Vᵀ.
    Raises: RuntimeError for more columns than rows.

    Source: Joffrain and others, "Accumulating Householder transformations, revisited", 2006.
    """
    _check_reflectors("torch.linalg.householder_product", input, tau)
    m, n = input.array.shape[-2:]
    if m < n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    first = constant(np.eye(m, n, dtype=input.array.dtype))
    return apply_reflectors(input, tau, first, left=True, transpose=False)


def _check_reflectors(name: str, input: Tensor, tau: Tensor) -> None:
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    check_linalg_dtype(name, input)
    if tau.ndim != input.ndim - 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {input.ndim}"
        )
    if input.array.shape[-1] < tau.array.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if input.array.shape[:-2] != tau.array.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(tau.array.shape[:-1])}"
        )
    if input.array.dtype != tau.array.dtype:
        raise RuntimeError(f"{name}: tau dtype {tau.dtype} does not match input dtype {input.dtype}")


def apply_reflectors(input: Tensor, tau: Tensor, other: Tensor, left: bool, transpose: bool) -> Tensor:
    """Return Q other, or other Q, or these with Qᵀ if `transpose`, of the product Q of reflectors."""
    k = tau.array.shape[-1]
    some = shape.narrow(input, -1, 0, k)
    m = some.array.shape[-2]
    v = packed_factors.lower(some) + constant(np.eye(m, k, dtype=some.array.dtype))
    vt = matrices.adjoint(v)
    one, d = np.eye(k, dtype=bool), shape.unsqueeze(tau, -1)
    above = packed_factors.upper(matmul.matmul(vt, v)) * (~one).astype(some.array.dtype)
    middle = triangular.solve_triangular(d * above, packed_factors.diagonal(tau), upper=True, unitriangular=True)
    middle = matrices.adjoint(middle) if transpose else middle
    if left:
        return other - matmul.matmul(v, matmul.matmul(middle, matmul.matmul(vt, other)))
    return other - matmul.matmul(matmul.matmul(matmul.matmul(other, v), middle), vt)


@with_out
def geqrf(input: Tensor) -> GeqrfResult:
    """Return R, and below it the reflectors whose product is Q, with their factors τ; no gradient is known.

    Raises: RuntimeError below two dimensions.
    """
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check_linalg_dtype("torch.geqrf", input)
    shapes = cholesky_qr.reflector_shapes(input.array.shape)
    return GeqrfResult(*split_outputs(cholesky_qr.geqrf(input), shapes, "GeqrfBackward0"))


@with_out
def orgqr(input: Tensor, tau: Tensor) -> Tensor:
    """Return `linalg.householder_product`, under its older name."""
    return householder_product(input, tau)


@with_out
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Return Q other, or other Q unless `left`, of the whole square product Q of reflectors, or its transpose.

    Raises: RuntimeError for sizes that do not fit.
    """
    _check_reflectors("torch.ormqr", input, tau)
    if other.ndim < 2:
        raise RuntimeError("torch.ormqr: other must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.array.shape[side] != input.array.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if other.array.shape[:-2] != input.array.shape[:-2]:
        raise RuntimeError(
            "torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], but got "
            f"{list(other.array.shape[:-2])}"
        )
    return apply_reflectors(input, tau, other, left, transpose)
