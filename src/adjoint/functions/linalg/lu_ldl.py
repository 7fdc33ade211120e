"""Factors made by elimination, P L U and L D Lᵀ, and solutions by them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import rename_node
from adjoint.functions.linalg import matmul
from adjoint.functions.linalg.checks import check_info, check_same_dtype, check_solve_shapes, check_square
from adjoint.functions.shape import shape
from adjoint.ops.elementwise.complex import conj, is_complex
from adjoint.ops.linalg import ldl, matrices, packed_factors, triangular
from adjoint.ops.linalg import lu as elimination
from adjoint.ops.multi_output import split_outputs


class LuResult(NamedTuple):
    """Result of `lu`."""

    P: Tensor
    L: Tensor
    U: Tensor


class LuFactorResult(NamedTuple):
    """Result of `lu_factor`."""

    LU: Tensor
    pivots: Tensor


class LuFactorExResult(NamedTuple):
    """Result of `lu_factor_ex`."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class LdlFactorResult(NamedTuple):
    """Result of `ldl_factor`."""

    LD: Tensor
    pivots: Tensor


class LdlFactorExResult(NamedTuple):
    """Result of `ldl_factor_ex`."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


@with_out
def lu(A: Tensor, *, pivot: bool = True) -> LuResult:
    """Return A = P L U: a permutation, a lower triangle with ones on the diagonal, and an upper triangle."""
    found = _factor_lu("linalg.lu", A, pivot)
    P, L, U = lu_unpack(found.LU, found.pivots)
    return LuResult(P, rename_node(L, "LinalgLuBackward0"), rename_node(U, "LinalgLuBackward0"))


@with_out
def lu_factor(A: Tensor, *, pivot: bool = True) -> LuFactorResult:
    """Return L, without its ones, and U in one matrix, and the row with which each was exchanged, from 1.

    Raises RuntimeError for a zero on the diagonal of U.
    """
    found = _factor_lu("torch.linalg.lu_factor", A, pivot, True)
    return LuFactorResult(found.LU, found.pivots)


@with_out
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LuFactorExResult:
    """Return `lu_factor` and the place of the first zero on the diagonal of U, or 0; an error only if asked for."""
    return _factor_lu("torch.linalg.lu_factor_ex", A, pivot, check_errors)


ZERO_PIVOT = (
    "{name}: {batch}U[{at},{at}] is zero and using it on lu_solve would result in a division by zero. If you still "
    "want to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)


def _factor_lu(name: str, A: Tensor, pivot: bool, check_errors: bool = False) -> LuFactorExResult:
    if A.ndim < 2:
        raise RuntimeError(f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    if A.array.dtype.kind not in "fc" or A.array.dtype.itemsize == 2:
        raise NotImplementedError(f'"lu_cpu" not implemented for {A.dtype}')
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    out, sizes = elimination.lu(A), A.array.shape
    LU = split_outputs(out, elimination.lu_shapes(sizes), "LinalgLuFactorExBackward0")[0]
    at = int(np.prod(sizes[-2:])) + min(sizes[-2:])
    info = shape.reshape(packed_factors.integers(out.detach(), start=at, stop=at + 1), sizes[:-2])
    if check_errors:
        check_info(info, ZERO_PIVOT.replace("{name}", name), RuntimeError)
    return LuFactorExResult(LU, elimination.pivots_of(out.detach(), sizes), info)


@with_out
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> LuResult:
    """Return P, L and U of what `lu_factor` gave; empty ones for what is not to be unpacked.

    Raises: RuntimeError for pivots that are not int32.
    """
    dtype = LU_data.array.dtype
    empty = constant(np.zeros(0, dtype))
    P = L = U = empty
    if unpack_pivots:
        if LU_pivots.array.dtype != np.int32:
            raise RuntimeError(
                "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. Note: this "
                "function is intended to be used with the output produced by torch.linalg.lu_factor"
            )
        complaint = "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
        _check_pivots(LU_pivots, LU_data.array.shape[-2], complaint, complaint)
        P = elimination.permutation_matrix(LU_pivots, rows=LU_data.array.shape[-2], dtype=dtype)
    if unpack_data:
        m, n = LU_data.array.shape[-2:]
        k = min(m, n)
        L = packed_factors.lower(shape.narrow(LU_data, -1, 0, k)) + constant(np.eye(m, k, dtype=dtype))
        U = packed_factors.upper(shape.narrow(LU_data, -2, 0, k))
    return LuResult(P, rename_node(L, "LuUnpackBackward0"), rename_node(U, "LuUnpackBackward0"))


@with_out
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Return X with A X = B, or X A = B unless `left`, of the A whose factors are given, or of Aᵀ if `adjoint`.

    Raises: RuntimeError for pivots and sizes that do not fit.
    """
    check_square("linalg.lu_solve", LU)
    check_same_dtype("linalg.lu_solve", LU, B, "LU")
    if pivots.array.dtype != np.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    if LU.array.shape[:-1] != pivots.array.shape:
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    check_solve_shapes("linalg.lu_solve", LU, B, left)
    given = "Pivots given to lu_solve must all be"
    low, high = f"{given} greater or equal to 1. ", f"{given} smaller or equal to LU.size(-2). "
    _check_pivots(pivots, LU.array.shape[-1], low, high)
    P = elimination.permutation_matrix(pivots, rows=LU.array.shape[-1], dtype=LU.array.dtype)
    if adjoint and is_complex(LU):
        LU = conj(LU)
    x = B if left else matrices.transpose_matrix(B)
    if left != adjoint:
        x = matmul.matmul(matrices.transpose_matrix(P), x)
        x = triangular.solve_triangular(LU, x, upper=False, unitriangular=True)
        x = triangular.solve_triangular(LU, x, upper=True)
    else:
        turned = matrices.transpose_matrix(LU)
        x = triangular.solve_triangular(turned, x, upper=False)
        x = triangular.solve_triangular(turned, x, upper=True, unitriangular=True)
        x = matmul.matmul(P, x)
    return rename_node(x if left else matrices.transpose_matrix(x), "LinalgLuSolveBackward0")


@with_out
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> LdlFactorResult:
    """Return L and D in one matrix, and pivots, of a symmetric A = L D Lᵀ, of which the lower triangle is read.

    Raises RuntimeError for a zero in D. No gradient is known.
    """
    found = _factor_ldl("torch.linalg.ldl_factor", A, hermitian, True)
    return LdlFactorResult(found.LD, found.pivots)


@with_out
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LdlFactorExResult:
    """Return `ldl_factor` and the place of the first zero of D, or 0; an error only if asked for."""
    return _factor_ldl("torch.linalg.ldl_factor_ex", A, hermitian, check_errors)


ZERO_IN_D = "{name}: {batch}D[{at},{at}] is zero: the matrix is singular, and ldl_solve would divide by zero"


def _factor_ldl(name: str, A: Tensor, hermitian: bool, check_errors: bool) -> LdlFactorExResult:
    check_square(name, A)
    out, sizes = ldl.ldl(A, hermitian=hermitian), A.array.shape
    LD = split_outputs(out, ldl.ldl_shapes(sizes), "LinalgLdlFactorExBackward0")[0]
    n = sizes[-1]
    pivots = packed_factors.integers(out.detach(), start=n * n, stop=n * n + n)
    info = shape.reshape(packed_factors.integers(out.detach(), start=n * n + n, stop=n * n + n + 1), sizes[:-2])
    if check_errors:
        check_info(info, ZERO_IN_D.replace("{name}", name), RuntimeError)
    return LdlFactorExResult(LD, pivots, info)


@with_out
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """Return X with A X = B, of the A whose factors `ldl_factor` gave.

    Raises: RuntimeError for pivots and sizes that do not fit.
    """
    check_square("torch.linalg.ldl_solve", LD)
    if B.ndim < 2:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead"
        )
    check_same_dtype("torch.linalg.ldl_solve", LD, B, "LD")
    if pivots.array.dtype.kind not in "iu":
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected pivots to be integers. Got {pivots.dtype}")
    if LD.array.shape[:-1] != pivots.array.shape:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots.array.shape)} instead"
        )
    check_solve_shapes("torch.linalg.ldl_solve", LD, B, True)
    lead = broadcast_shapes(LD.array.shape[:-2], B.array.shape[:-2])
    LD, B = (shape.broadcast_to(x, (*lead, *x.array.shape[-2:])) for x in (LD, B))
    return ldl.ldl_solve(LD, shape.broadcast_to(pivots, (*lead, pivots.array.shape[-1])), B, hermitian=hermitian)


def _check_pivots(pivots: Tensor, rows: int, low: str, high: str) -> None:
    """Raise RuntimeError for a row that there is not, where the values are known."""
    array = pivots.array
    if type(array) is np.ndarray and array.size and not (array.min() >= 1 and array.max() <= rows):
        raise RuntimeError(f"{low if array.min() < 1 else high}Did you properly pass the result of lu_factor?")
