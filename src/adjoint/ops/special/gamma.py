"""The logarithm of the gamma function and its derivatives, which NumPy lacks; computed in float64.

Sources: Abramowitz & Stegun 6.1.17, 6.1.41, 6.3.7, 6.3.18 (reflections, asymptotic series), 23.2.9 (ζ by Euler and
Maclaurin).
"""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.op.families import primitive, unary
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, Operand
from adjoint.ops.special.chebyshev import in_double, in_wide_lanes
from adjoint.ops.special.zeta import sum_hurwitz_series

# B₂, B₄, …
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
ASYMPTOTIC_FROM = 10.0  # from here on the series have converged


@in_double
def lgamma_array(x: Array) -> Array:
    """ln |Γ(x)| of an array; by a Taylor series near 1 and 2, where CPython's `lgamma` cancels."""
    poles = (x <= 0) & (x == np.floor(x)) | np.isinf(x)
    near = (x > 0.5) & (x < 3.5)
    safe = np.where(poles | near, 1.0, x)
    out = np.where(poles, np.inf, np.fromiter(map(math.lgamma, safe.tolist()), np.float64, safe.size))
    out[near] = _expand_near_two(x[near])
    return out


# (-1)ᵏ (ζ(k) - 1) / k for k ≥ 2: ln Γ(2 + t) is their series, and (1 - γ) t. Source: Abramowitz & Stegun 6.1.33
TAYLOR_AT_TWO = """
    0.3224670334241132 -0.0673523010531981 0.020580808427784546 -0.007385551028673986 0.0028905103307415234
    -0.001192753911703261 0.0005096695247430425 -0.00022315475845357939 9.945751278180853e-05
    -4.492623673813314e-05 2.050721277567069e-05 -9.439488275268397e-06 4.374866789907488e-06
    -2.039215753801366e-06 9.55141213040742e-07 -4.492469198764566e-07 2.1207184805554665e-07
    -1.0043224823968099e-07 4.7698101693639804e-08 -2.2711094608943164e-08 1.0838659214896955e-08
    -5.183475041970047e-09 2.4836745438024785e-09 -1.1921401405860912e-09 5.731367241678862e-10
    -2.7595228851242334e-10 1.330476437424449e-10 -6.4229645638381e-11
"""
TAYLOR_COEFFICIENTS = tuple(map(float, TAYLOR_AT_TWO.split()))
EULER_GAMMA = 0.5772156649015329


def _expand_near_two(x: Array) -> Array:
    """Return ln Γ(x) for ½ < x < 3½: the series at 2, less ln(1 + t) = ln Γ(2 + t) - ln Γ(1 + t) one further down."""
    at_one, at_three = x < 1.5, x > 2.5
    t = np.where(at_one, x - 1.0, np.where(at_three, x - 3.0, x - 2.0))
    out = t * (1.0 - EULER_GAMMA + t * np.polynomial.polynomial.polyval(t, TAYLOR_COEFFICIENTS))
    return np.where(at_one, out - np.log1p(t), np.where(at_three, out + np.log(x - 1.0), out))


SINE = tuple((-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(12))  # sin(πr) / r, in r²
COSINE = tuple((-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k) for k in range(12))  # cos(πr)
SHIFT = 8  # smaller arguments are brought beyond it


def _lgamma_lanes(b: Operand, x: Operand, bits: int) -> Operand:
    """Stirling's series of x + 8, less the logarithm of x (x + 1) … (x + 7); by reflection left of ½.

    That is exact for float32; near 1 and 2, where the logarithm is nearly 0, it would not be for float64.
    """
    if bits == 64:
        return b.library("lgamma", x)
    left = b.lt(x, 0.5)
    y = b.select(left, b.sub(1.0, x), x)
    near = b.lt(y, float(SHIFT))
    between = y
    for k in range(1, SHIFT):
        between = b.mul(between, b.add(y, float(k)))
    z = b.select(near, b.add(y, float(SHIFT)), y)
    inverse = b.reciprocal(z)
    terms = [c / (2 * k * (2 * k - 1)) for k, c in enumerate(BERNOULLI, 1)]
    rest = b.fma(inverse, b.horner(b.mul(inverse, inverse), terms), math.log(2 * math.pi) / 2)
    out = b.add(b.fma(b.sub(z, 0.5), b.log(z), b.neg(z)), rest)
    out = b.sub(out, b.log(b.select(near, between, 1.0)))
    out = b.select(b.logical_or(b.eq(y, 1.0), b.eq(y, 2.0)), 0.0, out)
    r = b.sub(x, b.round(x))
    sine = b.abs(b.mul(r, b.horner(b.mul(r, r), SINE)))
    out = b.select(left, b.sub(b.log(b.div(math.pi, sine)), out), out)
    return b.select(b.isinf(x), math.inf, out)


@unary(
    unsupported_kinds="c",
    promotion="float",
    scalar=in_wide_lanes(_lgamma_lanes),
    native=1.2e-7,
    dx=lambda g, x: g * digamma(x),
)
def lgamma(x: Array) -> Array:
    """ln |Γ(x)|."""
    return lgamma_array(x)


@in_double
def digamma_array(x: Array) -> Array:
    """ψ(x) of an array."""
    left = x < 0.5
    y = np.where(left, 1.0 - x, x)
    total = np.zeros_like(y)
    for _ in range(int(ASYMPTOTIC_FROM)):
        near = y < ASYMPTOTIC_FROM
        total -= np.where(near, 1.0 / np.where(near, y, 1.0), 0.0)
        y = y + near
    square = 1.0 / (y * y)
    series = sum(b / (2 * k) * square**k for k, b in enumerate(BERNOULLI, 1))
    total += np.log(y) - 0.5 / y - series
    out = np.where(left, total - np.pi / np.tan(np.pi * np.where(left, x - np.round(x), 0.25)), total)
    out = np.where(left & (x == np.floor(x)), np.nan, out)
    return np.where(x == 0, np.copysign(np.inf, -x), np.where(x == -np.inf, np.nan, out))


def _digamma_lanes(b: Operand, x: Operand, bits: int) -> Operand:
    left = b.lt(x, 0.5)
    y = b.select(left, b.sub(1.0, x), x)
    above, below = b.mul(y, 0.0), b.add(b.mul(y, 0.0), 1.0)  # the sum of 1 / y, 1 / (y + 1), … up to FAR
    for _ in range(int(ASYMPTOTIC_FROM)):
        near = b.lt(y, ASYMPTOTIC_FROM)
        above = b.select(near, b.fma(above, y, below), above)
        below = b.select(near, b.mul(below, y), below)
        y = b.select(near, b.add(y, 1.0), y)
    inverse = b.reciprocal(y)
    square = b.mul(inverse, inverse)
    series = b.mul(square, b.horner(square, [c / (2 * k) for k, c in enumerate(BERNOULLI, 1)]))
    total = b.sub(b.sub(b.fma(inverse, -0.5, b.log(y)), series), b.div(above, below))
    r = b.sub(x, b.round(x))
    cotangent = b.div(b.horner(b.mul(r, r), COSINE), b.mul(r, b.horner(b.mul(r, r), SINE)))
    reflected = b.select(b.eq(r, 0.0), math.nan, b.fma(cotangent, -math.pi, total))
    out = b.select(left, reflected, total)
    out = b.select(b.eq(x, 0.0), b.copysign(math.inf, b.neg(x)), out)
    return b.select(b.eq(x, math.inf), math.inf, out)


@unary(
    unsupported_kinds="c",
    promotion="float",
    scalar=in_wide_lanes(_digamma_lanes),
    native=1e-7,
    dx=lambda g, x: g * polygamma(x, n=1),
)
def digamma(x: Operand) -> Operand:
    """The derivative of ln Γ(x)."""
    return digamma_array(x)


@in_double
def _polygamma_array(x: Array, *, n: int) -> Array:
    """±n! ζ(n + 1, x), and by reflection at ½ where x < 0: (-1)ⁿ ψ(1 - x) less the n-th derivative of π cot πx."""
    left = x < 0
    out = (-1.0) ** (n + 1) * math.factorial(n) * sum_hurwitz_series(np.array(n + 1.0), np.where(left, 1.0 - x, x))
    nearest = np.round(x)
    slope = np.poly1d([1.0, 0.0])  # of the cotangent c, whose derivative is -1 - c²
    for _ in range(n):
        slope = np.polymul(slope.deriv(), np.poly1d([-1.0, 0.0, -1.0]))
    cot = 1.0 / np.tan(np.pi * np.where(left, x - nearest, 0.25))
    out = np.where(left, (-1.0) ** n * out - np.pi ** (n + 1) * slope(cot), out)
    pole = (x <= 0) & (x == nearest) & np.isfinite(x)
    return np.where(pole, np.copysign(np.inf, (-1.0) ** (n + 1)), np.where(x == -np.inf, np.nan, out))


@primitive(
    family="elementwise",
    promotion="float",
    spec=lambda x, *, n: Spec(x.shape, x.dtype),
    dx=lambda g, x, n: g * polygamma(x, n=n + 1),
)
def polygamma(x: Array, *, n: int) -> Array:
    """The n-th derivative of digamma, n ≥ 1."""
    return _polygamma_array(x, n=n)
