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
from adjoint.ops.special.chebyshev import horner, in_double, in_wide_lanes, parse_numbers, piecewise
from adjoint.ops.special.zeta import sum_hurwitz_series

# B₂, B₄, …
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1))
ASYMPTOTIC_FROM = 10.0  # from here on the series have converged


@in_double
def lgamma_array(x: Array) -> Array:
    """ln |Γ(x)| of an array: Stirling's series where no terms of it cancel, a series at 2 below, and reflection."""
    left = x < -0.5
    mirrored = left.any()
    y = np.where(left, 1.0 - x, x) if mirrored else x
    large, small = y >= ASYMPTOTIC_FROM, y < ASYMPTOTIC_FROM
    out = piecewise(y, (large, lambda z: (z - 0.5) * (np.log(z) - 1.0) + _stirling(z)), (small, _expand_at_two))
    if mirrored:  # |Γ(x) Γ(1 - x) sin πx| = π
        sine = np.abs(np.sin(np.pi * (x - np.round(x))))
        out = np.where(left, np.where(np.isinf(x), np.inf, np.log(np.pi / sine) - out), out)
    return out


def _stirling(x: Array) -> Array:
    """Return ln Γ(x) - (x - ½) (ln x - 1), a series in 1 / x."""
    inverse = 1.0 / x
    return (math.log(2 * math.pi) - 1.0) / 2 + inverse * horner(inverse * inverse, STIRLING)


# ln Γ(2 + t) / t for |t| ≤ ½, up to 1e-18: the polynomial through Chebyshev's points, by mpmath
AT_TWO = parse_numbers("""
    0.42278433509846713 0.32246703342411326 -0.0673523010531981 0.02058080842778038 -0.0073855510286719986
    0.002890510331034267 -0.0011927539118428156 0.0005096695154115458 -0.00022315475400520507 9.945767355819498e-05
    -4.49263133791557e-05 2.0505590755833454e-05 -9.438715099211532e-06 4.38470440459836e-06 -2.0439048107029907e-06
    9.200527894968101e-07 -4.3252393445604814e-07 2.78740805211359e-07 -1.3219945666117874e-07
""")


def _expand_at_two(x: Array) -> Array:
    """Return ln |Γ(x)| for -½ ≤ x < 10: ln Γ(2 + t), and ln |n + t| for each step n from there to x."""
    base = np.floor(x + 0.5)
    t = x - base
    out = t * horner(t, AT_TWO)
    if (top := int(base.max())) > 2:
        steps = np.ones_like(t)
        for n in range(2, top):
            steps *= np.where(base > n, t + n, 1.0)
        out += np.log(steps)
    np.subtract(out, np.log1p(t), out=out, where=base < 2)
    np.subtract(out, np.log(np.abs(x)), out=out, where=base < 1)
    return out


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
    rest = b.fma(inverse, b.horner(b.mul(inverse, inverse), STIRLING), math.log(2 * math.pi) / 2)
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
    kernel=True,
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
    kernel=True,
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
