"""Inverses, determinants and factorisations of stacks of matrices.

Source of the rules: Giles, "An extended collection of matrix derivative results", 2008. A factorisation with several
parts gives them as one array (…, n), each part flattened, one after another: `unpacked` takes them apart.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from adjoint.core.families import primitive
from adjoint.core.spec import Spec, broadcast_shapes
from adjoint.ops import reduction
from adjoint.ops.contraction import bmm
from adjoint.ops.movement import reshape, slice, swap
from adjoint.ops.selection import where

Shape = tuple[int, ...]


def _same(x: Any) -> Spec:
    return Spec(x.shape, x.dtype)


def _number(x: Any) -> Spec:
    return Spec(x.shape[:-2], x.dtype)


def transposed(x: Any) -> Any:
    """Matrices with rows and columns exchanged."""
    return swap(x, -1, -2)


def _spread(g: Any) -> Any:
    """Numbers as 1 × 1 matrices."""
    return reshape(g, shape=(*g.shape, 1, 1))


@primitive(spec=_same, node="LinalgInvExBackward0", dx=lambda g, out: -bmm(transposed(out), bmm(g, transposed(out))))
def inv(x: Any) -> Any:
    """x⁻¹."""
    return np.linalg.inv(x)


def _cofactors_dx(g: Any, x: Any, out: Any) -> Any:
    """From det(x) x⁻ᵀ, where x has an inverse."""
    slope, rank = transposed(inv(x)), len(x.shape)
    along = reduction.sum(g * slope, axes=(rank - 2, rank - 1), keepdims=True)
    return along * out - bmm(out, bmm(transposed(g), slope))


@primitive(spec=_same, dx=_cofactors_dx)
def cofactors(x: Any) -> Any:
    """∂ det(x) / ∂x: det(x) x⁻ᵀ, and for a singular x = U S Vᵀ the limit: det(U V) U diag(∏ of the other s) Vᵀ."""
    size = np.linalg.det(x)
    singular = size == 0
    regular = np.where(singular[..., None, None], np.eye(x.shape[-1], dtype=x.dtype), x)
    out = size[..., None, None] * np.swapaxes(np.linalg.inv(regular), -1, -2)
    if singular.any():
        u, s, vh = np.linalg.svd(x[singular])
        rows = np.where(np.eye(s.shape[-1], dtype=bool), 1, s[..., None, :])
        others = (np.linalg.det(u) * np.linalg.det(vh))[..., None] * rows.prod(-1)
        out[singular] = (u * others[..., None, :]) @ vh
    return out


@primitive(spec=_number, node="LinalgDetBackward0", dx=lambda g, x: _spread(g) * cofactors(x))
def det(x: Any) -> Any:
    """The determinant."""
    return np.linalg.det(x)


@primitive(spec=_number, node="LinalgSlogdetBackward0", dx=lambda g, x: _spread(g) * transposed(inv(x)))
def logabsdet(x: Any) -> Any:
    """ln |det x|."""
    return np.linalg.slogdet(x)[1]


@primitive(spec=_number, dx=lambda g, x: _spread(g * 0.0) * x)
def sign_of_det(x: Any) -> Any:
    """The sign of the determinant."""
    return np.linalg.slogdet(x)[0]


def _solve_spec(a: Any, b: Any) -> Spec:
    return Spec((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)


@primitive(
    spec=_solve_spec,
    node="LinalgSolveExBackward0",
    da=lambda g, a, out: -bmm(solve(transposed(a), g), transposed(out)),
    db=lambda g, a: solve(transposed(a), g),
)
def solve(a: Any, b: Any) -> Any:
    """The matrix x with a x = b."""
    return np.linalg.solve(a, b)


def _triangle(x: Any, on_diagonal: float, above: float) -> Any:
    """x as it is below the diagonal, times a factor on it, and another above."""
    n = x.shape[-1]
    below = np.tri(n, n, -1, bool)
    return where(below, x, where(np.eye(n, dtype=bool), x * on_diagonal, x * above))


def symmetric(x: Any) -> Any:
    """(x + xᵀ) / 2."""
    return (x + np.swapaxes(x, -1, -2)) * x.dtype.type(0.5)


def _cholesky_dx(g: Any, out: Any) -> Any:
    inverse = inv(out)
    inner = _triangle(bmm(transposed(out), g), 0.5, 0.0)
    slope = bmm(transposed(inverse), bmm(inner, inverse))
    return (slope + transposed(slope)) * 0.5


@primitive(spec=_same, node="LinalgCholeskyExBackward0", dx=_cholesky_dx)
def cholesky(x: Any) -> Any:
    """The lower triangle L with L Lᵀ = (x + xᵀ) / 2, for positive definite x."""
    return np.linalg.cholesky(symmetric(x))


def unpacked(packed: Any, shapes: tuple[Shape, ...]) -> list[Any]:
    """The parts of these shapes that were put one after another into the last dimension."""
    lead = tuple(packed.shape[:-1])
    found, start = [], 0
    for shape in shapes:
        bounds = (*((0, n, 1) for n in lead), (start, start + prod(shape), 1))
        found.append(reshape(slice(packed, bounds=bounds), shape=(*lead, *shape)))
        start += prod(shape)
    return found


def _packed(x: Any, *parts: Any) -> Any:
    lead = x.shape[:-2]
    return np.concatenate([part.reshape(*lead, prod(part.shape[len(lead) :])) for part in parts], -1)


def _packed_spec(shapes: Any) -> Any:
    return lambda x: Spec((*x.shape[:-2], sum(map(prod, shapes(x.shape)))), x.dtype)


def eigh_shapes(shape: Shape) -> tuple[Shape, ...]:
    """The shapes of the eigenvalues and of the matrix of eigenvectors."""
    return (shape[-1],), (shape[-1], shape[-1])


def _gap(values: Any) -> Any:
    """1 / (values[j] - values[i]), and 0 on the diagonal."""
    n = values.shape[-1]
    lead = tuple(values.shape[:-1])
    gaps = reshape(values, shape=(*lead, 1, n)) - reshape(values, shape=(*lead, n, 1))
    same = np.eye(n, dtype=bool)
    return where(same, 0.0, 1.0 / where(same, 1.0, gaps))


def _diagonal(values: Any) -> Any:
    n = values.shape[-1]
    return where(np.eye(n, dtype=bool), reshape(values, shape=(*values.shape, 1)), 0.0)


def _eigh_dx(g: Any, out: Any, x_shape: Shape) -> Any:
    (values, vectors), (gw, gv) = (unpacked(array, eigh_shapes(x_shape)) for array in (out, g))
    inner = _diagonal(gw) + _gap(values) * bmm(transposed(vectors), gv)
    slope = bmm(vectors, bmm(inner, transposed(vectors)))
    return (slope + transposed(slope)) * 0.5


@primitive(spec=_packed_spec(eigh_shapes), dx=_eigh_dx)
def eigh(x: Any) -> Any:
    """Eigenvalues, rising, and eigenvectors, as columns, of (x + xᵀ) / 2."""
    return _packed(x, *np.linalg.eigh(symmetric(x)))


def qr_shapes(shape: Shape) -> tuple[Shape, ...]:
    """The shapes of Q and R."""
    m, n = shape[-2:]
    return (m, min(m, n)), (min(m, n), n)


def _qr_dx(g: Any, out: Any, x_shape: Shape) -> Any:
    m, n = x_shape[-2:]
    if m < n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='reduced' and nrows < ncols")
    (q, r), (gq, gr) = (unpacked(array, qr_shapes(x_shape)) for array in (out, g))
    inner = bmm(r, transposed(gr)) - bmm(transposed(gq), q)
    symmetric = _triangle(inner, 0.5, 0.0)
    total = gq + bmm(q, symmetric + transposed(symmetric))
    return transposed(solve(r, transposed(total)))


@primitive(spec=_packed_spec(qr_shapes), dx=_qr_dx)
def qr(x: Any) -> Any:
    """Q with orthonormal columns and upper triangular R, x = Q R."""
    return _packed(x, *np.linalg.qr(x))


def svd_shapes(shape: Shape) -> tuple[Shape, ...]:
    """The shapes of U, S and Vᵀ."""
    m, n = shape[-2:]
    k = min(m, n)
    return (m, k), (k,), (k, n)


def _svd_dx(g: Any, out: Any, x_shape: Shape) -> Any:
    """Townsend, "Differentiating the singular value decomposition", 2016."""
    (u, s, vh), (gu, gs, gvh) = (unpacked(array, svd_shapes(x_shape)) for array in (out, g))
    ut, v, gv = transposed(u), transposed(vh), transposed(gvh)
    gaps = _gap(s * s)
    row = reshape(s, shape=(*s.shape[:-1], 1, s.shape[-1]))
    column = transposed(row)
    left, right = bmm(ut, gu), bmm(vh, gv)
    inner = _diagonal(gs) + gaps * (left - transposed(left)) * row + column * gaps * (right - transposed(right))
    slope = bmm(u, bmm(inner, vh))
    m, n = x_shape[-2:]
    if m > n:
        slope = slope + bmm((gu - bmm(u, left)) / row, vh)
    if n > m:
        slope = slope + bmm(u, transposed((gv - bmm(v, right)) / row))
    return slope


@primitive(spec=_packed_spec(svd_shapes), dx=_svd_dx)
def svd(x: Any) -> Any:
    """U, S and Vᵀ with x = U diag(S) Vᵀ, the singular values S falling."""
    return _packed(x, *np.linalg.svd(x, full_matrices=False))
