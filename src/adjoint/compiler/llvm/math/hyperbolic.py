"""tanh, sinh, cosh and their inverses in vectors."""

from __future__ import annotations

import math

from adjoint.compiler.llvm.math import exponential, logarithm
from adjoint.compiler.llvm.math.wide_precision import computed_in_float64, elementary
from adjoint.compiler.llvm.memory import Memory
from adjoint.compiler.llvm.types import Reg


@elementary
def tanh(b: Memory, x: Reg) -> Reg:
    """(e^x - e^-x) / (e^x + e^-x)."""
    # (e^2a - 1) / (e^2a + 1), the numerator accurate near 0 and never overflowing.
    a = b.abs(x)
    if x.type.bits == 64:
        e = exponential.expm1_wide(b, b.mul(b.minimum(a, 22.0), 2.0), exponential.DOUBLE)
    else:
        e = exponential.expm1_32(b, b.mul(b.minimum(a, 9.1), 2.0))
    return b.copysign(b.div(e, b.add(e, 2.0)), x)


@computed_in_float64
def sinh(b: Memory, x: Reg) -> Reg:
    """(e^x - e^-x) / 2."""
    # Beyond 100 the result is no float32, and e^x / (e^x + 1) of infinity would be NaN.
    e = exponential.expm1_wide(b, b.minimum(b.abs(x), 100.0), exponential.SINGLE)
    return b.copysign(b.mul(b.add(e, b.div(e, b.add(e, 1.0))), 0.5), x)


@computed_in_float64
def cosh(b: Memory, x: Reg) -> Reg:
    """(e^x + e^-x) / 2."""
    e = exponential.exp_wide(b, b.abs(x), exponential.SINGLE)
    return b.mul(b.add(e, b.reciprocal(e)), 0.5)


@computed_in_float64
def asinh(b: Memory, x: Reg) -> Reg:
    """log(x + sqrt(x² + 1))."""
    a = b.abs(x)
    square = b.mul(a, a)
    growth = b.add(a, b.div(square, b.add(b.sqrt(b.add(square, 1.0)), 1.0)))
    y = b.select(b.lt(a, math.inf), logarithm.log1p_wide(b, growth, logarithm.SINGLE), a)
    return b.copysign(y, x)


@computed_in_float64
def acosh(b: Memory, x: Reg) -> Reg:
    """log(x + sqrt(x² - 1)), NaN below 1."""
    t = b.sub(x, 1.0)
    y = logarithm.log1p_wide(b, b.add(t, b.sqrt(b.mul(t, b.add(t, 2.0)))), logarithm.SINGLE)
    return b.select(b.lt(t, 0.0), math.nan, y)


@computed_in_float64
def atanh(b: Memory, x: Reg) -> Reg:
    """log((1 + x) / (1 - x)) / 2, NaN beyond 1."""
    a = b.abs(x)
    ratio = b.div(b.add(a, a), b.sub(1.0, a))
    return b.copysign(b.mul(logarithm.log1p_wide(b, ratio, logarithm.SINGLE), 0.5), x)
