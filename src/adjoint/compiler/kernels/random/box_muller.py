"""The Box-Muller transform in native code, with the bits of `core.boxmuller`, whose numbers and order it has."""

from __future__ import annotations

import math

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.math.wide_precision import library
from adjoint.compiler.llvm.types import F32, I32, Reg, Type
from adjoint.core.random.box_muller import BLOCK, COS, LN2_HIGH, LN2_LOW, LOG, MINUS_QUARTER_PI, SIN, SQRT_HALF
from adjoint.core.typing import Array

HALF_BLOCK = BLOCK // 2


def transform(b: Builder, source: Reg, target: Reg, kind: Type, mean: float, std: float) -> None:
    """One block of normals from one of uniforms on [0, 1), which may lie in the same place."""
    half = kind.of(HALF_BLOCK)
    u, v = (b.load(b.gep(source, at, kind), half) for at in (0, HALF_BLOCK))
    angle, rest = b.mul(v, 2 * math.pi), b.sub(1.0, u)
    if kind == F32:
        logarithm, (cosine, sine) = _log(b, rest), _cos_sin(b, angle)
    else:
        logarithm, cosine, sine = library(b, "log", rest), library(b, "cos", angle), library(b, "sin", angle)
    radius = b.sqrt(b.mul(logarithm, -2.0))
    for at, normal in ((0, b.mul(radius, cosine)), (HALF_BLOCK, b.mul(radius, sine))):
        scaled = b.add(b.mul(normal, std), mean) if mean == 0 else b.fma(normal, std, mean)
        b.store(scaled, b.gep(target, at, kind))


def _log(b: Builder, x: Reg) -> Reg:
    bits = b.bitcast(x, I32)
    exponent = b.sub(b.shr(bits, 23), 126)
    mantissa = b.bitcast(b.bitwise_or(b.bitwise_and(bits, 0x7FFFFF), 0x3F000000), F32)
    small = b.lt(mantissa, float(SQRT_HALF))
    t = b.add(b.sub(mantissa, 1.0), b.select(small, mantissa, 0.0))
    e = b.cast(b.sub(exponent, b.cast(small, I32)), F32)
    square = b.mul(t, t)
    series = b.fma(b.mul(_horner(b, LOG, t), t), square, b.mul(e, float(LN2_LOW)))
    series = b.fma(b.neg(square), 0.5, series)
    return b.fma(e, float(LN2_HIGH), b.add(t, series))


def _cos_sin(b: Builder, angle: Reg) -> tuple[Reg, Reg]:
    octant = b.bitwise_and(b.add(b.cast(b.mul(angle, 4 / math.pi), I32), 1), ~1)
    turns = b.cast(octant, F32)
    t = angle
    for part in MINUS_QUARTER_PI:
        t = b.fma(turns, float(part), t)
    square = b.mul(t, t)
    cosine = b.add(b.fma(b.mul(_horner(b, COS, square), square), square, b.mul(square, -0.5)), 1.0)
    sine = b.fma(b.mul(_horner(b, SIN, square), square), t, t)
    crossed = b.ne(b.bitwise_and(octant, 2), 0)
    cosine, sine = b.select(crossed, sine, cosine), b.select(crossed, cosine, sine)
    below, left = b.ne(b.bitwise_and(octant, 4), 0), b.ne(b.bitwise_and(b.add(octant, 2), 4), 0)
    return b.select(left, b.neg(cosine), cosine), b.select(below, b.neg(sine), sine)


def _horner(b: Builder, coefficients: Array, x: Reg) -> Reg:
    return b.horner(x, [float(c) for c in coefficients[::-1]])
