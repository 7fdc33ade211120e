"""The zeta function of Hurwitz, the entropy of single elements, and x ln(1 + y)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.families import unary
from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.comparison import le, logical_and
from adjoint.ops.elementwise.select import where
from adjoint.ops.elementwise.transcendental import log, log1p
from adjoint.ops.special.chebyshev import special_binary

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
ASYMPTOTIC_MARGIN = 10.0  # so far above the exponent the series of the rest has converged


@special_binary(node="SpecialZetaBackward0", dy=lambda g, x, y: -(g * (x * zeta(x + 1.0, y))))
def zeta(x: Array, y: Array) -> Array:
    """Σ (y + k)⁻ˣ over k ≥ 0: Hurwitz's zeta function. ∞ at x = 1 and at the poles of y; NaN where it is not defined.

    The sum by Euler and Maclaurin: Abramowitz & Stegun 23.2.9.
    """
    pole = (y <= 0) & (y == np.floor(y))
    defined = (x > 1) & ((y > 0) | (x == np.floor(x))) & np.isfinite(y) | pole & (x > 1)
    sums = _hurwitz_sum(np.where(defined & np.isfinite(x), x, 2.0), np.where(defined & ~pole, y, 1.0))
    out = np.where(defined & np.isfinite(x), np.where(pole, np.inf, sums), np.nan)
    out = np.where((x > 1) & (y == np.inf), 0.0, out)
    return np.where((x == 1) & ~np.isnan(y), np.inf, out)


def _hurwitz_sum(s: Array, q: Array) -> Array:
    """Σ (q + k)⁻ˢ. For q < 0 the n + 1 terms below 0 are those of the sum from -q - n, with the sign (-1)ˢ."""
    below = q < 0
    count = np.where(below, np.ceil(-q), 0.0)
    total = sum_hurwitz_series(s, q + count)
    if not below.any():
        return total
    first = np.where(below, -q - (count - 1.0), 1.0)
    sign = np.where(s % 2 == 0, 1.0, -1.0)
    # the first two may cancel, to the last bit where q is half an integer
    both = total + sign * sum_hurwitz_series(s, first) - sign * sum_hurwitz_series(s, first + count)
    return np.where(below, both, total)


def sum_hurwitz_series(s: Array, q: Array) -> Array:
    """Σ (q + k)⁻ˢ for q > 0: terms until the series of the rest converges, or no further term counts."""
    total, y = q**-s, q + 1.0
    small = np.zeros(q.shape, bool)
    while True:
        term = y**-s
        small = small | (y > 1) & (np.abs(term) <= 1e-17 * np.abs(total))
        going = ~small & (y < ASYMPTOTIC_MARGIN + s)
        if not going.any():
            return total + np.where(small, 0.0, _euler_maclaurin_rest(s, y))
        total = np.where(going, total + term, total)
        y = np.where(going, y + 1.0, y)


def _euler_maclaurin_rest(s: Array, y: Array) -> Array:
    """Σ (y + k)⁻ˢ over k ≥ 0 by the integral and its corrections."""
    total = y ** (1.0 - s) / (s - 1.0) + 0.5 * y**-s
    term = s * y ** (-s - 1.0)
    for k, b in enumerate(BERNOULLI, 1):
        total = total + b / math.factorial(2 * k) * term
        term = term * (s + 2 * k - 1) * (s + 2 * k) / (y * y)
    return total


@unary(
    promotion="float",
    unsupported_kinds="c",
    scalar=lambda b, x: b.select(
        b.gt(x, 0.0), b.mul(b.neg(x), b.log(x)), b.select(b.eq(x, 0.0), 0.0, b.select(b.lt(x, 0.0), -math.inf, x))
    ),
    node="SpecialEntrBackward0",
    dx=lambda g, x: -(g * (log(x) + 1.0)),
)
def entr(x: Operand) -> Array:
    """-x ln x; 0 at 0, -∞ below."""
    with np.errstate(all="ignore"):
        out = np.where(x > 0, -x * np.log(x), np.where(x == 0, 0.0, np.where(x < 0, -np.inf, x)))
    return out.astype(x.dtype, copy=False)


def _xlog1py_dx(g: Operand, x: Operand, y: Operand) -> Tensor:
    if isinstance(y, (int, float)):  # whose logarithm as a tensor would be one of float32
        logarithm = math.log1p(y) if y > -1 else -math.inf if y == -1 else math.nan
        return g * (where(x == 0, 0.0, logarithm) if y <= -1 else logarithm)
    return g * where(logical_and(x == 0, le(y, -1)), 0.0, log1p(y))


@special_binary(
    scalar=lambda b, x, y: b.select(b.logical_and(b.eq(x, 0.0), b.eq(y, y)), 0.0, b.mul(x, b.log1p(y))),
    node="SpecialXlog1PyBackward0",
    dx=_xlog1py_dx,
    dy=lambda g, x, y: g * x / (y + 1.0),
)
def xlog1py(x: Array, y: Array) -> Array:
    """x ln(1 + y); 0 where x = 0, whatever y is, except NaN."""
    return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log1p(y))
