"""Eigenvalues and singular values of stacks of matrices."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api.out import with_out
from adjoint.functions.linalg.checks import check_matrix_stack, check_square
from adjoint.functions.linalg.factorizations import read_upper_triangle
from adjoint.ops.elementwise.complex import real
from adjoint.ops.linalg import eig_svd
from adjoint.ops.multi_output import compute_outputs, split_outputs


class EigResult(NamedTuple):
    """Result of `eigh` and `eig`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class LinalgSvdResult(NamedTuple):
    """Result of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@with_out
def eigh(A: Tensor, UPLO: str = "L") -> EigResult:
    """Return the eigenvalues, ascending, and the eigenvectors of symmetric or Hermitian matrices.

    The eigenvectors are the columns of the second result. Their signs are arbitrary, so a loss must not depend on them.

    Args:
        A: square matrices, floating or complex; one triangle is read.
        UPLO: "L" to read the lower triangle, "U" the upper. Default: "L".
        out: pair of tensors that take the result.

    Shapes: (*, n, n) -> eigenvalues (*, n), eigenvectors (*, n, n).

    Raises: RuntimeError for matrices that are not square, and for another `UPLO`.

    Example:
        >>> A = ad.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=ad.float64)
        >>> values, vectors = ad.linalg.eigh(A)
        >>> values.round(), ad.allclose(A @ vectors, vectors * values)
        (tensor([1., 3.], dtype=adjoint.float64), True)
    """
    lower = _with_lower_triangle("linalg.eigh", A, UPLO)
    found = compute_outputs(lower, eig_svd.find_eigenpairs)
    if found is not None:
        return EigResult(*found)
    packed = eig_svd.eigh(lower, triangle=True)
    values, vectors = split_outputs(packed, eig_svd.eigh_shapes(A.array.shape), "LinalgEighBackward0")
    return EigResult(real(values), vectors)


@with_out
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Return the eigenvalues of symmetric matrices, rising."""
    return eig_svd.eigvalsh(_with_lower_triangle("linalg.eigvalsh", A, UPLO), triangle=True)


def _with_lower_triangle(name: str, A: Tensor, UPLO: str) -> Tensor:
    """Return matrices whose lower triangle is the one that `UPLO` names, and checked."""
    check_square(name, A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return A if UPLO.upper() == "L" else read_upper_triangle(A)


@with_out
def eig(A: Tensor) -> EigResult:
    """Return the eigenvalues and the eigenvectors of length 1, as columns, of square matrices: complex, in no order."""
    check_square("linalg.eig", A)
    return EigResult(*split_outputs(eig_svd.eig(A), eig_svd.eigh_shapes(A.array.shape), "LinalgEigBackward0"))


@with_out
def eigvals(A: Tensor) -> Tensor:
    """Return the eigenvalues of square matrices: complex numbers, in no order."""
    check_square("linalg.eigvals", A)
    return split_outputs(eig_svd.eig(A), eig_svd.eigh_shapes(A.array.shape), "LinalgEigBackward0")[0]


@with_out
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> LinalgSvdResult:
    """Return the factors (U, S, Vh) of the singular value decomposition A = U diag(S) Vh.

    The singular values S descend. The columns of U and the rows of Vh are orthonormal. Their signs are arbitrary, so a
    loss must not depend on them.

    Args:
        A: floating or complex matrices.
        full_matrices: True for square U and Vh, whose surplus vectors have no gradient. Default: True.
        driver: must be None.
        out: tuple of three tensors that take the result.

    Shapes: with k = min(m, n), (*, m, n) -> U (*, m, k), S (*, k), Vh (*, k, n); full: U (*, m, m), Vh (*, n, n).

    Raises: RuntimeError for fewer than two dimensions, and for a `driver`.

    Example:
        >>> A = ad.tensor([[3.0, 0.0], [4.0, 5.0]], dtype=ad.float64)
        >>> U, S, Vh = ad.linalg.svd(A, full_matrices=False)
        >>> ad.allclose(U @ ad.diag(S) @ Vh, A), S
        (True, tensor([6.7082, 2.2361], dtype=adjoint.float64))
    """
    check_matrix_stack("linalg.svd", A)
    refuse_driver("svd", driver)
    m, n = A.array.shape[-2:]
    full = full_matrices and m != n
    found = compute_outputs(A, lambda x: eig_svd.find_singular_vectors(x, full))
    if found is not None:
        return LinalgSvdResult(*found)
    shapes = eig_svd.svd_shapes(A.array.shape, full)
    U, S, Vh = split_outputs(eig_svd.svd(A, full=full), shapes, "LinalgSvdBackward0")
    return LinalgSvdResult(U, real(S), Vh)


@with_out
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Return the singular values, falling."""
    check_matrix_stack("linalg.svdvals", A)
    refuse_driver("svdvals", driver)
    return eig_svd.svdvals(A)


def refuse_driver(name: str, driver: str | None) -> None:
    """Raise RuntimeError for a driver: there are several on graphics processors only."""
    if driver is not None:
        raise RuntimeError(
            f"torch.linalg.{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
