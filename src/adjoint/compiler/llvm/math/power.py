"""x to the power y, with the special values of C and NumPy."""

from __future__ import annotations

from adjoint.compiler.llvm.math import exponential, logarithm
from adjoint.compiler.llvm.math.wide_precision import library, narrow, widen
from adjoint.compiler.llvm.memory import Memory
from adjoint.compiler.llvm.types import I64, Operand, Reg


def pow(b: Memory, x: Operand, y: Operand) -> Reg:
    """x^y. Exponents given as the numbers -1, 0, 1/2, 1, 2 are what NumPy makes of them: 1/x, 1, sqrt x, x, x²."""
    exponent = None if isinstance(y, Reg) else y
    x, y = b.operands(x, y)
    if x.type.kind in ("b", "ptr"):
        raise TypeError(f"pow: not defined for {x.type}")
    if x.type.is_integer:
        return _integer_power(b, x, y, exponent)
    if exponent == 0:
        return b.constant(1.0, x.type)
    if exponent == 0.5:
        return b.sqrt(x)
    if exponent in (-1, 1, 2):
        return b.reciprocal(x) if exponent == -1 else b.square(x) if exponent == 2 else x
    if exponent in (3, 4):
        square = b.square(x)
        return b.square(square) if exponent == 4 else b.mul(square, x)
    return library(b, "pow", x, y) if x.type.bits == 64 else _power_32(b, x, y)


def _power_32(b: Memory, x: Reg, y: Reg) -> Reg:
    wide, exponent = widen(b, x), widen(b, y)
    a = b.abs(wide)
    logarithm_of_x = logarithm.log_wide(b, a, logarithm.SINGLE)
    z = exponential.exp_wide(b, b.mul(exponent, logarithm_of_x), exponential.SINGLE)
    whole = b.eq(b.trunc(exponent), exponent)
    half = b.mul(exponent, 0.5)
    odd = b.logical_and(whole, b.ne(b.trunc(half), half))
    negative = b.lt(b.bitcast(wide, I64), 0)
    z = b.select(b.logical_and(negative, odd), b.neg(z), z)
    # A root of a negative number; -inf has the powers of inf.
    imaginary = b.logical_and(b.logical_and(b.lt(wide, 0.0), b.isfinite(wide)), b.logical_not(whole))
    z = b.select(b.logical_and(imaginary, b.logical_not(b.isnan(exponent))), float("nan"), z)
    # 1^y and x^0 are 1 even for NaN, and so is (-1)^±inf.
    endless = b.logical_and(b.eq(wide, -1.0), b.isinf(exponent))
    one = b.logical_or(b.logical_or(b.eq(wide, 1.0), b.eq(exponent, 0.0)), endless)
    return narrow(b, b.select(one, 1.0, z))


def _integer_power(b: Memory, x: Reg, y: Reg, exponent: float | None) -> Reg:
    """Compute a power by repeated squaring, wrapping; a negative exponent gives 1/x rounded to 0, as 0 does."""
    type = x.type
    if isinstance(exponent, int) and exponent >= 0:
        result, square = b.constant(1, type), x
        for digit in bin(exponent)[:1:-1]:
            result = b.mul(result, square) if digit == "1" else result
            square = b.mul(square, square)
        return result
    with b.loop(0, type.bits, carried=[b.operands(b.constant(1, type), x)[0], x, y]) as loop:
        result, square, rest = loop.carried
        odd = b.ne(b.bitwise_and(rest, 1), 0)
        loop.yields(b.select(odd, b.mul(result, square), result), b.mul(square, square), b.shr(rest, 1))
    result = loop.results[0]
    if type.kind == "u":
        return result
    odd = b.ne(b.bitwise_and(y, 1), 0)
    unit = b.select(b.logical_and(b.eq(x, -1), odd), -1, b.select(b.eq(b.abs(x), 1), 1, b.constant(0, type)))
    return b.select(b.lt(y, 0), unit, result)
