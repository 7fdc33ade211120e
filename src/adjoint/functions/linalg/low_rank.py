"""The largest singular values, and the extreme eigenvalues, of large matrices, by products with few vectors."""

from __future__ import annotations

import numpy as np

from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Function
from adjoint.functions.creation import random
from adjoint.functions.linalg import matmul
from adjoint.functions.linalg.checks import check_square
from adjoint.functions.linalg.eig_svd import svd
from adjoint.functions.linalg.factorizations import cholesky, qr
from adjoint.functions.linalg.solve import solve_triangular
from adjoint.functions.reduction import reduce
from adjoint.functions.shape import shape
from adjoint.ops.linalg import matrices
from adjoint.ops.linalg.lobpcg import eigenpairs, pair_shapes
from adjoint.ops.multi_output import split_outputs

__all__ = ["lobpcg", "pca_lowrank", "svd_lowrank"]


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S and V of about the q largest singular values of A, or of A - M: U diag(S) Vᵀ is near to it.

    The space is found from random vectors by `niter` iterations.
    Source: Halko, Martinsson and Tropp, "Finding structure with randomness", 2009, algorithms 4.4 and 5.1.
    """
    a = A if M is None else A - shape.broadcast_to(M, tuple(A.array.shape))
    m, n = a.array.shape[-2:]
    tall = matrices.adjoint(a) if m < n else a
    basis = _approximate_basis(tall, 6 if q is None else q, 2 if niter is None else niter)
    u, s, vh = svd(matmul.matmul(matrices.adjoint(basis), tall), False)
    u, v = matmul.matmul(basis, u), matrices.adjoint(vh)
    return (v, s, u) if m < n else (u, s, v)


def _approximate_basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Return an orthonormal basis of about what A makes of all vectors."""
    turned = matrices.adjoint(A)
    found = qr(matmul.matmul(A, random.randn(A.array.shape[-1], q, dtype=A.dtype))).Q
    for _ in range(niter):
        found = qr(matmul.matmul(turned, found)).Q
        found = qr(matmul.matmul(A, found)).Q
    return found


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return `svd_lowrank` of A less its mean row, if `center`: the columns of V are its principal directions.

    Raises ValueError for a q that is negative or larger than a side of A, and for a negative `niter`.
    """
    smaller = min(A.array.shape[-2:])
    if q is None:
        q = min(6, smaller)
    elif not 0 <= q <= smaller:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={smaller}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - reduce.mean(A, -2, True) if center else A, q, niter)


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Function | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the k largest or smallest e with A v = e B v for symmetric A and B, and their vectors v.

    The search starts from the n columns of X, or from random ones; iK is an approximate inverse of A. Both methods of
    PyTorch, "basic" and "ortho", are one here, and the settings of the latter change nothing. Gradients are those of
    A and B. Raises ValueError if A has fewer than 3 n rows.
    """
    check_square("lobpcg", A)
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method must be 'basic' or 'ortho', got {method!r}")
    if tracker is not None:
        raise NotImplementedError("lobpcg: tracker= is not supported")
    m, kind = A.array.shape[-1], A.array.dtype
    width = X.array.shape[-1] if X is not None else n if n is not None else 1 if k is None else k
    count = width if k is None else k
    if not 0 < count <= width:
        raise ValueError(f"lobpcg: k must be between 1 and the number of starting vectors, {width}, got {count}")
    if m < 3 * width:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of "
            f"requested eigenpairs (={width})"
        )
    start = random.randn(*A.array.shape[:-2], m, width, dtype=A.dtype) if X is None else X.detach()
    steps = 1000 if niter is None else niter
    settings = {"k": count, "largest": largest is not False, "niter": steps}
    tolerance = float(np.finfo(kind).eps) ** 0.5 if tol is None else tol
    near = constant(np.eye(m, dtype=kind)) if iK is None else iK.detach()
    if B is not None:  # with B = L Lᵀ the pairs are those of L⁻¹ A L⁻ᵀ, and their vectors are Lᵀ v
        L = cholesky(B)
        turned = matrices.adjoint(L)
        half = matrices.adjoint(solve_triangular(L, A, upper=False))
        A = matrices.adjoint(solve_triangular(L, half, upper=False))
        start = matmul.matmul(turned.detach(), start)
        near = matmul.matmul(matmul.matmul(turned.detach(), near), L.detach())
    packed = eigenpairs(A, start, near, tol=tolerance, **settings)
    E, V = split_outputs(packed, pair_shapes(A.array.shape, count), "LOBPCGAutogradFunctionBackward")
    return E, V if B is None else solve_triangular(turned, V, upper=True)
