"""The factors P L U of stacks of matrices, by elimination with row exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, NumpyDtype, Operand, Shape
from adjoint.ops.elementwise.select import where
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.linalg.matmul import bmm
from adjoint.ops.linalg.matrices import INFO, transpose_matrix
from adjoint.ops.linalg.packed_factors import integers, lower, pack_parts, packed_spec, pivot_size, unpack_parts, upper
from adjoint.ops.linalg.triangular import solve_triangular, substitute
from adjoint.ops.movement.movement import cat, slice

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

PANEL_COLUMNS = 8  # columns: so many are eliminated one after another
Shapes = tuple[tuple[int, ...], ...]


def lu_shapes(shape: Shape) -> Shapes:
    """The shapes of L and U in one matrix, of the rows exchanged, and of the place of the first zero pivot."""
    m, n = shape[-2:]
    return (m, n), (min(m, n),), ()


def pivots_of(out: Operand, shape: Shape) -> Operand:
    """The exchanged rows, counted from 1, from a result of `lu` for matrices of this shape."""
    m, n = shape[-2:]
    return integers(out, start=m * n, stop=m * n + min(m, n))


def _lu_dx(g: Operand, out: Operand, x_shape: Shape) -> Tensor:
    """A = P [L; L₂] [U U₂]: first towards what L₂ = (Pᵀ A)₂ U⁻¹ or U₂ = L⁻¹ (Pᵀ A)₂ is made of, then L U."""
    m, n = x_shape[-2:]
    k = min(m, n)
    factors, gf = (unpack_parts(array, lu_shapes(x_shape))[0] for array in (out, g))
    square = _block(factors, 0, k, 0, k)
    turned, gl, gu = transpose_matrix(square), _block(gf, 0, k, 0, k), _block(gf, 0, k, 0, k)
    beyond = None
    if n > k:
        beyond = solve_triangular(turned, _block(gf, 0, k, k, n), upper=True, unitriangular=True)
        gl = gl - bmm(beyond, transpose_matrix(_block(factors, 0, k, k, n)))
    elif m > k:
        beyond = transpose_matrix(solve_triangular(square, transpose_matrix(_block(gf, k, m, 0, k)), upper=True))
        gu = gu - bmm(transpose_matrix(_block(factors, k, m, 0, k)), beyond)
    unit = where(np.eye(k, dtype=bool), 1.0, lower(square))
    inner = lower(bmm(transpose_matrix(unit), lower(gl))) + upper(bmm(upper(gu), transpose_matrix(upper(square))))
    inner = transpose_matrix(solve_triangular(square, transpose_matrix(inner), upper=True))
    slope = solve_triangular(turned, inner, upper=True, unitriangular=True)
    if beyond is not None:
        slope = cat(slope, beyond, axis=len(x_shape) - (1 if n > k else 2))
    array: Operand = getattr(out, "array", out)
    return bmm(permutation_matrix(pivots_of(out, x_shape), rows=m, dtype=array.dtype), slope)


def _block(x: Operand, top: int, bottom: int, left: int, right: int) -> Tensor:
    lead = tuple((0, n, 1) for n in x.shape[:-2])
    return slice(x, bounds=(*lead, (top, bottom, 1), (left, right, 1)))


@primitive(spec=packed_spec(lu_shapes), node="LinalgLuFactorExBackward0", batch_leading=True, dx=_lu_dx)
def lu(x: Array) -> Array:
    """L, without its diagonal of ones, and U in one matrix; rows exchanged, from 1; the first zero pivot, or 0."""
    factors, rows = _factorize(x)
    return pack_parts(x, factors, (rows + 1).astype(x.dtype), _first_zero(factors).astype(x.dtype))


def zero_pivots(x: Array) -> Array:
    """The place of the first zero on the diagonal of each U, counted from 1, or 0."""
    return _first_zero(_factorize(x)[0])


def _first_zero(factors: Array) -> Array:
    zero = np.diagonal(factors, 0, -2, -1) == 0
    if not zero.shape[-1]:
        return np.zeros(zero.shape[:-1], INFO)
    return np.where(zero.any(-1), zero.argmax(-1) + 1, 0)


def _factorize(x: Array) -> tuple[Array, Array]:
    m, n = x.shape[-2:]
    a = x.reshape(int(np.prod(x.shape[:-2])), m, n).copy()
    rows = np.zeros((a.shape[0], min(m, n)), np.intp)
    if a.size:
        with np.errstate(all="ignore"):
            _eliminate(a, rows)
    return a.reshape(x.shape), rows.reshape(*x.shape[:-2], -1) if a.shape[0] else rows.reshape(*x.shape[:-2], min(m, n))


def _eliminate(a: Array, rows: Array) -> None:
    """Write L and U into a, and the rows exchanged with 0, 1, 2, … into `rows`.

    Toledo, "Locality of reference in LU decomposition with partial pivoting", 1997: half of the columns, then the rest.
    """
    k = min(a.shape[-2:])
    if k > PANEL_COLUMNS:
        half = k // 2
        _eliminate(a[:, :, :half], rows[:, :half])
        _exchange(a[:, :, half:], rows[:, :half])
        substitute(a[:, :half, :half], a[:, :half, half:], True)
        a[:, half:, half:] -= multiply_matrices(a[:, half:, :half], a[:, :half, half:])
        _eliminate(a[:, half:, half:], rows[:, half:])
        _exchange(a[:, half:, :half], rows[:, half:])
        rows[:, half:] += half
        return
    each = np.arange(a.shape[0])
    for j in range(k):
        rows[:, j] = at = pivot_size(a[:, j:, j]).argmax(-1) + j
        a[each, at], a[:, j] = a[:, j], a[each, at]
        pivot = a[:, j, j, None]
        a[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)
        a[:, j + 1 :, j + 1 :] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 :]


def _exchange(a: Operand, rows: Any) -> None:
    order = permutation(rows, a.shape[1])
    a[...] = np.take_along_axis(a, order[..., None], 1)


def permutation(rows: Array, count: int) -> Array:
    """Return the row at each of `count` places after exchanging row i with rows[i], for i = 0, 1, …"""
    order = np.tile(np.arange(count), (*rows.shape[:-1], 1))
    for i in range(rows.shape[-1]):
        at = rows[..., i, None]
        there = np.take_along_axis(order, at, -1)
        np.put_along_axis(order, at, order[..., i, None], -1)
        order[..., i] = there[..., 0]
    return order


@primitive(spec=lambda x, *, rows, dtype: Spec((*x.shape[:-1], rows, rows), dtype), batch_leading=True, raises=True)
def permutation_matrix(x: Array, *, rows: int, dtype: NumpyDtype) -> Operand:
    """P with A = P L U, from the rows exchanged, counted from 1."""
    order = permutation(x.astype(np.intp) - 1, rows)
    out = np.zeros((*order.shape, rows), dtype)
    np.put_along_axis(out, order[..., None, :], 1, -2)
    return out
