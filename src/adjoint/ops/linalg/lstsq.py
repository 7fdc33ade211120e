"""Pseudoinverses and least squares of stacks of matrices.

Source of the rules: Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems
whose variables separate", 1973.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec, broadcast_shapes
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.linalg import householder, lapack
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.linalg.matmul import bmm
from adjoint.ops.linalg.matrices import adjoint

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

RANK = np.dtype(np.int64)
MIN_FACTORED_MATRICES = 4


def _limits(values: Array, atol: float, rtol: Operand) -> Array:
    """max(atol, rtol · the largest value), (…, 1)."""
    largest = values.max(-1) if values.shape[-1] else np.zeros(values.shape[:-1], values.dtype)
    return np.asarray(np.maximum(atol, rtol * largest))[..., None]


def _is_tall_stack(x: Array) -> bool:
    """True for several matrices, no wider than tall: NumPy has Householder's factorization of all in one call."""
    return x.shape[-2] >= x.shape[-1] > 0 and prod(x.shape[:-2]) >= MIN_FACTORED_MATRICES


def _is_surely_full(x: Array, rtol: float) -> bool:
    """True if a factorization without singular values shows that all matrices have full rank."""
    factors = _factor_tall(x)
    if factors is not None:
        return 2 * rtol * factors.bound_condition() < 1  # a factor of 2 is for rounding
    return _is_tall_stack(x) and _has_full_rank(lapack.qr(x, "r"), rtol)


def _factor_tall(x: Array) -> householder.Factors | None:
    """Factor one matrix that is no wider than tall; None for others."""
    return householder.factor(x) if x.ndim == 2 and x.shape[0] >= x.shape[1] else None


def _has_full_rank(triangles: Array, rtol: float) -> bool:
    """True if all singular values of all upper triangles are surely above rtol · the largest.

    Norms bound them: the largest is at most |R|, and the smallest at least 1 / |R⁻¹|. A factor of 2 is for rounding.
    """
    with np.errstate(all="ignore"):
        try:
            squares = [(x * x.conj()).real.sum((-2, -1)) for x in (triangles, lapack.inv(triangles))]
        except np.linalg.LinAlgError:
            return False
        # where one is too small for its type the other is too large, and the product is no number
        return bool((2 * rtol * np.sqrt(squares[0]) * np.sqrt(squares[1]) < 1).all())


def _lead(x: Operand, *tolerances: Any) -> Shape:
    return broadcast_shapes(x.shape[:-2], *(t.shape for t in tolerances if hasattr(t, "shape")))


@primitive(spec=lambda x, atol, rtol, **_: Spec(_lead(x, atol, rtol), RANK), batch_leading=True, raises=True)
def rank(x: Array, atol: Operand, rtol: Operand, *, hermitian: bool = False) -> Operand:
    """The number of singular values above the tolerances, which are numbers, or one for each matrix."""
    if (
        not hermitian
        and isinstance(atol, (int, float))
        and not atol
        and isinstance(rtol, float)
        and _is_surely_full(x, rtol)
    ):
        return np.full(x.shape[:-2], x.shape[-1], RANK)
    found = np.abs(lapack.eigvalsh(x)) if hermitian else lapack.svd(x, compute_uv=False)
    return (found > _limits(found, atol, rtol)).sum(-1, dtype=RANK)


def _pinv_dx(g: Operand, x: Operand, out: Operand) -> Tensor:
    """-Pᵀ g Pᵀ + (1 - A P) gᵀ P Pᵀ + Pᵀ P gᵀ (1 - P A)."""
    turned, gt = adjoint(out), adjoint(g)
    right, left = bmm(bmm(gt, out), turned), bmm(turned, bmm(out, gt))
    return right - bmm(x, bmm(out, right)) + left - bmm(bmm(left, out), x) - bmm(turned, bmm(g, turned))


@primitive(
    spec=lambda x, atol, rtol, **_: Spec((*_lead(x, atol, rtol), x.shape[-1], x.shape[-2]), x.dtype),
    node="LinalgPinvBackward0",
    raises=True,
    holomorphic=False,
    batch_leading=True,
    dx=_pinv_dx,
)
def pinv(x: Array, atol: float, rtol: Operand, *, hermitian: bool = False) -> Array:
    """The pseudoinverse, of the singular values above the tolerances, which are as for `rank`."""
    if hermitian:
        values, u = lapack.eigh(np.tril(x) + np.swapaxes(np.tril(x, -1), -1, -2).conj())
        vh = np.swapaxes(u, -1, -2).conj()
    else:
        u, values, vh = lapack.svd(x, full_matrices=False)
    sizes = np.abs(values)
    kept = sizes > _limits(sizes, atol, rtol)
    inverted = np.where(kept, 1 / np.where(kept, values, 1), 0).astype(values.dtype)
    v, uh = (np.swapaxes(part, -1, -2).conj() for part in (vh, u))
    return multiply_matrices(v, inverted[..., None] * uh)


def solve_with_rank(a: Array, b: Array, rcond: float) -> tuple[Array, Array] | None:
    """Return `lstsq` and `rank` of one tall matrix by one factorization; None where that does not tell them."""
    factors = _factor_tall(a) if b.size and b.ndim == 2 else None
    if factors is None or not 2 * rcond * factors.bound_condition() < 1:
        return None
    return factors.solve(b), np.array(a.shape[1], RANK)


@primitive(
    spec=lambda a, b, **_: Spec((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-1], b.shape[-1]), b.dtype),
    node="LinalgLstsqBackward0",
    raises=True,
    holomorphic=False,
    da=lambda g, a, b, rcond: _pinv_dx(bmm(g, adjoint(b)), a, pinv(a, 0.0, rcond)),
    db=lambda g, a, rcond: bmm(adjoint(pinv(a, 0.0, rcond)), g),
)
def lstsq(a: Array, b: Array, *, rcond: float) -> Array:
    """The shortest x with the smallest |a x - b|; singular values below rcond · the largest count as 0."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    found = solve_with_rank(a, b, rcond)
    if found is not None:
        return found[0]
    if not (b.size and _is_tall_stack(a)):
        return _solve_by_singular_values(a, b, lead, rcond)
    q, r = lapack.qr(a)
    if not _has_full_rank(r, rcond):
        return _solve_by_singular_values(a, b, lead, rcond)
    return lapack.solve(r, multiply_matrices(np.swapaxes(q, -1, -2).conj(), b))


def _solve_by_singular_values(a: Array, b: Array, lead: Shape, rcond: float) -> Array:
    a, b = np.broadcast_to(a, (*lead, *a.shape[-2:])), np.broadcast_to(b, (*lead, *b.shape[-2:]))
    out = np.zeros((*lead, a.shape[-1], b.shape[-1]), b.dtype)
    for at in np.ndindex(*lead):
        if a[at].size and b[at].size:
            out[at] = lapack.lstsq(a[at], b[at], rcond)[0]
    return out
