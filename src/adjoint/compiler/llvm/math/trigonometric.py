"""sin, cos, tan and their inverses in vectors.

x = k pi/2 + r with |r| <= pi/4: up to 2^30 by subtracting k pi/2 in two parts (Cody and Waite), beyond it with the
digits of 2/pi that matter at x's exponent (Payne and Hanek). In float64, which leaves float32 all its digits.
"""

from __future__ import annotations

import math
from functools import cache

from adjoint.compiler.llvm.math.exponential import ROUNDER
from adjoint.compiler.llvm.math.wide_precision import computed_in_float64, library, narrow, parse_coefficients, widen
from adjoint.compiler.llvm.memory import Memory
from adjoint.compiler.llvm.types import F64, I64, Operand, Reg

# sin r = r (1 + r² S(r²)) and cos r = 1 - r²/2 + r⁴ C(r²), errors 5e-12 and 1e-13.
SINE = (-0.166666666415317, 0.008333329374582569, -0.00019839331127679508, 2.718275580491638e-06)
COSINE = (0.041666666622668276, -0.0013888883738945328, 2.479951606090992e-05, -2.720990330920082e-07)
# (asin x / x - 1) / x² in x² for |x| <= 1/2, error 2e-11.
ARCSINE = parse_coefficients("""
    0.16666667187668707 0.0749994824822472 0.04466015226126342 0.03011027531316373 0.024618777676561104
    0.0074664825594161245 0.03469750543711785
""")
# (atan x / x - 1) / x² in x² for |x| <= 1, error 6e-11.
ARCTANGENT = parse_coefficients("""
    -0.3333333224038493 0.19999932392349182 -0.1428425366277937 0.11095223202786589 -0.08988882980297534
    0.07269635184078387 -0.05470897319239035 0.03470984545068909 -0.01647520189402616 0.005000851278711907
    -0.0007115772594906854
""")

HALF_PI, HALF_PI_LOW = math.pi / 2, 6.123233995736766e-17
# 2/pi in binary, its first 256 digits: what float32's largest exponent needs, and 100 to spare.
TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561
FIRST_HUGE = 30


@computed_in_float64
def sin(b: Memory, x: Reg) -> Reg:
    """The sine of x radians, right for every finite float32."""
    k, r = _quadrant(b, x)
    return _apply_quadrant(b, k, _sine(b, r), _cosine(b, r))


@computed_in_float64
def cos(b: Memory, x: Reg) -> Reg:
    """The cosine of x radians, right for every finite float32."""
    k, r = _quadrant(b, x)
    return _apply_quadrant(b, b.add(k, 1), _sine(b, r), _cosine(b, r))


@computed_in_float64
def tan(b: Memory, x: Reg) -> Reg:
    """sin x / cos x."""
    k, r = _quadrant(b, x)
    sine, cosine = _sine(b, r), _cosine(b, r)
    odd = b.ne(b.bitwise_and(k, 1), 0)
    return b.div(b.select(odd, cosine, sine), b.select(odd, b.neg(sine), cosine))


@computed_in_float64
def asin(b: Memory, x: Reg) -> Reg:
    """The angle in [-pi/2, pi/2] whose sine is x, NaN beyond 1."""
    outside, angle = _half_angle(b, b.abs(x))
    y = b.select(outside, b.fma(angle, -2.0, HALF_PI), angle)
    return b.copysign(y, x)


@computed_in_float64
def acos(b: Memory, x: Reg) -> Reg:
    """The angle in [0, pi] whose cosine is x, NaN beyond 1."""
    outside, angle = _half_angle(b, b.abs(x))
    y = b.select(outside, b.mul(angle, 2.0), b.sub(HALF_PI, angle))
    return b.select(b.lt(x, 0.0), b.sub(math.pi, y), y)


@computed_in_float64
def atan(b: Memory, x: Reg) -> Reg:
    """The angle in [-pi/2, pi/2] whose tangent is x."""
    return b.copysign(_first_quadrant(b, b.abs(x), b.constant(1.0, x.type)), x)


def atan2(b: Memory, y: Operand, x: Operand) -> Reg:
    """The angle in [-pi, pi] of the point (x, y), with C's values at zeros and infinities."""
    y, x = b.operands(y, x)
    if not x.type.is_float:
        raise TypeError(f"atan2: needs floats, got {x.type}")
    if x.type.bits == 64:
        return library(b, "atan2", y, x)
    y, x = widen(b, y), widen(b, x)
    angle = _first_quadrant(b, b.abs(y), b.abs(x))
    negative = b.lt(b.bitcast(x, I64), 0)
    angle = b.copysign(b.select(negative, b.sub(math.pi, angle), angle), y)
    total = b.add(x, y)
    return narrow(b, b.select(b.logical_or(b.isnan(x), b.isnan(y)), total, angle))


def _sine(b: Memory, r: Reg) -> Reg:
    z = b.mul(r, r)
    return b.mul(r, b.fma(z, b.horner(z, SINE), 1.0))


def _cosine(b: Memory, r: Reg) -> Reg:
    z = b.mul(r, r)
    return b.fma(z, b.fma(z, b.horner(z, COSINE), -0.5), 1.0)


def _apply_quadrant(b: Memory, k: Reg, sine: Reg, cosine: Reg) -> Reg:
    """The sine after k quarter turns."""
    y = b.select(b.ne(b.bitwise_and(k, 1), 0), cosine, sine)
    sign = b.shl(b.bitwise_and(k, 2), 62)
    return b.bitcast(b.bitwise_xor(b.bitcast(y, I64), sign), F64)


def _quadrant(b: Memory, x: Reg) -> tuple[Reg, Reg]:
    """k and r of a float64 that was a float32; r is NaN where x has no sine."""
    shifted = b.fma(x, 2.0 / math.pi, ROUNDER)
    n = b.sub(shifted, ROUNDER)
    r = b.fma(n, -HALF_PI_LOW, b.exact_fma(n, -HALF_PI, x))
    k = b.bitcast(shifted, I64)
    huge = b.logical_not(b.lt(b.abs(x), 2.0**FIRST_HUGE))
    # Hardly a program comes here, so the lanes that do are worth a jump.
    with b.when(b.hor(huge), [k, r]) as slow:
        huge_k, huge_r = _huge_quadrant(b, x)
        slow.yields(b.select(huge, huge_k, k), b.select(huge, huge_r, r))
    k, r = slow.results
    return k, r


def _huge_quadrant(b: Memory, x: Reg) -> tuple[Reg, Reg]:
    bits = b.bitcast(x, I64)
    exponent = b.bitwise_and(b.shr(bits, 52), 0x7FF)
    # |x| = m 2^(e - 23) with an integer m of 24 digits, so that m times 28 digits of 2/pi is exact.
    m = b.bitcast(b.bitwise_or(b.bitwise_and(bits, ~(0x7FF << 52)), (1023 + 23) << 52), F64)
    row = b.sub(exponent, 1023 + FIRST_HUGE)
    row = b.minimum(b.maximum(row, 0), 127 - FIRST_HUGE)
    high = b.gather(b.table(_two_over_pi_table()[0], F64), row, F64)
    low = b.gather(b.table(_two_over_pi_table()[1], F64), row, F64)
    coarse, fine = b.mul(m, high), b.mul(m, low)
    shifted = b.add(b.add(coarse, fine), ROUNDER)
    fraction = b.add(b.sub(coarse, b.sub(shifted, ROUNDER)), fine)
    # x - x is NaN for infinity.
    return b.bitcast(shifted, I64), b.fma(fraction, HALF_PI, b.sub(x, x))


@cache
def _two_over_pi_table() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """2^(e - 23) 2/pi modulo 4 for each e from FIRST_HUGE to 127: 28 digits, and the next 53."""
    high, low = [], []
    for e in range(FIRST_HUGE, 128):
        # Whole multiples of four quarter turns are shifted out at the left.
        digits = (TWO_OVER_PI << (e - 23)) % (1 << 258)
        leading = digits >> 230
        high.append(leading * 2.0**-26)
        low.append(math.ldexp(float(digits - (leading << 230)), -256))
    return tuple(high), tuple(low)


def _half_angle(b: Memory, a: Reg) -> tuple[Reg, Reg]:
    """Return a > 1/2 and asin a; where that holds, asin sqrt((1 - a) / 2), half the angle from pi/2."""
    outside = b.gt(a, 0.5)
    z = b.select(outside, b.mul(b.sub(1.0, a), 0.5), b.mul(a, a))
    root = b.select(outside, b.sqrt(z), a)
    return outside, b.fma(b.mul(root, z), b.horner(z, ARCSINE), root)


def _first_quadrant(b: Memory, y: Reg, x: Reg) -> Reg:
    """The angle in [0, pi/2] of (x, y), neither negative."""
    steep = b.gt(y, x)
    rise, run = b.select(steep, x, y), b.select(steep, y, x)
    # 0/0 is the angle 0 and inf/inf is pi/4, as C has it.
    tangent = b.select(b.eq(rise, run), b.select(b.eq(run, 0.0), 0.0, b.constant(1.0, x.type)), b.div(rise, run))
    z = b.mul(tangent, tangent)
    angle = b.fma(b.mul(tangent, z), b.horner(z, ARCTANGENT), tangent)
    return b.select(steep, b.sub(HALF_PI, angle), angle)
