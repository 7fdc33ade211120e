"""The standard's extension `linalg`: linear algebra on stacks of matrices."""

from __future__ import annotations

from math import inf, isinf
from typing import Any, NamedTuple

from adjoint.core.dtype.dtype import dtype
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.linalg import eig_svd as spectrum
from adjoint.functions.linalg import factorizations as factors
from adjoint.functions.linalg import matrix_functions as products
from adjoint.functions.linalg import norms_det as norms
from adjoint.functions.linalg import solve as solving
from adjoint.functions.linalg.matmul import outer as _outer
from adjoint.functions.linalg.products import matrix_power as _matrix_power
from adjoint.functions.shape.diag_tril import diagonal as _diagonal
from adjoint.interop.array_api.creation import full_like
from adjoint.interop.array_api.linear import matmul, matrix_transpose, tensordot, vecdot
from adjoint.interop.array_api.operands import cast_to, promote_operands
from adjoint.interop.array_api.searching import count_nonzero
from adjoint.interop.array_api.statistical import sum
from adjoint.ops.movement import movement

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip


class EighResult(NamedTuple):
    """Result of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRFactors(NamedTuple):
    """Result of `qr`."""

    Q: Tensor
    R: Tensor


class SignAndLogAbsDet(NamedTuple):
    """Result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


class SVDFactors(NamedTuple):
    """Result of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The lower triangular L with L Lᴴ = x, or the upper U with Uᴴ U = x."""
    return factors.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Products of vectors of size 3 along `axis`; the others broadcast. Raises ValueError for other sizes."""
    x, y = promote_operands("cross", x1, x2)
    d = axis if axis < 0 else axis - max(x.ndim, y.ndim)
    if x.array.shape[d] != 3 or y.array.shape[d] != 3:
        raise ValueError(f"cross: axis {axis} must have size 3, got {tuple(x.shape)} and {tuple(y.shape)}")
    rank = max(x.ndim, y.ndim)
    x, y = (movement.reshape(v, shape=(1,) * (rank - v.ndim) + tuple(v.shape)) for v in (x, y))
    return products.cross(x, y, dim=d)


def det(x: Tensor, /) -> Tensor:
    """Determinants."""
    return norms.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The `offset`-th diagonals of matrices."""
    return _diagonal(x, offset, -2, -1)


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors of symmetric or Hermitian matrices."""
    return EighResult(*spectrum.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of symmetric or Hermitian matrices, ascending."""
    return spectrum.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """Inverses."""
    return solving.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: float | str = "fro") -> Tensor:
    """Norms of matrices."""
    return norms.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The n-th powers of matrices."""
    return _matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Count the singular values that exceed `rtol` times the largest."""
    return norms.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """x1[i] x2[j] of two vectors. Raises ValueError for other ranks."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer: expected two vectors, got {x1.ndim} and {x2.ndim} dimensions")
    out: Tensor = _outer(*promote_operands("outer", x1, x2))
    return out


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Pseudoinverses; singular values below `rtol` times the largest count as 0."""
    return solving.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRFactors:
    """Q with orthonormal columns and upper triangular R with Q R = x."""
    return QRFactors(*factors.qr(x, mode))


def slogdet(x: Tensor, /) -> SignAndLogAbsDet:
    """Sign and logarithm of the size of determinants."""
    return SignAndLogAbsDet(*norms.slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """x of x1 x = x2, where x2 is a vector if it has one dimension, else a stack of matrices."""
    A, B = promote_operands("solve", x1, x2)
    if B.ndim == 1:
        column = solving.solve(A, movement.reshape(B, shape=(1,) * (A.ndim - 2) + (B.numel(), 1)))
        return movement.reshape(column, shape=tuple(column.shape[:-1]))
    lead = max(A.ndim, B.ndim)
    A, B = (movement.reshape(v, shape=(1,) * (lead - v.ndim) + tuple(v.shape)) for v in (A, B))
    return solving.solve(A, B)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDFactors:
    """U, S and Vᴴ with U diag(S) Vᴴ = x."""
    return SVDFactors(*spectrum.svd(x, full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values, descending."""
    return spectrum.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: dtype | None = None) -> Tensor:
    """Σ of the `offset`-th diagonals of matrices."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """(Σ|x|^ord)^(1/ord) over `axis`."""
    if axis == ():
        return cast_to(abs(x), x.array.dtype)
    if not x.numel() and (ord < 0 or isinf(ord)):  # of no elements, where PyTorch refuses
        counted = count_nonzero(x, axis=axis, keepdims=keepdims)
        if counted.numel():
            return full_like(counted, 0.0 if ord > 0 else inf, dtype=x.dtype)
    return norms.vector_norm(x, ord, axis, keepdims)
