"""exp, exp2 and expm1 in vectors, and sigmoid and silu on them.

e^x = 2^k (1 + p) with k = round(x / ln 2) and p = e^r - 1. r = x - k ln 2 is subtracted in two parts (Cody and Waite).
The polynomials are minimax fits of (e^r - 1 - r) / r² on |r| <= ln 2 / 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from adjoint.compiler.llvm.math.wide_precision import elementary, narrow, parse_coefficients, widen
from adjoint.compiler.llvm.memory import Memory
from adjoint.compiler.llvm.types import F32, F64, I32, I64, Reg, Type

# For results of float32, relative error of e^r 6e-9 and of e^r - 1 2e-8; and for float64, 4e-18.
SINGLE = (0.4999999814719572, 0.16666543174079912, 0.04166720166482252, 0.008366580899835312, 0.001388249922860086)
DOUBLE = parse_coefficients("""
    0.5000000000000011 0.1666666666666641 0.0416666666665292 0.008333333333495714 0.0013888888943921075
    0.00019841269504568138 2.4801492763917227e-05 2.755758751522328e-06 2.7630378361336437e-07
    2.4999912230597177e-08
""")

LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
LN2_HIGH_32, LN2_LOW_32 = 0.693145751953125, 1.4286068203094172e-06


class Power(NamedTuple):
    """The k of a power of 2 as a float and as an integer."""

    number: Reg
    integer: Reg


# Adding 1.5 * 2^(digits - 1) rounds to an integer and leaves it in the low bits of the sum.
ROUNDER, ROUNDER_BITS = 6755399441055744.0, 0x4338000000000000
# In float32 with two exponent biases, which thus are in the bits already when they become two powers of 2.
BIAS_32 = 127
ROUNDER_32 = 12582912.0 + 2 * BIAS_32


@elementary
def exp(b: Memory, x: Reg) -> Reg:
    """e^x; float32 and float64 within 1.1 ulp, denormal results included."""
    if x.type.bits == 32:
        return _ldexp(b, *_exp_32(b, b.minimum(b.maximum(x, -104.0), 89.0)))
    return exp_wide(b, x, DOUBLE)


@elementary
def exp2(b: Memory, x: Reg) -> Reg:
    """2^x."""
    if x.type.bits == 32:
        return narrow(b, _exp2(b, widen(b, x), SINGLE))
    return _exp2(b, x, DOUBLE)


@elementary
def expm1(b: Memory, x: Reg) -> Reg:
    """e^x - 1, accurate relative to itself near 0."""
    if x.type.bits == 32:
        return narrow(b, expm1_wide(b, widen(b, x), SINGLE))
    return expm1_wide(b, x, DOUBLE)


@elementary
def sigmoid(b: Memory, x: Reg) -> Reg:
    """1 / (1 + e^-x), as e^x / (1 + e^x) below 0, so that small results keep their digits."""
    below = b.neg(b.abs(x))
    e = exp(b, below) if x.type.bits == 64 else _ldexp(b, *_exp_32(b, b.maximum(below, -104.0)))
    return b.div(b.select(b.lt(x, 0.0), e, 1.0), b.add(e, 1.0))


@elementary
def silu(b: Memory, x: Reg) -> Reg:
    """x sigmoid(x), NaN at -inf."""
    if x.type.bits == 64:
        return b.mul(x, sigmoid(b, x))
    # Below 0 it is x (1 + p) / (1 + e^x) times 2^k, the last, so that a denormal e^x costs it no digits.
    negative = b.lt(x, 0.0)
    growth, k = _exp_32(b, b.maximum(b.neg(b.abs(x)), -120.0))
    numerator = b.mul(b.maximum(x, -120.0), b.select(negative, growth, 1.0))
    y = b.div(numerator, b.add(_ldexp(b, growth, k), 1.0))
    y = b.select(negative, _ldexp(b, y, k), y)
    return b.select(b.eq(x, -math.inf), math.nan, y)


def exp_wide(b: Memory, x: Reg, terms: Sequence[float]) -> Reg:
    """e^x in float64 with a chosen polynomial."""
    k, p = _reduce_argument(b, b.minimum(b.maximum(x, -746.0), 710.0), terms)
    return _ldexp(b, b.add(p, 1.0), k)


def expm1_wide(b: Memory, x: Reg, terms: Sequence[float]) -> Reg:
    """e^x - 1 in float64 with a chosen polynomial."""
    k, p = _reduce_argument(b, b.minimum(b.maximum(x, -40.0), 710.0), terms)
    # 2^k p + (2^k - 1) at half size, because 2^1024 is no number.
    half = _power_of_two(b, b.sub(k.integer, 1))
    y = b.mul(b.fma(half, p, b.sub(half, 0.5)), 2.0)
    return b.select(b.lt(b.abs(x), 2.0**-54), x, y)


def _exp2(b: Memory, x: Reg, terms: Sequence[float]) -> Reg:
    x = b.minimum(b.maximum(x, -1076.0), 1025.0)
    k = _split_rounder(b, b.add(x, ROUNDER))
    r = b.mul(b.sub(x, k.number), math.log(2.0))
    return _ldexp(b, b.add(_expm1_polynomial(b, r, terms), 1.0), k)


def expm1_32(b: Memory, x: Reg) -> Reg:
    """e^x - 1 of a float32 x between -87 and 88, within 2 ulp."""
    k, r = _reduce_argument_32(b, x)
    p = b.fma(b.mul(r, r), b.horner(r, SINGLE), r)
    power = b.bitcast(b.shl(b.sub(k.integer, BIAS_32), 23), F32)
    return b.fma(power, p, b.sub(power, 1.0))


def _exp_32(b: Memory, x: Reg) -> tuple[Reg, Power]:
    """e^r and k, of an x between -120 and 89."""
    k, r = _reduce_argument_32(b, x)
    return b.horner(r, (1.0, 1.0, *SINGLE)), k


def _reduce_argument_32(b: Memory, x: Reg) -> tuple[Power, Reg]:
    """k, whose integer has two biases, and r."""
    shifted = b.fma(x, 1.0 / math.log(2.0), ROUNDER_32)
    n = b.sub(shifted, ROUNDER_32)
    return Power(n, b.bitcast(shifted, I32)), b.fma(n, -LN2_LOW_32, b.fma(n, -LN2_HIGH_32, x))


def _reduce_argument(b: Memory, x: Reg, terms: Sequence[float]) -> tuple[Power, Reg]:
    k = _split_rounder(b, b.fma(x, 1.0 / math.log(2.0), ROUNDER))
    r = b.fma(k.number, -LN2_LOW, b.fma(k.number, -LN2_HIGH, x))
    return k, _expm1_polynomial(b, r, terms)


def _split_rounder(b: Memory, shifted: Reg) -> Power:
    return Power(b.sub(shifted, ROUNDER), b.sub(b.bitcast(shifted, I64), ROUNDER_BITS))


def _expm1_polynomial(b: Memory, r: Reg, terms: Sequence[float]) -> Reg:
    return b.fma(b.mul(r, r), b.horner(r, terms), r)


def _ldexp(b: Memory, y: Reg, k: Power) -> Reg:
    """y 2^k, rounded once. Where no instruction gives it, by two factors because 2^k alone may be no number."""
    if y.type.lanes > 1 and b.register == 512 and y.type.lanes * y.type.bits % 512 == 0:
        return b.concat_lanes(
            [_scalef(b, *parts) for parts in zip(b.split_lanes(y, 512), b.split_lanes(k.number, 512), strict=True)]
        )
    half = b.shr(k.integer, 1)
    other = b.sub(k.integer, half)
    if y.type.bits == 32:
        return b.mul(b.mul(y, b.bitcast(b.shl(half, 23), F32)), b.bitcast(b.shl(other, 23), F32))
    return b.mul(b.mul(y, _power_of_two(b, half)), _power_of_two(b, other))


def _scalef(b: Memory, y: Reg, k: Reg) -> Reg:
    """AVX-512's instruction for it, of one register."""
    lanes, kind = y.type.lanes, "ps" if y.type.bits == 32 else "pd"
    every, rounding = b.constant(-1, Type("i", lanes)), b.constant(4, I32)  # all lanes; as the thread rounds
    return b.external(f"llvm.x86.avx512.mask.scalef.{kind}.512", [y, k, y, every, rounding], y.type)


def _power_of_two(b: Memory, k: Reg) -> Reg:
    """2^k for k from -1022 to 1023."""
    return b.bitcast(b.shl(b.add(k, 1023), 52), F64)
