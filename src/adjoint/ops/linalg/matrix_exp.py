"""The exponential of square matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.runtime.threads import one_blas_thread
from adjoint.core.typing import Array, Operand
from adjoint.ops.linalg.matrices import same_spec, transpose_matrix
from adjoint.ops.movement.movement import cat, slice
from adjoint.ops.special.chebyshev import parse_numbers

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

# Of Padé's approximants of these degrees, the largest norm for which the error is a rounding error of float64, from
# Higham, "The scaling and squaring method for the matrix exponential revisited", 2005, table 2.3.
MAX_NORM_BY_DEGREE = {3: 1.495585217958292e-2, 5: 2.539398330063230e-1, 7: 9.504178996162932e-1, 9: 2.097847961257068}
MAX_NORM_13 = 5.371920351148152
COEFFICIENTS: dict[int, tuple[float, ...]] = {
    3: (120.0, 60.0, 12.0, 1.0),
    5: (30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0),
    7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    9: (17643225600.0, 8821612800.0, 2075673600.0, 302702400.0, 30270240.0, 2162160.0, 110880.0, 3960.0, 90.0, 1.0),
}
COEFFICIENTS_13 = parse_numbers("""
64764752532480000.0 32382376266240000.0 7771770303897600.0 1187353796428800.0 129060195264000.0 10559470521600.0
670442572800.0 33522128640.0 1323241920.0 40840800.0 960960.0 16380.0 182.0 1.0
""")


def _blocks(a: Operand, b: Operand, c: Operand, d: Operand) -> Tensor:
    """[[a, b], [c, d]]."""
    rank = len(a.shape)
    return cat(cat(a, b, axis=rank - 1), cat(c, d, axis=rank - 1), axis=rank - 2)


def _block(x: Operand, row: int, column: int) -> Tensor:
    n = x.shape[-1] // 2
    lead = tuple((0, size, 1) for size in x.shape[:-2])
    return slice(x, bounds=(*lead, (row * n, row * n + n, 1), (column * n, column * n + n, 1)))


def _along_dx(g: Operand, x: Operand, e: Operand) -> Tensor:
    """The derivative of a block of exp [[x, e], [0, x]], by both x."""
    nothing, turned = x * 0.0, transpose_matrix(x)
    slope = exp_along(_blocks(turned, nothing, transpose_matrix(e), turned), _blocks(nothing, g, nothing, nothing))
    return _block(slope, 0, 0) + _block(slope, 1, 1)


@primitive(
    spec=lambda x, e: same_spec(x), batch_leading=True, dx=_along_dx, de=lambda g, x: exp_along(transpose_matrix(x), g)
)
def exp_along(x: Array, e: Array) -> Array:
    """d exp(x + t e) / dt at 0: the upper right block of exp [[x, e], [0, x]]. Source: Najfeld and Havel, 1995."""
    n = x.shape[-1]
    rows = np.concatenate([x, e], -1), np.concatenate([np.zeros_like(x), x], -1)
    return np.ascontiguousarray(_exponential(np.concatenate(rows, -2))[..., :n, n:])


@primitive(
    spec=same_spec,
    node="LinalgMatrixExpBackward0",
    batch_leading=True,
    dx=lambda g, x: exp_along(transpose_matrix(x), g),
)
def matrix_exp(x: Array) -> Array:
    """Σ xᵏ / k!, by a rational approximation of exp(x / 2ˢ), squared s times; float32 is computed in float64."""
    return _exponential(x)


def _exponential(x: Array) -> Array:
    wide = x.astype(np.result_type(x.dtype, np.float64)).reshape(-1, *x.shape[-2:]) if x.size else x
    out = np.empty_like(wide)
    if x.size:
        norms = np.abs(wide).sum(-2).max(-1)
        degrees = np.searchsorted(list(MAX_NORM_BY_DEGREE.values()), norms)
        for at in np.unique(degrees):
            chosen = degrees == at
            if at < len(MAX_NORM_BY_DEGREE):
                out[chosen] = _approximant(wide[chosen], COEFFICIENTS[list(MAX_NORM_BY_DEGREE)[at]])
            else:
                out[chosen] = _scale_and_square(wide[chosen], norms[chosen])
    return np.ascontiguousarray(out.reshape(x.shape), x.dtype)


@one_blas_thread
def _scale_and_square(x: Array, norms: Array) -> Array:
    finite = np.isfinite(norms)
    halvings = np.where(finite, np.ceil(np.log2(np.maximum(np.where(finite, norms, 1.0) / MAX_NORM_13, 1.0))), 0.0)
    x = np.where(finite[:, None, None], x, 0.0) / 2.0 ** halvings[:, None, None]
    out = _approximant_13(x)
    for k in range(int(halvings.max(initial=0.0))):
        more = halvings > k
        out[more] = out[more] @ out[more]
    out[~finite] = np.nan
    return out


@one_blas_thread
def _approximant(x: Array, c: tuple[float, ...]) -> Array:
    """(V - U)⁻¹ (V + U), V of the even and U of the odd powers."""
    square = x @ x
    power = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    odd, even = c[1] * power, c[0] * power
    for k in range(2, len(c), 2):
        power = power @ square
        even, odd = even + c[k] * power, odd + c[k + 1] * power
    return np.linalg.solve(even - x @ odd, even + x @ odd)


def _approximant_13(x: Array) -> Array:
    c, one = COEFFICIENTS_13, np.eye(x.shape[-1], dtype=x.dtype)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    odd = x @ (x6 @ (c[13] * x6 + c[11] * x4 + c[9] * x2) + c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * one)
    even = x6 @ (c[12] * x6 + c[10] * x4 + c[8] * x2) + c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * one
    return np.linalg.solve(even - odd, even + odd)
