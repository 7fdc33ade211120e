"""A few extreme eigenvalues of large symmetric matrices, and their vectors, by products with few vectors."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.threads import one_blas_thread
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.elementwise.select import where
from adjoint.ops.linalg.cholesky_qr import symmetric
from adjoint.ops.linalg.eig_svd import eigh, eigh_shapes
from adjoint.ops.linalg.matmul import bmm
from adjoint.ops.linalg.matrices import transpose_matrix
from adjoint.ops.linalg.packed_factors import Shapes, pack_parts, unpack_parts
from adjoint.ops.movement.movement import reshape


def pair_shapes(shape: Shape, k: int) -> Shapes:
    """The shapes of k eigenvalues and of their vectors."""
    return (k,), (shape[-1], k)


def _da(g: Operand, a: Operand, out: Operand, k: int, largest: bool) -> Operand:
    """The gradient by all eigenpairs: dvᵢ = Σⱼ qⱼ (qⱼᵀ dA vᵢ) / (eᵢ - wⱼ) over the others."""
    n = a.shape[-1]
    (e, v), (ge, gv) = (unpack_parts(array, pair_shapes(a.shape, k)) for array in (out, g))
    w, q = unpack_parts(eigh(a), eigh_shapes(a.shape))
    same = np.eye(n, k, dtype=bool)
    same = same[::-1] if largest else same
    gaps = reshape(e, shape=(*e.shape[:-1], 1, k)) - reshape(w, shape=(*w.shape, 1))
    inner = where(same, 0.0, bmm(transpose_matrix(q), gv) / where(same, 1.0, gaps))
    turned = transpose_matrix(v)
    slope = bmm(bmm(q, inner) + v * reshape(ge, shape=(*ge.shape[:-1], 1, k)), turned)
    return (slope + transpose_matrix(slope)) * 0.5


@primitive(
    spec=lambda a, x, preconditioner, *, k, **_: Spec((*a.shape[:-2], k + a.shape[-1] * k), a.dtype),
    node="LOBPCGAutogradFunctionBackward",
    raises=True,
    batch_leading=True,
    da=_da,
)
def eigenpairs(a: Array, x: Array, preconditioner: Array, *, k: int, largest: bool, niter: int, tol: float) -> Array:
    """The k largest or smallest eigenvalues, the extreme first, and their vectors, with a positive largest element.

    The search starts from x, and takes at most `niter` steps, until |a v - e v| is below tol (|a| + |e|).
    Source: Knyazev, "Toward the optimal preconditioned eigensolver", 2001.
    """
    a, lead = symmetric(a), a.shape[:-2]
    x, near = (np.broadcast_to(y, (*lead, *y.shape[-2:])) for y in (x, preconditioner))
    values, vectors = np.empty((*lead, k), a.dtype), np.empty((*lead, a.shape[-1], k), a.dtype)
    for at in np.ndindex(*lead):
        e, v = _run_lobpcg(a[at], x[at], near[at], largest, niter, tol)
        values[at], vectors[at] = e[:k], v[:, :k]
    return pack_parts(a, values, vectors)


@one_blas_thread
def _run_lobpcg(a: Array, x: Array, near: Array, largest: bool, niter: int, tol: float) -> tuple[Array, Array]:
    n = x.shape[-1]
    size = np.linalg.norm(a, 2)
    e, x = _best(a, x, n, largest)
    before, step = np.zeros((len(a), 0), a.dtype), 0
    while step < niter or niter < 0:
        residual = a @ x - x * e
        if (np.linalg.norm(residual, axis=0) <= tol * (size + np.abs(e))).all():
            break
        e, found = _best(a, np.concatenate([x, near @ residual, before], 1), n, largest)
        before, x, step = found - x @ (x.T @ found), found, step + 1
    high = x[np.abs(x).argmax(0), np.arange(n)]
    return e, x * np.where(high < 0, -1, 1).astype(x.dtype)


def _best(a: Array, basis: Array, n: int, largest: bool) -> tuple[Array, Array]:
    """The Rayleigh-Ritz method: the n extreme eigenpairs in the span of `basis`, whose vectors may be dependent."""
    u, s, _ = np.linalg.svd(basis / np.maximum(np.linalg.norm(basis, axis=0), np.finfo(a.dtype).tiny), False)
    u = u[:, s > s[0] * np.finfo(a.dtype).eps * len(a)]
    inside = u.T @ a @ u
    e, v = np.linalg.eigh((inside + inside.T) / 2)
    order = slice(None, -n - 1, -1) if largest else slice(n)
    return e[order], u @ v[:, order]
