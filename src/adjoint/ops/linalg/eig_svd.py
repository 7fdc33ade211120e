"""Eigenvalues and singular values of stacks of matrices, and their vectors.

Source of the rules: Giles, "An extended collection of matrix derivative results", 2008; Townsend, "Differentiating the
singular value decomposition", 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.dtype.dtype import complex_type, real_type
from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec, describe
from adjoint.core.typing import Array, Function, Operand, Shape
from adjoint.ops.elementwise.complex import conj, is_complex
from adjoint.ops.elementwise.select import where
from adjoint.ops.linalg import lapack
from adjoint.ops.linalg.cholesky_qr import symmetric
from adjoint.ops.linalg.inverse_det_solve import solve
from adjoint.ops.linalg.matmul import bmm, call_bare
from adjoint.ops.linalg.matrices import LinAlgError, adjoint, transpose_matrix
from adjoint.ops.linalg.packed_factors import Shapes, diagonal, divide_by_gaps, pack_parts, packed_spec, unpack_parts
from adjoint.ops.movement.movement import reshape, slice
from adjoint.ops.reduction import reduction

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


def eigh_shapes(shape: Shape, triangle: bool = False) -> Shapes:
    """The shapes of the eigenvalues and of the matrix of eigenvectors."""
    return (shape[-1],), (shape[-1], shape[-1])


def _check_convergence(name: str, x: Array, function: Function) -> Operand:
    """Call `function`. Raises LinAlgError where it does not converge."""
    try:
        return function()
    except np.linalg.LinAlgError:
        why = "the input matrix is ill-conditioned or has too many repeated values"
        if not np.isfinite(x).all():
            why = "the input matrix contained non-finite values"
        raise LinAlgError(f"{name}: The algorithm failed to converge because {why}. Given {describe(x)}") from None


def _eigh_dx(g: Operand, out: Operand, x_shape: Shape) -> Tensor:
    (values, vectors), (gw, gv) = (unpack_parts(array, eigh_shapes(x_shape)) for array in (out, g))
    inner = diagonal(gw) + divide_by_gaps(call_bare(bmm, adjoint(vectors), gv), values)
    slope = call_bare(bmm, vectors, call_bare(bmm, inner, adjoint(vectors)))
    return (slope + adjoint(slope)) * 0.5


@primitive(spec=packed_spec(eigh_shapes), batch_leading=True, holomorphic=False, raises=True, dx=_eigh_dx)
def eigh(x: Array, *, triangle: bool = False) -> Array:
    """Eigenvalues, in ascending order, and eigenvectors, as columns, of (x + xᵀ) / 2.

    `triangle`: x is symmetric, as its gradient is, and only its lower triangle is read.
    """
    return pack_parts(x, *find_eigenpairs(x if triangle else symmetric(x)))


def find_eigenpairs(x: Array) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors of matrices of which the lower triangle is read."""
    values, vectors = _check_convergence("linalg.eigh", x, lambda: lapack.eigh(x))
    return values, vectors


def _eigvalsh_dx(g: Operand, x: Operand, x_shape: Shape, triangle: bool) -> Tensor:
    vectors = unpack_parts(eigh(x, triangle=triangle), eigh_shapes(x_shape))[1]
    return call_bare(bmm, vectors * reshape(g, shape=(*g.shape[:-1], 1, g.shape[-1])), adjoint(vectors))


@primitive(
    spec=lambda x, **_: Spec(x.shape[:-1], real_type(x.dtype)),
    node="LinalgEighBackward0",
    batch_leading=True,
    raises=True,
    dx=_eigvalsh_dx,
)
def eigvalsh(x: Array, *, triangle: bool = False) -> Array:
    """The eigenvalues, in ascending order, of (x + xᵀ) / 2. `triangle`: as in `eigh`."""
    whole = x if triangle else symmetric(x)
    return _check_convergence("linalg.eigvalsh", x, lambda: lapack.eigvalsh(whole))


def svd_shapes(shape: Shape, full: bool = False) -> Shapes:
    """The shapes of U, S and Vᵀ."""
    m, n = shape[-2:]
    k = min(m, n)
    return (m, m if full else k), (k,), (n if full else k, n)


def _svd_dx(g: Operand, out: Operand, x_shape: Shape, full: bool) -> Operand:
    """The gradient of U, S and Vᵀ; columns of U and rows of Vᵀ beyond the singular values get none."""
    (u, s, vh), (gu, gs, gvh) = (_first(unpack_parts(array, svd_shapes(x_shape, full)), full) for array in (out, g))
    ut, v, gv = adjoint(u), adjoint(vh), adjoint(gvh)
    row = reshape(s, shape=(*s.shape[:-1], 1, s.shape[-1]))
    left, right = call_bare(bmm, ut, gu), call_bare(bmm, vh, gv)
    squares = s * s
    if is_complex(u):
        gs = (gs + conj(gs)) * 0.5  # singular values are real
    turning = left - adjoint(left)
    inner = diagonal(gs) + divide_by_gaps(turning, squares) * row
    inner = inner + transpose_matrix(row) * divide_by_gaps(right - adjoint(right), squares)
    if is_complex(u):
        inner = inner + where(np.eye(s.shape[-1], dtype=bool), turning / (row * 2.0), 0.0)
    slope = call_bare(bmm, u, call_bare(bmm, inner, vh))
    m, n = x_shape[-2:]
    if m > n:
        slope = slope + call_bare(bmm, (gu - call_bare(bmm, u, left)) / row, vh)
    if n > m:
        slope = slope + call_bare(bmm, u, adjoint((gv - call_bare(bmm, v, right)) / row))
    return slope


def _first(parts: Sequence[Operand], full: bool) -> Sequence[Operand]:
    if not full:
        return parts
    u, s, vh = parts
    k = s.shape[-1]
    columns = (*((0, n, 1) for n in u.shape[:-1]), (0, k, 1))
    rows = (*((0, n, 1) for n in vh.shape[:-2]), (0, k, 1), (0, vh.shape[-1], 1))
    return [slice(u, bounds=columns), s, slice(vh, bounds=rows)]


@primitive(spec=packed_spec(svd_shapes), batch_leading=True, holomorphic=False, raises=True, dx=_svd_dx)
def svd(x: Array, *, full: bool = False) -> Array:
    """U, S and Vᵀ with x = U diag(S) Vᵀ, the singular values S in descending order; U and V are square if `full`."""
    return pack_parts(x, *find_singular_vectors(x, full))


def find_singular_vectors(x: Array, full: bool) -> tuple[Array, Array, Array]:
    """Return U, S and Vᵀ."""
    u, s, vh = _check_convergence("linalg.svd", x, lambda: lapack.svd(x, full_matrices=full))
    return u, s, vh


def _svdvals_dx(g: Operand, x: Operand, x_shape: Shape) -> Tensor:
    u, _, vh = unpack_parts(svd(x), svd_shapes(x_shape))
    return call_bare(bmm, u * reshape(g, shape=(*g.shape[:-1], 1, g.shape[-1])), vh)


@primitive(
    spec=lambda x: Spec((*x.shape[:-2], min(x.shape[-2:])), real_type(x.dtype)),
    node="LinalgSvdBackward0",
    batch_leading=True,
    raises=True,
    dx=_svdvals_dx,
)
def svdvals(x: Array) -> Array:
    """The singular values, in descending order."""
    return _check_convergence("linalg.svd", x, lambda: lapack.svd(x, compute_uv=False))


def _eig_dx(g: Operand, out: Operand, x_shape: Shape) -> Tensor:
    """The gradient of vectors of length 1: its part along them is taken off."""
    (values, vectors), (gw, gv) = (unpack_parts(array, eigh_shapes(x_shape)) for array in (out, g))
    turned, one = adjoint(vectors), np.eye(x_shape[-1], dtype=bool)
    inside = call_bare(bmm, turned, gv)
    along = reduction.sum(where(one, (inside + conj(inside)) * 0.5, 0.0), axes=(len(x_shape) - 2,), keepdims=True)
    inner = diagonal(gw) + divide_by_gaps(inside - call_bare(bmm, turned, vectors) * along, conj(values))
    return solve(turned, call_bare(bmm, inner, turned), name="")


@primitive(
    spec=lambda x: Spec((*x.shape[:-2], x.shape[-1] * (x.shape[-1] + 1)), complex_type(x.dtype)),
    batch_leading=True,
    holomorphic=False,
    raises=True,
    dx=_eig_dx,
)
def eig(x: Array) -> Array:
    """Complex eigenvalues, and eigenvectors of length 1 as columns. Raises RuntimeError for infinities and NaN.

    Source of the rule: Boeddeker and others, "On the computation of complex-valued gradients", 2017.
    """
    if not np.isfinite(x).all():
        raise RuntimeError(f"torch.linalg.eig: input tensor should not contain infs or NaNs. Given {describe(x)}")
    return pack_parts(x, *lapack.eig(x)).astype(complex_type(x.dtype), copy=False)
