"""Inverses, solutions of equations, and least squares, of stacks of matrices and of tensors taken as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from adjoint.core.dtype.dtype import real_type
from adjoint.core.op.recorder import is_evaluated_alone, wrap_unrecorded
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.runtime.mode import has_interpreter, holds_for_all
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.out import with_out
from adjoint.functions.linalg import matmul
from adjoint.functions.linalg.checks import (
    check_linalg_dtype,
    check_matrix_stack,
    check_same_dtype,
    check_solve_shapes,
    check_square,
    is_vector,
)
from adjoint.functions.reduction.reduce import squared_size
from adjoint.functions.shape import shape
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.elementwise.complex import real
from adjoint.ops.linalg import eig_svd, inverse_det_solve, matrices, triangular
from adjoint.ops.linalg import lstsq as least_squares
from adjoint.ops.reduction import reduction


class InvExResult(NamedTuple):
    """Result of `inv_ex`."""

    inverse: Tensor
    info: Tensor


class SolveExResult(NamedTuple):
    """Result of `solve_ex`."""

    result: Tensor
    info: Tensor


class LstsqResult(NamedTuple):
    """Result of `lstsq`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@with_out
def inv(A: Tensor) -> Tensor:
    """Return the inverse of each square matrix.

    To multiply by an inverse, `solve` is faster and more accurate.

    Args:
        A: floating or complex tensor.
        out: tensor that takes the result.

    Shapes: (*, n, n) -> (*, n, n).

    Raises: LinAlgError, a RuntimeError, for a singular matrix.

    Example:
        >>> ad.linalg.inv(ad.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    check_square("linalg.inv", A)
    return inverse_det_solve.inv(A)


@with_out
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InvExResult:
    """Return A⁻¹, NaN for a singular matrix, and the place of the first zero on the diagonal of its factor U, or 0.

    `check_errors`: raise LinAlgError for a singular matrix all the same.
    """
    check_square("linalg.inv_ex", A)
    out = inverse_det_solve.inv(A, name="linalg.inv_ex" if check_errors else "")
    return InvExResult(out, inverse_det_solve.singular_at(A.detach()))


@with_out
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """Return X with A X = B, or with X A = B.

    Args:
        A: square matrices, floating or complex.
        B: a matrix, or a vector, for each matrix of A; same dtype.
        left: False for X A = B. Default: True.
        out: tensor that takes the result.

    Shapes: (*, n, n), (*, n, k) -> (*, n, k); (*, n, n), (*, n) -> (*, n).

    Raises: LinAlgError, a RuntimeError, for a singular A.

    Example:
        >>> A, b = ad.tensor([[2.0, 0.0], [1.0, 4.0]]), ad.tensor([4.0, 10.0])
        >>> ad.linalg.solve(A, b)
        tensor([2., 2.])
    """
    return _solve_system("torch.linalg.solve", A, B, left, True)


@with_out
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveExResult:
    """Return `solve`, NaN for a singular matrix, and the place of the first zero on the diagonal of U, or 0."""
    out = _solve_system("torch.linalg.solve_ex", A, B, left, check_errors)
    return SolveExResult(out, inverse_det_solve.singular_at(A.detach()))


def _solve_system(name: str, A: Tensor, B: Tensor, left: bool, raises: bool) -> Tensor:
    check_square("linalg.solve", A)
    check_same_dtype("linalg.solve", A, B)
    vector = is_vector(A, B)
    b = shape.unsqueeze(B, -1) if vector else B
    check_solve_shapes("linalg.solve", A, b, left)
    if left:
        out = inverse_det_solve.solve(A, b, name=name if raises else "")
    else:
        left, right = matrices.transpose_matrix(A), matrices.transpose_matrix(b)
        turned = inverse_det_solve.solve(left, right, name=name if raises else "")
        out = matrices.transpose_matrix(turned)
    return shape.squeeze(out, -1) if vector else out


@with_out
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Return X with A X = B, or X A = B unless `left`, of one triangle of A; its diagonal is 1 if `unitriangular`.

    A zero on the diagonal gives infinities and NaN.
    """
    check_square("linalg.solve_triangular", A)
    check_matrix_stack("linalg.solve_triangular", B, "B")
    check_same_dtype("linalg.solve_triangular", A, B)
    check_solve_shapes("linalg.solve_triangular", A, B, left)
    if left:
        return triangular.solve_triangular(A, B, upper=upper, unitriangular=unitriangular)
    turned = triangular.solve_triangular(
        matrices.transpose_matrix(A), matrices.transpose_matrix(B), upper=not upper, unitriangular=unitriangular
    )
    return matrices.transpose_matrix(turned)


@with_out
def pinv(
    A: Tensor,
    rcond: Tensor | float | None = None,
    hermitian: bool = False,
    *,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
) -> Tensor:
    """Return the pseudoinverse, of the singular values above max(atol, rtol · the largest).

    Tolerances are numbers or tensors, one for each matrix; `rcond` is the older name of rtol. `hermitian`: A is
    symmetric, and its lower triangle is read.

    Raises: RuntimeError for integers and below two dimensions.
    """
    kind = A.array.dtype
    if A.ndim < 2 or kind.kind not in "fc" or kind.itemsize == 2:
        raise RuntimeError(
            f"linalg.pinv({A.dtype}{list(A.shape)}): expected a tensor with 2 or more dimensions of float, double, "
            "cfloat or cdouble types"
        )
    hermitian = hermitian and A.numel() > 0
    if hermitian:
        check_square("linalg.eigh", A)
    A, atol, rtol = resolve_tolerances(A, atol, rcond if rtol is None else rtol)
    return least_squares.pinv(A, atol, rtol, hermitian=hermitian)


def resolve_tolerances(A: Tensor, atol: Operand, rtol: Operand) -> tuple[Tensor, Operand, Operand]:
    """Return A and its tolerances; where these are tensors, all stacks are of one length.

    Where rtol is not given, and atol is not or is 0, it is the larger dimension times the machine epsilon.
    """
    if rtol is None:
        usual = float(np.finfo(real_type(A.array.dtype)).eps) * max(A.array.shape[-2:])
        if isinstance(atol, Tensor):
            rtol = select.where(comparison.gt(atol.detach(), 0.0), 0.0, usual)
        else:
            rtol = 0.0 if atol else usual
    atol = 0.0 if atol is None else atol
    given = [t for t in (atol, rtol) if isinstance(t, Tensor)]
    if not given:
        return A, float(atol), float(rtol)
    lead = broadcast_shapes(A.array.shape[:-2], *(t.array.shape for t in given))
    a, r = (shape.broadcast_to(t.detach(), lead) if isinstance(t, Tensor) else float(t) for t in (atol, rtol))
    return shape.broadcast_to(A, (*lead, *A.array.shape[-2:])), a, r


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@with_out
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LstsqResult:
    """Return the shortest X with the smallest |A X - B|, for each column; B is a matrix, or a vector for each matrix.

    Singular values below `rcond` · the largest count as 0. What else is returned depends on the driver, as in LAPACK:
    residuals Σ (A X - B)² where A has more rows than columns and full rank, but for "gelsy", the default; the rank, but
    for "gels"; singular values for "gelsd" and "gelss". The other parts are empty.

    Raises: RuntimeError for sizes that do not fit, and for another `driver`.
    """
    name = "torch.linalg.lstsq"
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if B.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if not 0 <= A.ndim - B.ndim <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1, but "
            f"they are {A.ndim} and {B.ndim}"
        )
    check_same_dtype(name, A, B)
    check_linalg_dtype(name, A)
    driver = driver or "gelsy"
    if driver not in DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of ({', '.join(DRIVERS)})")
    vector = is_vector(A, B)
    b = shape.unsqueeze(B, -1) if vector else B
    m, n = A.array.shape[-2:]
    if b.ndim < 2 or b.array.shape[-2] != m:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-2)")
    if rcond is None or rcond < 0:
        rcond = float(np.finfo(real_type(A.array.dtype)).eps) * max(m, n)
    if driver == "gelsy" and is_evaluated_alone(A) and is_evaluated_alone(b):
        found = least_squares.solve_with_rank(A.array, b.array, rcond)
        if found is not None:
            solution, rank = map(wrap_unrecorded, found)
            residuals, values = (wrap_unrecorded(np.zeros(0, A.array.dtype)) for _ in range(2))
            return LstsqResult(shape.squeeze(solution, -1) if vector else solution, residuals, rank, values)
    x = least_squares.lstsq(A, b, rcond=rcond)
    rank = least_squares.rank(A.detach(), 0.0, rcond)
    residuals = empty = constant(np.zeros(0, real_type(A.array.dtype)))
    if x.node is not None or has_interpreter():
        residuals = shape.narrow(real(shape.reshape(x, (x.numel(),))), 0, 0, 0)  # empty, with the history of x
    if driver != "gelsy" and m > n and holds_for_all((rank == n).all()):
        missed = squared_size(arithmetic.sub(matmul.matmul(A, x), b))
        residuals = reduction.sum(missed, axes=(x.ndim - 2,), keepdims=False)
    return LstsqResult(
        shape.squeeze(x, -1) if vector else x,
        residuals,
        constant(np.zeros(0, np.int64)) if driver == "gels" else rank,
        eig_svd.svdvals(A.detach()) if driver in ("gelsd", "gelss") else empty,
    )


@with_out
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """Return the inverse of A as a matrix whose rows are the first `ind` dimensions and whose columns the others.

    Raises: RuntimeError unless rows and columns are equally many.
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    first, rest = A.array.shape[:ind], A.array.shape[ind:]
    if prod(first) != prod(rest):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{prod(rest)} != {prod(first)}"
        )
    return shape.reshape(inv(shape.reshape(A, (prod(first), prod(rest)))), (*rest, *first))


@with_out
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """Return X with Σ A[i…, j…] X[j…] = B[i…]; `dims` of A are first moved to its end.

    Raises: RuntimeError unless rows and columns are equally many.
    """
    if dims is not None:
        at = [one_dim(d, A.ndim) for d in dims]
        A = shape.permute(A, (*(d for d in range(A.ndim) if d not in at), *at))
    first, rest = A.array.shape[: B.ndim], A.array.shape[B.ndim :]
    for size in (prod(first), B.numel()) if A.numel() or B.numel() else (prod(rest),):
        if size != prod(rest):
            raise RuntimeError(
                "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
                f"prod(self.shape[:other.ndim]), but got {prod(rest)} != {size}"
            )
    flat = solve(shape.reshape(A, (prod(rest), prod(rest))), shape.reshape(B, (B.numel(),)))
    return shape.reshape(flat, tuple(rest))
