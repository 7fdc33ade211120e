"""Further functions of single elements: distances, signs, neighbours, steps, exponents and mantissas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.op.elementwise_composite import with_elementwise_kernel
from adjoint.core.op.families import binary, primitive, unary
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.comparison import ge, gt, isnan, le, logical_and, logical_or, lt
from adjoint.ops.elementwise.complex import is_complex
from adjoint.ops.elementwise.select import select_elements, where
from adjoint.ops.elementwise.transcendental import cos, exp, log
from adjoint.ops.special.chebyshev import in_double
from adjoint.ops.special.erf import erfc_array

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


@unary(
    promotion="float",
    scalar="acosh",
    # for complex numbers by the roots of both factors, which distinguishes the branches
    dx=lambda g, x: g / ((x - 1.0) ** 0.5 * (x + 1.0) ** 0.5 if is_complex(x) else (x * x - 1.0) ** 0.5),
)
def acosh(x: Operand) -> Operand:
    """The number ≥ 0 with hyperbolic cosine x."""
    return np.arccosh(x)


@unary(
    promotion="float", scalar="asinh", kernel=True, dx=with_elementwise_kernel(lambda g, x: g / (x * x + 1.0) ** 0.5)
)
def asinh(x: Operand) -> Operand:
    """The number with hyperbolic sine x."""
    return np.arcsinh(x)


@unary(promotion="float", scalar="atanh", kernel=True, dx=with_elementwise_kernel(lambda g, x: g / (1.0 - x * x)))
def atanh(x: Operand) -> Operand:
    """The number with hyperbolic tangent x."""
    return np.arctanh(x)


@unary(
    promotion="float", scalar="erfc", dx=lambda g, x: -(g * (exp(-(x * x)) * (2.0 / math.sqrt(math.pi)))), kernel=True
)
def erfc(x: Operand) -> Array:
    """1 - erf x, accurate where erf x is near 1."""
    return erfc_array(x)


@unary(promotion="float", dx=lambda g, x, out: g * where(x == 0, 0.0, (cos(x * math.pi) - out) / where(x == 0, 1.0, x)))
def sinc(x: Operand) -> Operand:
    """sin(πx) / (πx), and 1 at 0."""
    return np.sinc(x.astype(np.float32) if x.dtype.char == "e" else x).astype(x.dtype, copy=False)


@unary(unsupported_kinds="biuc", dx=lambda g: g)
def frac(x: Operand) -> Operand:
    """x - trunc x: the fraction with the sign of x."""
    return x - np.trunc(x)


@unary(unsupported_kinds="c", bool_result=True)
def signbit(x: Array) -> Operand:
    """True where x is negative, -0 too."""
    return np.signbit(x) if x.dtype.kind == "f" else np.less(x, 0)


@binary(
    unsupported_kinds="c",
    promotion="float",
    dx=with_elementwise_kernel(lambda g, x, out: g * _ratio(x, out)),
    dy=with_elementwise_kernel(lambda g, y, out: g * _ratio(y, out)),
)
def hypot(x: Operand, y: Operand) -> Operand:
    """√(x² + y²), without intermediate overflow."""
    return np.hypot(x, y)


def _ratio(x: Operand, size: Operand) -> Tensor:
    """x / size, and 0 at the origin."""
    return x / where(size == 0, 1.0, size)


@binary(
    promotion="float",
    kernel=True,
    scalar=lambda b, x, y: b.select(  # of infinities that are equal the difference is no number
        b.eq(x, y),
        b.add(x, math.log(2.0)),
        b.add(b.maximum(x, y), b.log1p(b.exp(b.neg(b.abs(b.sub(x, y)))))),
    ),
    dx=lambda g, x, out: g * exp(x - out),
    dy=lambda g, y, out: g * exp(y - out),
)
def logaddexp(x: Array, y: Array) -> Operand:
    """ln(eˣ + eʸ)."""
    if is_complex(x) or is_complex(y):
        first = np.real(x) >= np.real(y)
        large, small = np.where(first, x, y), np.where(first, y, x)
        return large + np.log1p(np.exp(small - large))
    return np.logaddexp(x, y)


def _xlogy_dx(g: Operand, x: Operand, y: Operand) -> Tensor:
    if isinstance(y, (int, float)):  # whose logarithm as a tensor would be one of float32
        logarithm = math.log(y) if y > 0 else -math.inf if y == 0 else math.nan
        return g * (where(x == 0, 0.0, logarithm) if y <= 0 else logarithm)
    return g * where(logical_and(x == 0, le(y, 0)), 0.0, log(y))


@binary(unsupported_kinds="c", promotion="float", dx=_xlogy_dx, dy=lambda g, x, y: g * x / y)
def xlogy(x: Array, y: Operand) -> Array:
    """x ln y; 0 where x = 0, whatever y is, except NaN."""
    # the logarithm of a number is float64 to NumPy, and would make float32 so
    out = np.multiply(x, float(np.log(y)) if isinstance(y, (int, float)) else np.log(y))
    return np.where(np.logical_and(np.equal(x, 0), np.logical_not(np.isnan(y))), np.zeros_like(out), out)


@binary(
    unsupported_kinds="c",
    promotion="float",
    dx=lambda g, x, out: g * where(x == 0, 0.0, out / where(x == 0, 1.0, x)),
    dy=lambda g: g * 0.0,
)
def copysign(x: Operand, y: Operand) -> Operand:
    """|x| with the sign of y."""
    return np.copysign(x, y)


@binary(unsupported_kinds="c", promotion="float", dx=lambda g: g, dy=lambda g: g * 0.0)
def nextafter(x: Operand, y: Array) -> Operand:
    """The next number after x towards y."""
    return np.nextafter(x, y)


@binary(unsupported_kinds="c")
def heaviside(x: Array, y: Array) -> Array:
    """0 where x < 0, 1 where x > 0, y where x = 0."""
    out = np.where(np.equal(x, 0), y, np.greater(x, 0))
    return np.where(np.isnan(x), x, out).astype(np.result_type(x, y), copy=False)


@binary(
    unsupported_kinds="c",
    dx=lambda g, x, y: where(_first_of(ge(x, y), y), g, 0.0),
    dy=lambda g, x, y: where(_first_of(ge(x, y), y), 0.0, g),
)
def fmax(x: Operand, y: Operand) -> Operand:
    """The larger of x and y; the other one if one is NaN. At a tie the gradient goes to x."""
    return np.fmax(x, y)


@binary(
    unsupported_kinds="c",
    dx=lambda g, x, y: where(_first_of(le(x, y), y), g, 0.0),
    dy=lambda g, x, y: where(_first_of(le(x, y), y), 0.0, g),
)
def fmin(x: Operand, y: Operand) -> Operand:
    """The smaller of x and y; the other one if one is NaN. At a tie the gradient goes to x."""
    return np.fmin(x, y)


def _first_of(better: Tensor, y: Operand) -> Tensor:
    """True where x is chosen: where it is `better` or equal, or y is NaN."""
    return logical_or(better, isnan(y))


@binary(unsupported_kinds="bfc")
def gcd(x: Array, y: Array) -> Array:
    """The greatest common divisor of integers."""
    return np.gcd(x, y)


@binary(unsupported_kinds="bfc")
def lcm(x: Array, y: Array) -> Operand:
    """The least common multiple of integers."""
    return np.lcm(x, y)


def _same(x: Operand, **_: Any) -> Spec:
    return Spec(x.shape, x.dtype)


def _logit_dx(g: Operand, x: Operand, eps: float | None) -> Operand:
    slope = g / (x * (1.0 - x))
    if eps is None:
        return where(logical_and(ge(x, 0.0), le(x, 1.0)), slope, np.nan)
    return where(logical_and(ge(x, eps), le(x, 1.0 - eps)), slope, 0.0)


@primitive(family="elementwise", promotion="float", spec=_same, dx=_logit_dx)
def logit(x: Array, *, eps: float | None) -> Operand:
    """ln(x / (1 - x)); with `eps`, x is first clamped to [eps, 1 - eps]."""
    z = x if eps is None else np.minimum(np.maximum(x, x.dtype.type(eps)), x.dtype.type(1.0 - eps))
    return np.log(z / (1 - z))


@primitive(family="elementwise", spec=_same, dx=lambda g, x, threshold: where(gt(x, threshold), g, 0.0))
def threshold(x: Array, *, threshold: float, value: float) -> Array:
    """x where it is above the threshold, else `value`; NaN stays."""
    out: Array = select_elements(np.less_equal(x, threshold), np.asarray(value).astype(x.dtype), x)
    return out


@primitive(family="elementwise", spec=_same, dx=lambda g, x: where(logical_and(lt(x, np.inf), gt(x, -np.inf)), g, 0.0))
def nan_to_num(x: Array, *, nan: float | None, posinf: float | None, neginf: float | None) -> Operand:
    """x with NaN, ∞ and -∞ replaced: by 0 and the largest numbers unless others are given."""
    if x.dtype.kind == "f" and posinf is neginf is None:
        ends = np.finfo(x.dtype)
        return np.where(np.isnan(x), x.dtype.type(nan or 0.0), x).clip(ends.min, ends.max)
    return np.nan_to_num(x, nan=nan or 0.0, posinf=posinf, neginf=neginf)


def _binary_exponent(x: Array) -> Array:
    """The power of two that scales the mantissa into [½, 1); 0 for infinities and NaN."""
    return np.where(np.isfinite(x), np.frexp(x)[1], 0)


@primitive(family="elementwise", spec=lambda x: Spec(x.shape, np.dtype(np.int32)))
def exponent(x: Array) -> Array:
    """e of x = m 2ᵉ, ½ ≤ |m| < 1; 0 for 0, infinities and NaN."""
    return _binary_exponent(np.asarray(x, np.float64)).astype(np.int32)


@unary(dx=lambda g: g * 0.0)
@in_double
def unit(x: Array) -> Array:
    """2⁻ᵉ, e the exponent of x."""
    return np.ldexp(1.0, -_binary_exponent(x))


@unary(dx=lambda g, x: g * unit(x))
@in_double
def mantissa(x: Array) -> Array:
    """m of x = m 2ᵉ, ½ ≤ |m| < 1; x itself for 0, infinities and NaN."""
    return np.frexp(x)[0]
