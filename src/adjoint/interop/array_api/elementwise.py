"""Functions of single elements, under the standard's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand
from adjoint.functions.creation import creation
from adjoint.functions.elementwise import complex as parts
from adjoint.functions.elementwise import float_functions, pointwise
from adjoint.interop.array_api.operands import cast_to, promote_operands, wrap_binary, wrap_unary
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

abs = wrap_unary(arithmetic.abs)
acos = wrap_unary(transcendental.acos)
acosh = wrap_unary(float_functions.acosh)
asin = wrap_unary(transcendental.asin)
asinh = wrap_unary(float_functions.asinh)
atan = wrap_unary(transcendental.atan)
atanh = wrap_unary(float_functions.atanh)
bitwise_invert = wrap_unary(bitwise.bitwise_not)
ceil = wrap_unary(arithmetic.ceil)
conj = wrap_unary(parts.conj_physical)
cos = wrap_unary(transcendental.cos)
cosh = wrap_unary(transcendental.cosh)
exp = wrap_unary(transcendental.exp)
expm1 = wrap_unary(transcendental.expm1)
floor = wrap_unary(arithmetic.floor)
isfinite = wrap_unary(comparison.isfinite)
isinf = wrap_unary(comparison.isinf)
isnan = wrap_unary(comparison.isnan)
log = wrap_unary(transcendental.log)
log10 = wrap_unary(transcendental.log10)
log1p = wrap_unary(transcendental.log1p)
log2 = wrap_unary(transcendental.log2)
logical_not = wrap_unary(comparison.logical_not)
negative = wrap_unary(arithmetic.neg)
positive = wrap_unary(select.copy)
reciprocal = wrap_unary(arithmetic.reciprocal)
sign = wrap_unary(parts.sgn)
signbit = wrap_unary(float_functions.signbit)
sin = wrap_unary(transcendental.sin)
sinh = wrap_unary(transcendental.sinh)
sqrt = wrap_unary(arithmetic.sqrt)
square = wrap_unary(arithmetic.square)
tan = wrap_unary(transcendental.tan)
tanh = wrap_unary(transcendental.tanh)
trunc = wrap_unary(arithmetic.trunc)

add = wrap_binary(arithmetic.add)
atan2 = wrap_binary(transcendental.atan2)
bitwise_and = wrap_binary(bitwise.bitwise_and)
bitwise_left_shift = wrap_binary(bitwise.bitwise_left_shift)
bitwise_or = wrap_binary(bitwise.bitwise_or)
bitwise_right_shift = wrap_binary(bitwise.bitwise_right_shift)
bitwise_xor = wrap_binary(bitwise.bitwise_xor)
copysign = wrap_binary(float_functions.copysign)
divide = wrap_binary(arithmetic.div)
equal = wrap_binary(comparison.eq)
floor_divide = wrap_binary(arithmetic.floor_divide)
greater = wrap_binary(comparison.gt)
greater_equal = wrap_binary(comparison.ge)
hypot = wrap_binary(float_functions.hypot)
less = wrap_binary(comparison.lt)
less_equal = wrap_binary(comparison.le)
logaddexp = wrap_binary(float_functions.logaddexp)
logical_and = wrap_binary(comparison.logical_and)
logical_or = wrap_binary(comparison.logical_or)
logical_xor = wrap_binary(comparison.logical_xor)
maximum = wrap_binary(arithmetic.maximum)
minimum = wrap_binary(arithmetic.minimum)
multiply = wrap_binary(arithmetic.mul)
nextafter = wrap_binary(float_functions.nextafter)
not_equal = wrap_binary(comparison.ne)
pow = wrap_binary(arithmetic.pow)
remainder = wrap_binary(arithmetic.remainder)
subtract = wrap_binary(arithmetic.sub)


def clip(x: Tensor, /, min: Operand = None, max: Operand = None) -> Tensor:
    """x limited to [min, max], in the type of x; NaN stays, and NaN as a bound gives NaN."""
    out = x
    min, max = _clamp_bound(x, min), _clamp_bound(x, max)
    if min is not None:
        out = pointwise.clamp(*promote_operands("clip", out, min))
    if max is not None:
        upper: Any = promote_operands("clip", out, max)
        out = pointwise.clamp(upper[0], max=upper[1])
    return select.copy(x) if out is x else cast_to(out, x.array.dtype)


def _clamp_bound(x: Tensor, bound: Operand) -> Operand:
    """A bound in the type of x where no integer type holds both: at the end of that type's range if it is beyond."""
    if not isinstance(bound, Tensor):
        return bound
    mine, its = x.array.dtype, bound.array.dtype
    if mine == np.uint64 and its.kind == "i":
        return cast_to(pointwise.clamp(bound, min=0), mine)
    if its == np.uint64 and mine.kind == "i":
        most = constant(np.array(np.iinfo(mine).max, its))
        return cast_to(select.where(comparison.gt(bound, most), most, bound), mine)
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
