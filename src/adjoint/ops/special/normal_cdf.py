"""The normal distribution function's logarithm and inverse, and the scaled complement of erf."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.arithmetic import square
from adjoint.ops.elementwise.comparison import lt
from adjoint.ops.elementwise.select import where
from adjoint.ops.elementwise.transcendental import exp
from adjoint.ops.special import chebyshev_tables as tables
from adjoint.ops.special.chebyshev import chebyshev, chebyshev_lanes, in_wide_lanes, piecewise, special_unary
from adjoint.ops.special.erf import erfc_array

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

ROOT_HALF = math.sqrt(0.5)


def _erfcx_right(x: Array) -> Array:
    """exp(x²) erfc x for x ≥ 0: a series of (1 + 2x) times that in (x - a) / (x + a) (Shepherd & Laframboise, 1981)."""
    far = np.where(np.isinf(x), 1.0, (x - 3.75) / (x + 3.75))
    return chebyshev(tables.ERFCX, far) / (1 + 2 * x)


def _erfcx_left(x: Array) -> Array:
    """2 exp(x²) - exp(x²) erfc(-x) for x < 0; ∞ where that overflows."""
    bounded = np.maximum(x, -27)
    head = (bounded.view(np.int64) & np.int64(-(2**32))).view(np.float64)
    # the square in two parts, so that its rounding does not reach the exponential
    square_exp = np.exp(head * head) * np.exp((bounded - head) * (bounded + head))
    return np.where(x < -27, np.inf, 2 * square_exp - _erfcx_right(-x))


@special_unary(node="SpecialErfcxBackward0", dx=lambda g, x, out: g * (x * out * 2.0 - 2.0 / math.sqrt(math.pi)))
def erfcx(x: Array) -> Array:
    """exp(x²) erfc x."""
    return piecewise(x, (x >= 0, _erfcx_right), (x < 0, _erfcx_left))


def _log_ndtr_dx(g: Operand, x: Operand, out: Operand) -> Tensor:
    """g φ(x) / Φ(x), by erfcx or by the logarithm, where each neither overflows nor cancels."""
    left = lt(x, 0.0)
    tail = math.sqrt(2 / math.pi) / erfcx(where(left, x, 0.0) * -ROOT_HALF)
    bulk = exp(square(where(left, 0.0, x)) * -0.5 - where(left, 0.0, out)) * math.sqrt(0.5 / math.pi)
    return g * where(left, tail, bulk)


@special_unary(node="SpecialLogNdtrBackward0", dx=_log_ndtr_dx)
def log_ndtr(x: Array) -> Array:
    """ln Φ(x), Φ the normal distribution function."""
    return piecewise(
        x,
        (x < -1, lambda x: np.log(_erfcx_right(-x * ROOT_HALF) / 2) - x * x / 2),
        (x >= -1, lambda x: np.log1p(-erfc_array(x * ROOT_HALF) / 2)),
    )


def _quantile_middle(y: Array) -> Array:
    """Φ⁻¹(y + ½) for |y| ≤ 3/8."""
    return y * chebyshev(tables.QUANTILE_MIDDLE, 2 * (y / 0.375) ** 2 - 1)


def _quantile_below(p: Array) -> Array:
    """Φ⁻¹ for p < 1/8: (ln x + R(1/x)) / x - x, where p = exp(-x²/2)."""
    x = np.sqrt(-2 * np.log(p))
    rest = piecewise(
        x,
        (x <= 8, lambda x: chebyshev(tables.QUANTILE_NEAR, (1 / x - 5 / 16) * (16 / 3))),
        (x > 8, lambda x: chebyshev(tables.QUANTILE_FAR, (1 / x - (1 / 8 + 1 / 39) / 2) * (2 / (1 / 8 - 1 / 39)))),
    )
    return np.where(p == 0, -np.inf, (np.log(x) + rest) / x - x)


def _below_lanes(b: Operand, p: Operand, bits: int, least: float) -> Operand:
    """`_quantile_below` in a kernel, where p is 0 or at least `least`."""
    x = b.sqrt(b.mul(b.log(p), -2.0))
    inverse = b.reciprocal(x)
    rest = chebyshev_lanes(b, tables.QUANTILE_NEAR, b.mul(b.sub(inverse, 5 / 16), 16 / 3), bits)
    if least < math.exp(-32):
        place = b.mul(b.sub(inverse, (1 / 8 + 1 / 39) / 2), 2 / (1 / 8 - 1 / 39))
        rest = b.select(b.le(x, 8.0), rest, chebyshev_lanes(b, tables.QUANTILE_FAR, place, bits))
    value = b.sub(b.mul(b.add(b.log(x), rest), inverse), x)
    return b.select(b.eq(p, 0.0), -math.inf, value)


def _middle_lanes(b: Operand, y: Operand, bits: int) -> Operand:
    """`_quantile_middle` in a kernel."""
    place = b.fma(b.mul(y, y), 2 / 0.375**2, -1.0)
    return b.mul(y, chebyshev_lanes(b, tables.QUANTILE_MIDDLE, place, bits))


def _ndtri_lanes(b: Operand, p: Operand, bits: int) -> Operand:
    y = b.sub(p, 0.5)
    upper = b.gt(y, 0.0)
    below = _below_lanes(b, b.select(upper, b.sub(1.0, p), p), bits, 0.0)
    return b.select(b.le(b.abs(y), 0.375), _middle_lanes(b, y, bits), b.select(upper, b.neg(below), below))


@special_unary(
    scalar=in_wide_lanes(_ndtri_lanes),
    kernel=True,
    node="SpecialNdtriBackward0",
    dx=lambda g, out: g * (exp(out * out * 0.5) * math.sqrt(2 * math.pi)),
)
def ndtri(x: Array) -> Array:
    """Φ⁻¹(x), Φ the normal distribution function; -∞ and ∞ at 0 and 1, NaN outside."""
    return piecewise(
        x,
        ((x >= 0) & (x < 0.125), _quantile_below),
        ((x >= 0.125) & (x <= 0.875), lambda p: _quantile_middle(p - 0.5)),
        ((x > 0.875) & (x <= 1), lambda p: -_quantile_below(1 - p)),
    )


def _erfinv_lanes(b: Operand, x: Operand, bits: int) -> Operand:
    size = b.abs(x)
    below = _below_lanes(b, b.fma(size, -0.5, 0.5), bits, 2.0 ** (-25 if bits == 32 else -54))
    near = _middle_lanes(b, b.mul(x, 0.5), bits)
    return b.mul(b.select(b.le(size, 0.75), near, b.copysign(below, x)), ROOT_HALF)


@special_unary(
    scalar=in_wide_lanes(_erfinv_lanes), kernel=True, dx=lambda g, out: g * (exp(out * out) * (math.sqrt(math.pi) / 2))
)
def erfinv(x: Array) -> Array:
    """The number whose erf is x: Φ⁻¹((1 + x) / 2) / √2."""
    size = np.abs(x)
    near, far = size <= 0.75, (size > 0.75) & (size <= 1)
    quantile = piecewise(
        x,
        (near, lambda x: _quantile_middle(x / 2)),
        (far, lambda x: np.copysign(_quantile_below((1 - np.abs(x)) / 2), x)),
    )
    return quantile * ROOT_HALF
