"""Linear algebra under the names that stand at the top of the library, which differ from those of `adjoint.linalg`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.linalg import eig_svd, factorizations, lu_ldl, matrix_functions, norms_det, solve
from adjoint.functions.linalg.checks import check_same_dtype, check_solve_shapes, check_square
from adjoint.functions.linalg.lu_ldl import LuFactorExResult
from adjoint.functions.shape import shape
from adjoint.ops.elementwise import transcendental
from adjoint.ops.linalg import matrices, triangular

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "geqrf", "inverse", "logdet", "lu", "lu_solve",
    "lu_unpack", "matrix_exp", "orgqr", "ormqr", "pinverse", "qr", "slogdet", "svd", "triangular_solve",
]  # fmt: skip


class SvdResult(NamedTuple):
    """Result of `svd`."""

    U: Tensor
    S: Tensor
    V: Tensor


class TriangularSolveResult(NamedTuple):
    """Result of `triangular_solve`."""

    solution: Tensor
    cloned_coefficient: Tensor


det, slogdet = public()(norms_det.det), public()(norms_det.slogdet)
inverse = solve.inv
setattr(Tensor, "inverse", inverse)  # noqa: B010  mypy would take a plain assignment for a mistake
matrix_exp = public()(matrix_functions.matrix_exp)
lu_unpack = lu_ldl.lu_unpack
geqrf, orgqr, ormqr = (public()(f) for f in (factorizations.geqrf, factorizations.orgqr, factorizations.ormqr))


@public()
def logdet(input: Tensor) -> Tensor:
    """Return ln det, NaN for a negative determinant."""
    check_square("linalg.slogdet", input)
    sign, size = slogdet(input)
    return size + transcendental.log(sign)


@public()
@with_out
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """Return `linalg.cholesky`, with `upper` by position too."""
    return factorizations.factor_cholesky("cholesky", input, upper)


@public()
@with_out
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """Return (L Lᵀ)⁻¹ of a lower triangle L, or (Uᵀ U)⁻¹ of an upper triangle."""
    check_square("cholesky_inverse", input)
    one = constant(np.eye(input.array.shape[-1], dtype=input.array.dtype))
    return rename_node(_solve_by_cholesky(one, input, upper), "CholeskyInverseBackward0")


@public()
@with_out
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """Return X with L Lᵀ X = input of a lower triangle L, or with Uᵀ U X = input of an upper triangle.

    Raises: RuntimeError for sizes that do not fit.
    """
    for called, x in {"b": input, "u": input2}.items():
        if x.ndim < 2:
            raise RuntimeError(f"{called} should have at least 2 dimensions, but has {x.ndim} dimensions instead")
    check_square("cholesky_solve", input2)
    n, (rows, columns) = input2.array.shape[-1], input.array.shape[-2:]
    if n != rows:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {n} by {n} but each b matrix is {rows} by "
            f"{columns}"
        )
    check_same_dtype("cholesky_solve", input2, input)
    check_solve_shapes("cholesky_solve", input2, input, True)
    return rename_node(_solve_by_cholesky(input, input2, upper), "CholeskySolveBackward0")


def _solve_by_cholesky(b: Tensor, triangle: Tensor, upper: bool) -> Tensor:
    lower = matrices.adjoint(triangle) if upper else triangle
    half = triangular.solve_triangular(lower, b, upper=False)
    return triangular.solve_triangular(matrices.adjoint(lower), half, upper=True)


@public()
@with_out
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolveResult:
    """Return X with A X = input, or Aᵀ X = input, of one triangle of A, and a copy of A.

    Raises: RuntimeError below two dimensions and for different dtypes.
    """
    for called, x in {"b": input, "A": A}.items():
        if x.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {called} to have at least 2 dimensions, but it has {x.ndim} "
                "dimensions instead"
            )
    if A.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {input.dtype} and A of type {A.dtype} "
            "instead."
        )
    check_square("triangular_solve", A)
    check_solve_shapes("triangular_solve", A, input, True)
    a = matrices.transpose_matrix(A) if transpose else A
    x = triangular.solve_triangular(a, input, upper=upper != transpose, unitriangular=unitriangular)
    lead = x.array.shape[:-2]
    return TriangularSolveResult(
        rename_node(x, "TriangularSolveBackward0"), shape.broadcast_to(A, (*lead, *A.array.shape[-2:])).clone()
    )


@public()
@with_out
def qr(input: Tensor, some: bool = True) -> factorizations.QrResult:
    """Return `linalg.qr`; Q is square unless `some`."""
    return factorizations.qr(input, "reduced" if some else "complete")


@public()
@with_out
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> SvdResult:
    """Return U, S and V with input = U diag(S) Vᵀ; U and V are square unless `some`, and zeros unless `compute_uv`."""
    if compute_uv:
        u, s, vh = eig_svd.svd(input, not some)
        return SvdResult(u, s, matrices.adjoint(vh))
    s = eig_svd.svdvals(input)
    lead, (m, n) = input.array.shape[:-2], input.array.shape[-2:]
    u, v = (constant(np.zeros((*lead, k, k), input.array.dtype)) for k in (m, n))
    return SvdResult(u, s, v)


@public()
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Return `linalg.pinv`, under its older name."""
    return solve.pinv(input, rcond)


@public()
@with_out
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, Tensor] | LuFactorExResult:
    """Return `linalg.lu_factor` without an error for a zero on the diagonal of U; with its place if `get_infos`."""
    found = lu_ldl.lu_factor_ex(A, pivot=pivot)
    return found if get_infos else (found.LU, found.pivots)


@public()
@with_out
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """Return X with A X = input, of the A whose factors `lu` gave."""
    return lu_ldl.lu_solve(LU_data, LU_pivots, input)
