"""Cholesky's factor, and Q and R, of stacks of matrices.

Source of the rules: Giles, "An extended collection of matrix derivative results", 2008; Walter and Lehmann,
"On evaluating higher-order derivatives of the QR decomposition", 2010.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.eager_kernels import StackFunction, with_eager_kernel
from adjoint.core.op.families import primitive
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec, describe
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.linalg import householder, lapack
from adjoint.ops.linalg.matmul import bmm, call_bare
from adjoint.ops.linalg.matrices import INFO, LinAlgError, adjoint, first_fault, info_spec, same_spec
from adjoint.ops.linalg.packed_factors import Shapes, lower, pack_parts, packed_spec, triangle, unpack_parts
from adjoint.ops.linalg.triangular import solve_triangular
from adjoint.ops.movement.movement import cat, slice

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


CHOLESKY = StackFunction("cholesky")


def symmetric(x: Array) -> Array:
    """(x + xᵀ) / 2, conjugated where complex."""
    return (x + np.swapaxes(x, -1, -2).conj()) * x.dtype.type(0.5)


@with_eager_kernel(1e-7)
def _cholesky_dx(g: Operand, out: Operand) -> Tensor:
    turned = adjoint(out)
    inner = call_bare(bmm, turned, g)
    inner = (triangle(inner, 1.0, 0.0) + adjoint(lower(inner))) * 0.5
    left = call_bare(solve_triangular, turned, inner, upper=True)
    return adjoint(call_bare(solve_triangular, turned, adjoint(left), upper=True))


@primitive(
    spec=lambda x, **_: same_spec(x),
    node="LinalgCholeskyExBackward0",
    batch_leading=True,
    holomorphic=False,
    raises=lambda *_, name="linalg.cholesky", **__: bool(name),
    dx=_cholesky_dx,
)
def cholesky(x: Array, *, name: str = "linalg.cholesky", triangle: bool = False) -> Array:
    """The lower triangle L with L Lᵀ = (x + xᵀ) / 2.

    `triangle`: x is symmetric, as its gradient is, and only its lower triangle is read. Raises LinAlgError unless x is
    positive-definite, with the `name` of what was called. Without one, what cannot be factored gives NaN below and on
    the diagonal.
    """
    found = CHOLESKY.find(x, flags=(triangle,))
    if found is not None and not found[1]:
        return found[0]
    whole = x if triangle else symmetric(x)
    if found is None:
        with suppress(np.linalg.LinAlgError):
            return lapack.cholesky(whole)
    orders = _minor_orders(whole)
    fault = first_fault(orders) if name else None
    if fault is not None:
        raise LinAlgError(
            f"{name}: {fault[0]}The factorization could not be completed because the input is not positive-definite "
            f"(the leading minor of order {fault[1]} is not positive-definite). Given {describe(x)}"
        ) from None
    if found is not None:
        return found[0]
    out = np.tril(np.full_like(whole, np.nan))
    good = orders == 0
    out[good] = lapack.cholesky(whole[good])
    return out


@primitive(family="check", effect=True, spec=lambda *_, **__: Spec((), np.dtype(np.bool_)))
def require_positive(holds: Array, x: Array, *, name: str = "linalg.cholesky", triangle: bool = False) -> Operand:
    """Raise the error of `cholesky` unless `holds`."""
    if not holds:
        op_of(cholesky).evaluate(x, name=name, triangle=triangle)
    return np.True_


@primitive(spec=lambda x, **_: info_spec(x), batch_leading=True)
def minor_not_positive(x: Array, *, triangle: bool = False) -> Array:
    """The order of the first leading minor of each matrix that is not positive-definite, or 0; x as in `cholesky`."""
    return _minor_orders(x if triangle else symmetric(x))


def _minor_orders(whole: Array) -> Array:
    n = whole.shape[-1]
    matrices = whole.reshape(math.prod(whole.shape[:-2]), n, n)
    out = np.zeros(len(matrices), INFO)
    parts = [(0, len(matrices))]
    while parts:  # those that hold a faulty matrix are halved
        start, stop = parts.pop()
        if start == stop or _is_positive(matrices[start:stop]):
            continue
        if stop - start == 1:
            out[start] = _faulty_order(matrices[start])
        else:
            middle = (start + stop) // 2
            parts += [(start, middle), (middle, stop)]
    return out.reshape(whole.shape[:-2])


def _faulty_order(x: Array) -> int:
    found = CHOLESKY.find(x, flags=(1,))
    if found is not None:
        return found[1]
    good, bad = 0, x.shape[-1]
    while bad - good > 1:  # a minor of what is positive-definite is so too
        half = (good + bad) // 2
        good, bad = (half, bad) if _is_positive(x[:half, :half]) else (good, half)
    return bad


def _is_positive(x: Array) -> bool:
    found = CHOLESKY.find(x, flags=(1,))
    if found is not None:
        return not found[1]
    try:
        return bool(np.isfinite(lapack.cholesky(x)).all())
    except np.linalg.LinAlgError:
        return False


def qr_shapes(shape: Shape, mode: str = "reduced") -> Shapes:
    """The shapes of Q and R."""
    m, n = shape[-2:]
    k = m if mode == "complete" else min(m, n)
    return ((0,) if mode == "r" else (m, k)), (k, n)


def _qr_dx(g: Operand, out: Operand, x_shape: Shape, mode: str) -> Tensor:
    m, n = x_shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, "
            "mode='reduced') if you are going to require gradients"
        )
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
    (q, r), (gq, gr) = (unpack_parts(array, qr_shapes(x_shape, mode)) for array in (out, g))
    if m >= n:
        return _tall_dx(gq, gr, q, r)
    # A = [A₁ A₂], of which A₁ = Q R₁ is square, and A₂ = Q R₂
    lead = tuple((0, size, 1) for size in x_shape[:-1])
    (r1, r2), (gr1, gr2) = (
        (slice(part, bounds=(*lead, (0, m, 1))), slice(part, bounds=(*lead, (m, n, 1)))) for part in (r, gr)
    )
    gq = gq + call_bare(bmm, call_bare(bmm, q, r2), adjoint(gr2))
    return cat(_tall_dx(gq, gr1, q, r1), call_bare(bmm, q, gr2), axis=len(x_shape) - 1)


def _tall_dx(gq: Tensor, gr: Tensor, q: Tensor, r: Tensor) -> Tensor:
    inner = triangle(call_bare(bmm, r, adjoint(gr)) - call_bare(bmm, adjoint(gq), q), 0.5, 0.0)
    total = gq + call_bare(bmm, q, inner + adjoint(inner))
    return adjoint(call_bare(solve_triangular, r, adjoint(total), upper=True))


@primitive(spec=packed_spec(qr_shapes), node="LinalgQrBackward0", batch_leading=True, holomorphic=False, dx=_qr_dx)
def qr(x: Array, *, mode: str = "reduced") -> Array:
    """Q with orthonormal columns and upper triangular R, x = Q R; Q is square if "complete", absent if "r"."""
    return pack_parts(x, *find_q_r(x, mode))


def find_q_r(x: Array, mode: str) -> tuple[Array, Array]:
    """Return Q, without elements if "r", and R."""
    factors = None if mode == "complete" else householder.factor(x)
    if factors is not None:
        r = factors.form_r()
        return r[:0] if mode == "r" else factors.form_q(), r
    if mode == "r":
        return np.zeros((*x.shape[:-2], 0), x.dtype), lapack.qr(x, "r")
    q, r = lapack.qr(x, "complete") if mode == "complete" else lapack.qr(x)
    return q, r


def reflector_shapes(shape: Shape) -> Shapes:
    """The shapes of the matrix of reflectors and of their factors."""
    return tuple(shape[-2:]), (min(shape[-2:]),)


@primitive(spec=packed_spec(reflector_shapes), node="GeqrfBackward0", batch_leading=True)
def geqrf(x: Array) -> Array:
    """R, and below it the reflectors v whose product I - τ v vᵀ is Q, with the factors τ."""
    turned, tau = lapack.qr(x, "raw")
    return pack_parts(x, np.swapaxes(turned, -1, -2), tau)
