"""Quadratic forms and determinants of matrices in factored form: Cholesky, or diagonal plus low rank."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation import creation
from adjoint.functions.linalg.factorizations import cholesky
from adjoint.functions.linalg.solve import solve_triangular


def multiply_vector(matrix: Tensor, vector: Tensor) -> Tensor:
    """Ax: (…, m, n), (…, n) → (…, m)."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """xᵀ(LLᵀ)⁻¹x = |L⁻¹x|²: (…, n, n), (…, n) → (…)."""
    if factor.dim() > 2:
        return solve_triangular(factor, x.unsqueeze(-1), upper=False).pow(2).sum((-2, -1))
    columns = x.reshape(-1, x.size(-1)).mT
    return solve_triangular(factor, columns, upper=False).pow(2).sum(0).reshape(x.shape[:-1])


def half_log_det(factor: Tensor) -> Tensor:
    """½ log det LLᵀ = Σ log Lᵢᵢ: (…, n, n) → (…)."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def trace_of_square(matrix: Tensor) -> Tensor:
    """tr AAᵀ = Σ Aᵢⱼ²: (…, m, n) → (…)."""
    return matrix.pow(2).sum((-2, -1))


def cholesky_of_inverse(precision: Tensor) -> Tensor:
    """L with LLᵀ = P⁻¹, from the Cholesky factor of P with its rows and columns in the opposite order."""
    flipped = cholesky(precision.flip((-2, -1)))
    inverse = flipped.flip((-2, -1)).mT
    return solve_triangular(inverse, creation.eye(precision.size(-1), dtype=precision.dtype), upper=False)


def capacitance_cholesky(w: Tensor, d: Tensor) -> Tensor:
    """The Cholesky factor of I + WᵀD⁻¹W: (…, n, m), (…, n) → (…, m, m)."""
    return cholesky((w.mT / d.unsqueeze(-2)) @ w + creation.eye(w.size(-1), dtype=w.dtype))


def low_rank_log_det(w: Tensor, d: Tensor, factor: Tensor) -> Tensor:
    """log det(WWᵀ + D), by the matrix determinant lemma."""
    return 2 * half_log_det(factor) + d.log().sum(-1)


def low_rank_mahalanobis(w: Tensor, d: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    """xᵀ(WWᵀ + D)⁻¹x, by Woodbury's identity."""
    return (x.pow(2) / d).sum(-1) - mahalanobis(factor, multiply_vector(w.mT / d.unsqueeze(-2), x))


def pick_exactly_one(**matrices: Tensor | None) -> tuple[str, Tensor]:
    """Return the name and value of the given matrix. Raises ValueError unless it is exactly one."""
    given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
    if len(given) != 1:
        raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    return given[0]


def cholesky_from(name: str, matrix: Tensor) -> Tensor:
    """L, with LLᵀ the covariance, from L, the covariance or its inverse."""
    if name == "scale_tril":
        return matrix
    return cholesky(matrix) if name == "covariance_matrix" else cholesky_of_inverse(matrix)
