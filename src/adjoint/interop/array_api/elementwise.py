"""Functions of single elements, under the standard's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.functions.creation import creation
from adjoint.functions.elementwise import complex as parts
from adjoint.functions.elementwise import float_functions, pointwise
from adjoint.interop.array_api.operands import in_type, one_operand, together, two_operands
from adjoint.ops.elementwise import arithmetic, bitwise, comparison, select, transcendental

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos",
    "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag",
    "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal",
    "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square",
    "subtract", "tan", "tanh", "trunc",
]  # fmt: skip

abs = one_operand(arithmetic.abs)
acos = one_operand(transcendental.acos)
acosh = one_operand(float_functions.acosh)
asin = one_operand(transcendental.asin)
asinh = one_operand(float_functions.asinh)
atan = one_operand(transcendental.atan)
atanh = one_operand(float_functions.atanh)
bitwise_invert = one_operand(bitwise.bitwise_not)
ceil = one_operand(arithmetic.ceil)
conj = one_operand(parts.conj_physical)
cos = one_operand(transcendental.cos)
cosh = one_operand(transcendental.cosh)
exp = one_operand(transcendental.exp)
expm1 = one_operand(transcendental.expm1)
floor = one_operand(arithmetic.floor)
isfinite = one_operand(comparison.isfinite)
isinf = one_operand(comparison.isinf)
isnan = one_operand(comparison.isnan)
log = one_operand(transcendental.log)
log10 = one_operand(transcendental.log10)
log1p = one_operand(transcendental.log1p)
log2 = one_operand(transcendental.log2)
logical_not = one_operand(comparison.logical_not)
negative = one_operand(arithmetic.neg)
positive = one_operand(select.copy)
reciprocal = one_operand(arithmetic.reciprocal)
sign = one_operand(parts.sgn)
signbit = one_operand(float_functions.signbit)
sin = one_operand(transcendental.sin)
sinh = one_operand(transcendental.sinh)
sqrt = one_operand(arithmetic.sqrt)
square = one_operand(arithmetic.square)
tan = one_operand(transcendental.tan)
tanh = one_operand(transcendental.tanh)
trunc = one_operand(arithmetic.trunc)

add = two_operands(arithmetic.add)
atan2 = two_operands(transcendental.atan2)
bitwise_and = two_operands(bitwise.bitwise_and)
bitwise_left_shift = two_operands(bitwise.bitwise_left_shift)
bitwise_or = two_operands(bitwise.bitwise_or)
bitwise_right_shift = two_operands(bitwise.bitwise_right_shift)
bitwise_xor = two_operands(bitwise.bitwise_xor)
copysign = two_operands(float_functions.copysign)
divide = two_operands(arithmetic.div)
equal = two_operands(comparison.eq)
floor_divide = two_operands(arithmetic.floor_divide)
greater = two_operands(comparison.gt)
greater_equal = two_operands(comparison.ge)
hypot = two_operands(float_functions.hypot)
less = two_operands(comparison.lt)
less_equal = two_operands(comparison.le)
logaddexp = two_operands(float_functions.logaddexp)
logical_and = two_operands(comparison.logical_and)
logical_or = two_operands(comparison.logical_or)
logical_xor = two_operands(comparison.logical_xor)
maximum = two_operands(arithmetic.maximum)
minimum = two_operands(arithmetic.minimum)
multiply = two_operands(arithmetic.mul)
nextafter = two_operands(float_functions.nextafter)
not_equal = two_operands(comparison.ne)
pow = two_operands(arithmetic.pow)
remainder = two_operands(arithmetic.remainder)
subtract = two_operands(arithmetic.sub)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """x limited to [min, max], in the type of x; NaN stays, and NaN as a bound gives NaN."""
    out = x
    min, max = _in_reach(x, min), _in_reach(x, max)
    if min is not None:
        out = pointwise.clamp(*together("clip", out, min))
    if max is not None:
        upper: Any = together("clip", out, max)
        out = pointwise.clamp(upper[0], max=upper[1])
    return select.copy(x) if out is x else in_type(out, x.array.dtype)


def _in_reach(x: Tensor, bound: Any) -> Any:
    """A bound in the type of x where no integer type holds both: at the end of that type's range if it is beyond."""
    if not isinstance(bound, Tensor):
        return bound
    mine, its = x.array.dtype, bound.array.dtype
    if mine == np.uint64 and its.kind == "i":
        return in_type(pointwise.clamp(bound, min=0), mine)
    if its == np.uint64 and mine.kind == "i":
        most = constant(np.array(np.iinfo(mine).max, its))
        return in_type(select.where(comparison.gt(bound, most), most, bound), mine)
    return bound


def real(x: Tensor, /) -> Tensor:
    """The real parts; of real numbers themselves."""
    return parts.real(x)


def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts; of real numbers zeros."""
    return parts.imag(x) if x.array.dtype.kind == "c" else creation.zeros_like(x)


def round(x: Tensor, /) -> Tensor:
    """The nearest integers, halves to the even ones; of complex numbers part by part."""
    if x.array.dtype.kind == "c":
        return parts.complex(arithmetic.round(parts.real(x)), arithmetic.round(parts.imag(x)))
    return arithmetic.round(x)
