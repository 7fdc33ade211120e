"""Inverses, determinants and solutions of stacks of matrices.

Source of the rules: Giles, "An extended collection of matrix derivative results", 2008.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.dtype.dtype import real_type
from adjoint.core.op.eager_kernels import StackFunction
from adjoint.core.op.families import primitive
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec, broadcast_shapes, describe
from adjoint.core.typing import Array, Function, Operand
from adjoint.ops.elementwise.complex import conj, imag, is_complex, make_complex
from adjoint.ops.linalg import lapack
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.linalg.lu import zero_pivots
from adjoint.ops.linalg.matmul import bmm
from adjoint.ops.linalg.matrices import (
    INFO,
    LinAlgError,
    adjoint,
    first_fault,
    info_spec,
    same_spec,
    solve_spec,
    transpose_matrix,
)
from adjoint.ops.movement.movement import reshape, slice
from adjoint.ops.reduction import reduction

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


FLAG = Spec((), np.dtype(np.bool_))


def _number_spec(x: Operand) -> Spec:
    return Spec(x.shape[:-2], x.dtype)


def as_1x1_matrix(g: Operand) -> Tensor:
    """Numbers as 1 × 1 matrices."""
    return reshape(g, shape=(*g.shape, 1, 1))


INV, SOLVE, DET, SLOGDET = (StackFunction(name) for name in ("inv", "solve", "det", "slogdet"))


def _one_by_one(function: Function, *stacks: Any) -> Array:
    """Call `function` for each matrix; NaN where it fails."""
    lead = broadcast_shapes(*(s.shape[:-2] for s in stacks))
    stacks = tuple(np.broadcast_to(s, (*lead, *s.shape[-2:])) for s in stacks)
    out = np.full(stacks[-1].shape, np.nan, stacks[-1].dtype)
    for at in np.ndindex(*lead):
        try:
            out[at] = function(*(s[at] for s in stacks))
        except np.linalg.LinAlgError:
            continue
    return out


@primitive(spec=info_spec, batch_leading=True)
def singular_at(x: Array) -> Array:
    """The place, from 1, of the first zero on the diagonal of each matrix's factor U; 0 where it has an inverse."""
    return _zero_pivot_positions(x)


def _zero_pivot_positions(x: Array) -> Array:
    found = np.zeros(x.shape[:-2], INFO)
    singular = np.asarray(slogdet_parts(x)[0] == 0)
    if singular.any():
        found[singular] = np.maximum(zero_pivots(x[singular]), 1)
    return found


def _inv_dx(g: Operand, out: Operand) -> Tensor:
    turned = transpose_matrix(out)
    return -bmm(turned, bmm(g, turned))


@primitive(
    spec=lambda x, **_: same_spec(x),
    node="LinalgInvExBackward0",
    batch_leading=True,
    raises=lambda *_, name="linalg.inv": bool(name),
    dx=_inv_dx,
)
def inv(x: Array, *, name: str = "linalg.inv") -> Array:
    """x⁻¹. Raises LinAlgError for a singular matrix, which names the function `name`, if any."""
    found = INV.find(x, flags=())
    if found is not None and not found[1]:
        return found[0]
    if found is None:
        with suppress(np.linalg.LinAlgError):
            return lapack.inv(x)
    fault = first_fault(_zero_pivot_positions(x)) if name else None
    if fault is None:
        return _one_by_one(lapack.inv, x) if found is None else found[0]
    raise LinAlgError(
        f"{name}: {fault[0]}The diagonal element {fault[1]} is zero, the inversion could not be completed because the "
        f"input matrix is singular. Given {describe(x)}"
    )


def _cofactors_dx(g: Operand, x: Operand, out: Operand) -> Tensor:
    """The gradient of det(x) x⁻ᵀ, where x has an inverse."""
    slope, rank = transpose_matrix(inv(x, name="")), len(x.shape)
    along = reduction.sum(g * slope, axes=(rank - 2, rank - 1), keepdims=True)
    return along * out - bmm(out, bmm(transpose_matrix(g), slope))


@primitive(spec=same_spec, batch_leading=True, dx=_cofactors_dx)
def cofactors(x: Array) -> Array:
    """∂ det(x) / ∂x: det(x) x⁻ᵀ, and for a singular x = U S Vᵀ the limit: det(U V) U diag(∏ of the other s) Vᵀ."""
    size = lapack.det(x)
    singular = size == 0
    regular = np.where(singular[..., None, None], np.eye(x.shape[-1], dtype=x.dtype), x)
    out = size[..., None, None] * np.swapaxes(lapack.inv(regular), -1, -2)
    if singular.any():
        u, s, vh = lapack.svd(x[singular])
        rows = np.where(np.eye(s.shape[-1], dtype=bool), 1, s[..., None, :])
        others = (lapack.det(u) * lapack.det(vh))[..., None] * rows.prod(-1)
        out[singular] = multiply_matrices(u * others[..., None, :], vh)
    return out


@primitive(
    spec=_number_spec, node="LinalgDetBackward0", batch_leading=True, dx=lambda g, x: as_1x1_matrix(g) * cofactors(x)
)
def det(x: Array) -> Operand:
    """The determinant."""
    found = DET.find(x, flags=())
    return lapack.det(x) if found is None else found[0]


def _slogdet_dx(g: Operand, x: Operand) -> Tensor:
    lead = x.shape[:-2]
    last = slice(g, bounds=(*((0, n, 1) for n in lead), (1, 2, 1)))
    return reshape(last, shape=(*lead, 1, 1)) * transpose_matrix(inv(x, name=""))


@primitive(
    spec=lambda x: Spec((*x.shape[:-2], 2), x.dtype),
    node="LinalgSlogdetBackward0",
    batch_leading=True,
    dx=_slogdet_dx,
)
def slogdet(x: Array) -> Array:
    """The sign of the determinant, and ln |det x|, side by side, of real matrices."""
    found = SLOGDET.find(x, flags=())
    return np.stack(lapack.slogdet(x), -1) if found is None else found[0]


@primitive(
    spec=lambda x: Spec(x.shape[:-2], real_type(x.dtype)),
    node="LinalgSlogdetBackward0",
    batch_leading=True,
    dx=lambda g, x: as_1x1_matrix(g) * adjoint(inv(x, name="")),
)
def logabsdet(x: Array) -> Operand:
    """ln |det x|."""
    return slogdet_parts(x)[1]


def _sign_dx(g: Operand, x: Operand, out: Operand) -> Tensor:
    """0 for real numbers; a complex sign turns with the imaginary part of tr(x⁻¹ dx)."""
    if not is_complex(x):
        return as_1x1_matrix(g * 0.0) * x
    turning = imag(conj(g) * out)
    return as_1x1_matrix(make_complex(turning * 0.0, -turning)) * adjoint(inv(x, name=""))


@primitive(spec=_number_spec, batch_leading=True, holomorphic=False, dx=_sign_dx)
def sign_of_det(x: Array) -> Operand:
    """The sign of the determinant."""
    return slogdet_parts(x)[0]


def slogdet_parts(x: Array) -> tuple[Operand, Operand]:
    """The sign of the determinant, and ln |det x|."""
    found = SLOGDET.find(x, flags=())
    return lapack.slogdet(x) if found is None else tuple(np.moveaxis(found[0], -1, 0).copy())


@primitive(
    spec=solve_spec,
    node="LinalgSolveExBackward0",
    raises=lambda *_, name="linalg.solve": bool(name),
    da=lambda g, a, out: -bmm(solve(transpose_matrix(a), g, name=""), transpose_matrix(out)),
    db=lambda g, a: solve(transpose_matrix(a), g, name=""),
)
def solve(a: Array, b: Array, *, name: str = "linalg.solve") -> Array:
    """The matrix x with a x = b. Raises LinAlgError for a singular a, which names the function `name`, if any."""
    found = SOLVE.find(a, b, flags=())
    if found is not None and not found[1]:
        return found[0]
    if found is None:
        with suppress(np.linalg.LinAlgError):
            return lapack.solve(a, b)
    fault = first_fault(_zero_pivot_positions(a)) if name else None
    if fault is None:
        return _one_by_one(lapack.solve, a, b) if found is None else found[0]
    raise LinAlgError(
        f"{name}: {fault[0]}The solver failed because the input matrix is singular. Given {describe(a)} and "
        f"{describe(b)}"
    )


@primitive(family="check", effect=True, spec=lambda *_, **__: FLAG)
def require_regular_inv(holds: Array, x: Array, *, name: str = "linalg.inv") -> Operand:
    """Raise the error of `inv` unless `holds`."""
    if not holds:
        op_of(inv).evaluate(x, name=name)
    return np.True_


@primitive(family="check", effect=True, spec=lambda *_, **__: FLAG)
def require_regular_solve(holds: Array, a: Array, b: Array, *, name: str = "linalg.solve") -> Operand:
    """Raise the error of `solve` unless `holds`."""
    if not holds:
        op_of(solve).evaluate(a, b, name=name)
    return np.True_
