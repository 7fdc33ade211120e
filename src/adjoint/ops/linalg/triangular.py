"""Triangular systems of equations, by substitution in blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.eager_kernels import StackFunction
from adjoint.core.op.families import primitive
from adjoint.core.typing import Array, Operand
from adjoint.ops.creation import mark_triangle
from adjoint.ops.elementwise.select import where
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.linalg.matmul import bmm, call_bare, transpose
from adjoint.ops.linalg.matrices import solve_spec

if TYPE_CHECKING:
    pass

SOLVE_TRIANGULAR = StackFunction("solve_triangular")
BLOCK = 16  # rows: below, a product of matrices is not quicker than one row after another


def _da(g: Operand, a: Operand, out: Operand, upper: bool, unitriangular: bool) -> Operand:
    back = call_bare(solve_triangular, transpose(a), g, upper=not upper, unitriangular=unitriangular)
    slope = call_bare(bmm, back, transpose(out))
    n, offset = a.shape[-1], -1 if unitriangular else 0
    read = np.tri(n, n, offset, bool) if type(slope) is np.ndarray else mark_triangle(n, n, offset)
    return -where(transpose(read) if upper else read, slope, 0.0)


@primitive(
    spec=solve_spec,
    node="LinalgSolveTriangularBackward0",
    da=_da,
    db=lambda g, a, upper, unitriangular: call_bare(
        solve_triangular, transpose(a), g, upper=not upper, unitriangular=unitriangular
    ),
)
def solve_triangular(a: Array, b: Array, *, upper: bool, unitriangular: bool = False) -> Array:
    """The x with a x = b, reading one triangle of a, with ones for its diagonal if `unitriangular`.

    A zero on the diagonal gives infinities and NaN, no error.
    """
    found = SOLVE_TRIANGULAR.find(a, b, flags=(upper, unitriangular))
    if found is not None:
        return found[0]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.empty((*lead, *b.shape[-2:]), b.dtype)
    x[...] = b
    with np.errstate(all="ignore"):
        if upper:  # turned around, it is a lower triangle
            substitute(a[..., ::-1, ::-1], x[..., ::-1, :], unitriangular)
        else:
            substitute(a, x, unitriangular)
    return x


def substitute(a: Array, x: Array, unitriangular: bool) -> None:
    """x ← a⁻¹ x, in place, for a lower triangle a."""
    n = a.shape[-1]
    if n > BLOCK:
        half = (n // 2 + BLOCK - 1) // BLOCK * BLOCK
        substitute(a[..., :half, :half], x[..., :half, :], unitriangular)
        x[..., half:, :] -= multiply_matrices(a[..., half:, :half], x[..., :half, :])
        substitute(a[..., half:, half:], x[..., half:, :], unitriangular)
        return
    for i in range(n):
        if i:
            x[..., i : i + 1, :] -= multiply_matrices(a[..., i : i + 1, :i], x[..., :i, :])
        if not unitriangular:
            x[..., i, :] /= a[..., i, i, None]
