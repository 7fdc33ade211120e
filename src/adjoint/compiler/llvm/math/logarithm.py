"""log, log2, log10 and log1p in vectors.

log x = k ln 2 + log(1 + f) with x = 2^k (1 + f). In float32 log(1 + f) is f - f²/2 + f³ P(f) with a minimax P on
[-1/3, 1/3]. In float64 it is 2s + s³ L(s²) = 2 artanh s with s = f / (2 + f), in the order of additions of FDLIBM's
e_log.c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.compiler.llvm.math.exponential import LN2_HIGH, LN2_HIGH_32, LN2_LOW, LN2_LOW_32, ROUNDER, ROUNDER_BITS
from adjoint.compiler.llvm.math.wide_precision import elementary, library, narrow, parse_coefficients, widen
from adjoint.compiler.llvm.memory import Memory
from adjoint.compiler.llvm.types import F32, F64, I32, I64, U32, Operand, Reg

# P, relative error of log(1 + f) 5e-9.
POLYNOMIAL_32 = parse_coefficients("""
    0.33333223898356995 -0.2499968873678488 0.20010041269272666 -0.1668546647211931 0.14010957301665128
    -0.12115121197282192 0.13962288721998425 -0.1319165975281184
""")
# L, relative error 1e-11, for results of float32, and 3e-18.
SINGLE = (0.6666666563867073, 0.40000337021388804, 0.2853717793152288, 0.2358485886296915)
DOUBLE = parse_coefficients("""
    0.6666666666666735 0.39999999999409314 0.28571428743820826 0.22222198405197108 0.18183574021164384
    0.15313780014946787 0.14798865305611633
""")

TWO_THIRDS_BITS_32 = 0x3F2AAAAB
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD


@elementary
def log(b: Memory, x: Reg) -> Reg:
    """The natural logarithm; float32 within 0.9 ulp, float64 within 0.9 ulp."""
    if x.type.bits == 64:
        return log_wide(b, x, DOUBLE)
    # Normal positive numbers are the common case, so what else there is costs them one jump over it.
    # One comparison of the bits, unsigned, tells them.
    smallest, infinity = 0x00800000, 0x7F800000
    usual = b.lt(b.cast(b.sub(b.bitcast(x, I32), smallest), U32), infinity - smallest)
    rare = b.hor(b.logical_not(usual))
    with b.when(rare, [x, b.constant(0.0, x.type)]) as scaling:
        tiny = b.lt(x, 2.0**-126)
        zero = b.constant(0.0, x.type)
        scaling.yields(b.select(tiny, b.mul(x, 2.0**23), x), b.select(tiny, 23.0, zero))
    normal, low = scaling.results
    bits = b.bitcast(normal, I32)
    k = b.shr(b.sub(bits, TWO_THIRDS_BITS_32), 23)
    f = b.sub(b.bitcast(b.sub(bits, b.shl(k, 23)), F32), 1.0)
    n = b.sub(b.cast(k, F32), low)
    square = b.mul(f, f)
    y = b.mul(b.mul(f, square), b.horner(f, POLYNOMIAL_32))
    y = b.fma(square, -0.5, b.fma(n, LN2_LOW_32, y))
    y = b.fma(n, LN2_HIGH_32, b.add(f, y))
    with b.when(rare, [y]) as special:
        special.yields(_special(b, x, y))
    return special.results[0]


@elementary
def log2(b: Memory, x: Reg) -> Reg:
    """The logarithm to base 2."""
    return _scaled_log(b, "log2", 1.0 / math.log(2.0), x)


@elementary
def log10(b: Memory, x: Reg) -> Reg:
    """The logarithm to base 10."""
    return _scaled_log(b, "log10", 1.0 / math.log(10.0), x)


@elementary
def log1p(b: Memory, x: Reg) -> Reg:
    """log(1 + x), accurate relative to itself near 0."""
    if x.type.bits == 32:
        return narrow(b, log1p_wide(b, widen(b, x), SINGLE))
    return log1p_wide(b, x, DOUBLE)


def log_wide(b: Memory, x: Reg, terms: Sequence[float]) -> Reg:
    """log x in float64 with a chosen polynomial; denormals only with the long one, since no float32 is one here."""
    low: Operand = 0.0
    normal = x
    if terms is DOUBLE:
        tiny = b.lt(x, 2.0**-1022)
        normal = b.select(tiny, b.mul(x, 2.0**54), x)
        low = b.select(tiny, 54.0, b.constant(0.0, x.type))
    bits = b.bitcast(normal, I64)
    k = b.shr(b.sub(bits, SQRT_HALF_BITS), 52)
    f = b.sub(b.bitcast(b.sub(bits, b.shl(k, 52)), F64), 1.0)
    # k as a float by way of its bits: few machines convert 64-bit integers in vectors.
    n = b.sub(b.sub(b.bitcast(b.add(k, ROUNDER_BITS), F64), ROUNDER), low)
    s = b.div(f, b.add(f, 2.0))
    z = b.mul(s, s)
    half_square = b.mul(b.mul(f, f), 0.5)
    tail = b.mul(s, b.fma(z, b.horner(z, terms), half_square))
    tail = b.sub(half_square, b.fma(n, LN2_LOW, tail))
    return _special(b, x, b.fma(n, LN2_HIGH, b.sub(f, tail)))


def log1p_wide(b: Memory, x: Reg, terms: Sequence[float]) -> Reg:
    """log(1 + x) in float64: the logarithm of u = 1 + x rounded, and the first term of what the rounding lost."""
    u = b.add(x, 1.0)
    if terms is SINGLE:
        # The loss counts only next to the logarithm of a u near 1, and there it is its own logarithm.
        lost = b.select(b.lt(b.abs(x), 1.0), b.sub(x, b.sub(u, 1.0)), 0.0)
        return b.copysign(b.add(log_wide(b, u, terms), lost), x)
    lost = b.select(b.gt(x, 1.0), b.sub(1.0, b.sub(u, x)), b.sub(x, b.sub(u, 1.0)))
    inside = b.logical_and(b.gt(x, -1.0), b.lt(x, math.inf))
    y = b.add(log_wide(b, u, terms), b.select(inside, b.div(lost, u), 0.0))
    return b.copysign(y, x)


def _scaled_log(b: Memory, name: str, scale: float, x: Reg) -> Reg:
    if x.type.bits == 32:
        return narrow(b, b.mul(log_wide(b, widen(b, x), SINGLE), scale))
    return library(b, name, x)


def _special(b: Memory, x: Reg, y: Reg) -> Reg:
    """y, but inf and NaN for themselves, -inf for 0 and NaN below it."""
    y = b.select(b.lt(x, math.inf), y, x)
    y = b.select(b.eq(x, 0.0), -math.inf, y)
    return b.select(b.lt(x, 0.0), math.nan, y)
