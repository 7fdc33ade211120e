"""Bessel functions of the orders 0 and 1, and Airy's: by Chebyshev series, far from the origin of their amplitudes.

Formulas of the amplitudes: Abramowitz & Stegun 9.2.5, 9.2.6, 10.4.59 and 10.4.60; of the logarithms: 9.1.13 and 9.6.13.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from adjoint.core.typing import Array, Function, Operand
from adjoint.ops.elementwise.arithmetic import abs, sign
from adjoint.ops.elementwise.comparison import le
from adjoint.ops.elementwise.select import where
from adjoint.ops.elementwise.transcendental import cos
from adjoint.ops.special import chebyshev_tables as tables
from adjoint.ops.special.chebyshev import chebyshev, chebyshev_lanes, in_wide_lanes, piecewise, special_unary

LINEAR_BELOW = 1e-15  # nearer to 0 than this a slope is what it is at 0


def _at_zero(x: Operand, slope: float, elsewhere: Callable[[Operand], Operand]) -> Operand:
    """The slope where x is 0 or nearly, else `elsewhere(x)`."""
    near = le(abs(x), LINEAR_BELOW)
    return where(near, slope, elsewhere(where(near, 1.0, x)))


def _scaled_i(near: tuple[float, ...], far: tuple[float, ...], x: Array) -> Array:
    """exp(-|x|) Iₙ(|x|) / |x|ⁿ up to 8, and without the power beyond."""
    size = np.abs(x)
    return piecewise(
        size,
        (size <= 8, lambda s: chebyshev(near, s / 4 - 1)),
        (size > 8, lambda s: chebyshev(far, 16 / s - 1) / np.sqrt(s)),
    )


def _i0e_array(x: Array) -> Array:
    return _scaled_i(tables.I0_NEAR, tables.I0_FAR, x)


def _i1e_array(x: Array) -> Array:
    scale = np.where(np.abs(x) <= 8, x, np.copysign(1.0, x))
    return _scaled_i(tables.I1_NEAR, tables.I1_FAR, x) * scale


def _scaled_i_lanes(
    b: Operand, near: Sequence[float], far: Sequence[float], x: Operand, bits: int
) -> tuple[Operand, Operand]:
    """The same in a kernel, and whether |x| is at most 8."""
    size = b.abs(x)
    close = b.le(size, 8.0)
    inside = chebyshev_lanes(b, near, b.fma(size, 0.25, -1.0), bits)
    outside = chebyshev_lanes(b, far, b.sub(b.div(16.0, size), 1.0), bits)
    return b.select(close, inside, b.div(outside, b.sqrt(size))), close


def _i0e_lanes(b: Operand, x: Operand, bits: int) -> Operand:
    return _scaled_i_lanes(b, tables.I0_NEAR, tables.I0_FAR, x, bits)[0]


def _i1e_lanes(b: Operand, x: Operand, bits: int) -> Operand:
    size, close = _scaled_i_lanes(b, tables.I1_NEAR, tables.I1_FAR, x, bits)
    return b.mul(size, b.select(close, x, b.copysign(1.0, x)))


@special_unary(
    scalar=in_wide_lanes(_i0e_lanes),
    kernel=True,
    node="SpecialI0EBackward0",
    dx=lambda g, x, out: g * (i1e(x) - sign(x) * out),
)
def i0e(x: Array) -> Array:
    """exp(-|x|) I₀(x), I₀ the modified Bessel function of the first kind."""
    return _i0e_array(x)


@special_unary(
    scalar=in_wide_lanes(_i1e_lanes),
    kernel=True,
    node="SpecialI1EBackward0",
    dx=lambda g, x, out: g * _at_zero(x, 0.5, lambda z: i0e(x) - out * (sign(x) + 1.0 / z)),
)
def i1e(x: Array) -> Array:
    """exp(-|x|) I₁(x), I₁ the modified Bessel function of the first kind."""
    return _i1e_array(x)


@special_unary(
    scalar=in_wide_lanes(lambda b, x, bits: b.mul(b.exp(b.abs(x)), _i0e_lanes(b, x, bits))),
    kernel=True,
    dx=lambda g, x: g * i1(x),
)
def i0(x: Array) -> Array:
    """I₀(x), the modified Bessel function of the first kind; NaN at infinity, as a product of 0 and ∞."""
    return np.exp(np.abs(x)) * _i0e_array(x)


@special_unary(
    scalar=in_wide_lanes(lambda b, x, bits: b.mul(b.exp(b.abs(x)), _i1e_lanes(b, x, bits))),
    kernel=True,
    node="SpecialI1Backward0",
    dx=lambda g, x, out: g * _at_zero(x, 0.5, lambda z: i0(x) - out / z),
)
def i1(x: Array) -> Array:
    """I₁(x), the modified Bessel function of the first kind; NaN at infinity, as a product of 0 and ∞."""
    return np.exp(np.abs(x)) * _i1e_array(x)


def _wave(size: Array, p: Sequence[float], q: Sequence[float], turned: bool) -> tuple[Operand, Operand]:
    """√(2/πx) (P cos a - Q sin a) and √(2/πx) (P sin a + Q cos a), a = x - π/4, or less π/2 more where `turned`.

    The sine and cosine of the difference are made from those of x, which are exact.
    """
    square = (8 / size) ** 2
    p, q = chebyshev(p, 2 * square - 1), chebyshev(q, 2 * square - 1) / size
    s, c = np.sin(size), np.cos(size)
    sine, cosine = (-(s + c), s - c) if turned else (s - c, s + c)
    scale = 1 / np.sqrt(np.pi * size)
    return scale * (p * cosine - q * sine), scale * (p * sine + q * cosine)


def _within_8(coefficients: Sequence[float], size: Array) -> Array:
    return chebyshev(coefficients, size * size / 32 - 1)


@special_unary(dx=lambda g, x: -(g * bessel_j1(x)))
def bessel_j0(x: Array) -> Array:
    """J₀(x), the Bessel function of the first kind; NaN at infinity."""
    size = np.abs(x)
    return piecewise(
        size,
        (size <= 8, lambda s: _within_8(tables.J0_NEAR, s)),
        (size > 8, lambda s: _wave(s, tables.P0, tables.Q0, False)[0]),
    )


@special_unary(dx=lambda g, x, out: g * _at_zero(x, 0.5, lambda z: bessel_j0(x) - out / z))
def bessel_j1(x: Array) -> Array:
    """J₁(x), the Bessel function of the first kind; NaN at infinity."""
    return piecewise(
        x,
        (np.abs(x) <= 8, lambda x: x * _within_8(tables.J1_NEAR, x)),
        (np.abs(x) > 8, lambda x: np.sign(x) * _wave(np.abs(x), tables.P1, tables.Q1, True)[0]),
    )


@special_unary(dx=lambda g, x: -(g * bessel_y1(x)))
def bessel_y0(x: Array) -> Array:
    """Y₀(x), the Bessel function of the second kind; -∞ at 0, NaN below and at infinity."""
    return piecewise(
        x,
        (
            (x >= 0) & (x <= 8),
            lambda x: 2 / np.pi * np.log(x) * _within_8(tables.J0_NEAR, x) + _within_8(tables.Y0_NEAR, x),
        ),
        (x > 8, lambda x: _wave(x, tables.P0, tables.Q0, False)[1]),
    )


def _near_y1(x: Array) -> Array:
    safe = np.where(x == 0, 1.0, x)
    out = x * (2 / np.pi * np.log(safe) * _within_8(tables.J1_NEAR, x) + _within_8(tables.Y1_NEAR, x))
    return np.where(x == 0, -np.inf, out - 2 / np.pi / safe)


@special_unary(dx=lambda g, x, out: g * (bessel_y0(x) - out / x))
def bessel_y1(x: Array) -> Array:
    """Y₁(x), the Bessel function of the second kind; -∞ at 0, NaN below and at infinity."""
    return piecewise(x, ((x >= 0) & (x <= 8), _near_y1), (x > 8, lambda x: _wave(x, tables.P1, tables.Q1, True)[1]))


def _near_k0(x: Array) -> Array:
    return chebyshev(tables.K0_NEAR, x * x / 2 - 1) - np.log(x / 2) * (np.exp(x) * _i0e_array(x))


def _near_k1(x: Array) -> Array:
    safe = np.where(x == 0, 1.0, x)
    out = chebyshev(tables.K1_NEAR, x * x / 2 - 1) / safe + np.log(safe / 2) * (np.exp(x) * _i1e_array(x))
    return np.where(x == 0, np.inf, out)


def _decaying(x: Array, near: Function, far: tuple[float, ...], scaled: bool) -> Array:
    def beyond(x: Array) -> Array:
        out = chebyshev(far, 4 / x - 1) / np.sqrt(x)
        return out if scaled else out * np.exp(-x)

    return piecewise(x, ((x >= 0) & (x <= 2), lambda x: near(x) * np.exp(x) if scaled else near(x)), (x > 2, beyond))


@special_unary(dx=lambda g, x: -(g * modified_bessel_k1(x)))
def modified_bessel_k0(x: Array) -> Array:
    """K₀(x), the modified Bessel function of the second kind; ∞ at 0, NaN below."""
    return _decaying(x, _near_k0, tables.K0_FAR, False)


@special_unary(dx=lambda g, x, out: -(g * (modified_bessel_k0(x) + out / x)))
def modified_bessel_k1(x: Array) -> Array:
    """K₁(x), the modified Bessel function of the second kind; ∞ at 0, NaN below."""
    return _decaying(x, _near_k1, tables.K1_FAR, False)


@special_unary(dx=lambda g, x, out: g * (out - scaled_modified_bessel_k1(x)))
def scaled_modified_bessel_k0(x: Array) -> Array:
    """eˣ K₀(x); ∞ at 0, NaN below."""
    return _decaying(x, _near_k0, tables.K0_FAR, True)


@special_unary(dx=lambda g, x, out: g * (out - scaled_modified_bessel_k0(x) - out / x))
def scaled_modified_bessel_k1(x: Array) -> Array:
    """eˣ K₁(x); ∞ at 0, NaN below."""
    return _decaying(x, _near_k1, tables.K1_FAR, True)


@special_unary(dx=lambda g, x, out: g * _at_zero(x, 0.0, lambda z: (cos(x) - out) / z))
def spherical_bessel_j0(x: Array) -> Array:
    """sin x / x, and 1 at 0: the spherical Bessel function of the first kind."""
    return np.where(x == 0, 1.0, np.where(np.isinf(x), 0.0, np.sin(x) / np.where(x == 0, 1.0, x)))


@special_unary()
def airy_ai(x: Array) -> Array:
    """Ai(x), the solution of y″ = x y that vanishes at ∞; NaN at either infinity."""
    return piecewise(
        x,
        ((x > -np.inf) & (x < -5), _oscillating),
        ((x >= -5) & (x < -2), lambda x: chebyshev(tables.AIRY_LEFT, (2 * x + 7) / 3)),
        ((x >= -2) & (x <= 2), lambda x: chebyshev(tables.AIRY_MIDDLE, x / 2) * np.exp(-1.1 * x)),
        ((x > 2) & (x < np.inf), _vanishing),
    )


def _oscillating(x: Array) -> Array:
    size = -x
    root = np.sqrt(size)
    phase = 2 / 3 * size * root
    t = 2 * (2 / 3 * 5**1.5 / phase) ** 2 - 1
    p, q = chebyshev(tables.AIRY_FAR_LEFT_P, t), chebyshev(tables.AIRY_FAR_LEFT_Q, t) / phase
    s, c = np.sin(phase), np.cos(phase)
    return (p * (c + s) + q * (s - c)) / np.sqrt(2 * np.pi * root)


def _vanishing(x: Array) -> Array:
    root = np.sqrt(x)
    phase = 2 / 3 * x * root
    return chebyshev(tables.AIRY_RIGHT, 2 * (2 / 3 * 2**1.5) / phase - 1) * np.exp(-phase) / np.sqrt(root)
