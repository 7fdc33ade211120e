"""Further functions of single elements."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adjoint.core.dtype.dtype import is_bfloat16, promote
from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.op.families import restrict_scalars
from adjoint.core.op.op_errors import refuse_numbers
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import in_place, public, rename_node
from adjoint.functions.elementwise import pointwise
from adjoint.functions.reduction.reduce import check_ordered
from adjoint.ops.elementwise import arithmetic, comparison, float_functions, select
from adjoint.ops.elementwise.complex import imag
from adjoint.ops.elementwise.float_functions import (
    acosh,
    asinh,
    atanh,
    copysign,
    erfc,
    fmax,
    fmin,
    frac,
    gcd,
    heaviside,
    hypot,
    lcm,
    logaddexp,
    nextafter,
    signbit,
    sinc,
    xlogy,
)
from adjoint.ops.special import gamma
from adjoint.ops.special.bessel import i0
from adjoint.ops.special.gamma import digamma, lgamma
from adjoint.ops.special.incomplete_gamma import igamma, igammac
from adjoint.ops.special.normal_cdf import erfinv

__all__ = [
    "acosh", "arccosh", "arcsinh", "arctanh", "asinh", "atanh", "clamp_max", "clamp_min", "copysign", "deg2rad",
    "digamma", "erfc", "erfinv", "fix", "float_power", "fmax", "fmin", "frac", "frexp", "gcd", "heaviside", "hypot",
    "i0", "igamma", "igammac", "isneginf", "isposinf", "isreal", "lcm", "ldexp", "lgamma", "logaddexp", "logaddexp2",
    "logit", "mvlgamma", "nan_to_num", "nextafter", "polygamma", "positive", "rad2deg", "signbit", "sinc", "xlogy",
]  # fmt: skip
BFLOAT16_MAX = 3.3895313892515355e38

fmax, fmin, gcd, heaviside, hypot = restrict_scalars("", fmax, fmin, gcd, heaviside, hypot)
igamma, igammac, lcm, logaddexp, nextafter = restrict_scalars("", igamma, igammac, lcm, logaddexp, nextafter)
(copysign,), (xlogy,) = restrict_scalars("y", copysign), restrict_scalars("xy", xlogy)
for _f in (
    acosh, asinh, atanh, copysign, digamma, erfc, erfinv, frac, gcd, heaviside, hypot, i0, igamma, igammac, lcm, lgamma,
    nextafter, sinc, xlogy,
):  # fmt: skip
    public(inplace=True)(_f)
for _f in (fmax, fmin, logaddexp, signbit):
    public()(_f)
arccosh, arcsinh, arctanh, fix = acosh, asinh, atanh, arithmetic.trunc
for _name, _f in {"arccosh": acosh, "arcsinh": asinh, "arctanh": atanh, "fix": fix}.items():
    setattr(Tensor, _name, _f)
    setattr(Tensor, f"{_name}_", in_place(_f, f"{_name}_"))


class FrexpResult(NamedTuple):
    """Result of `frexp`."""

    mantissa: Tensor
    exponent: Tensor


@public()
@with_out
def frexp(input: Tensor) -> FrexpResult:
    """Return the mantissa, in [½, 1), and the exponent of two of each number. Raises RuntimeError for integers."""
    if input.array.dtype.kind not in "fV":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    mantissa: Tensor = rename_node(float_functions.mantissa(input), "FrexpBackward0")
    return FrexpResult(mantissa, float_functions.exponent(input.detach()))


@public(inplace=pointwise.clamp_min_array)
@with_out
def clamp_min(input: Tensor, min: Tensor | float) -> Tensor:
    """Return `input`, but nowhere below `min`."""
    refuse_numbers("clamp_min", ("input", "min"), "y", input, min)
    return rename_node(pointwise.clamp(input, min=min), "ClampMinBackward0")


@public(inplace=pointwise.clamp_max_array)
@with_out
def clamp_max(input: Tensor, max: Tensor | float) -> Tensor:
    """Return `input`, but nowhere above `max`."""
    refuse_numbers("clamp_max", ("input", "max"), "y", input, max)
    return rename_node(pointwise.clamp(input, max=max), "ClampMaxBackward0")


@public(inplace=True)
@with_out
def deg2rad(input: Tensor) -> Tensor:
    """Convert degrees to radians."""
    return arithmetic.mul(input, math.pi / 180.0)


@public(inplace=True)
@with_out
def rad2deg(input: Tensor) -> Tensor:
    """Convert radians to degrees."""
    return arithmetic.mul(input, 180.0 / math.pi)


@public()
@with_out
def float_power(input: Tensor | float, exponent: Tensor | float) -> Tensor:
    """Return input to the power `exponent`, in float64, or in complex128 where one of them is complex."""
    refuse_numbers("float_power", ("input", "exponent"), "xy", input, exponent)
    is_complex = promote(getattr(v, "array", v) for v in (input, exponent)).kind == "c"
    double = np.dtype(np.complex128 if is_complex else np.float64)
    operands = (
        select.cast(v, dtype=double) if isinstance(v, Tensor) else double.type(v).item() for v in (input, exponent)
    )
    return arithmetic.pow(*operands)


def _power_in_own_dtype(input: Tensor, exponent: Tensor | float) -> Tensor:
    """Return `float_power`. Raises RuntimeError where that has another dtype than `input`, which is to take it."""
    out = float_power(input, exponent)
    if out.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {scalar_type(input.dtype)} but the operation's result requires "
            f"dtype {scalar_type(out.dtype)}"
        )
    return out


setattr(Tensor, "float_power_", in_place(_power_in_own_dtype, "float_power_"))  # noqa: B010  as mypy wants it


@public(inplace=True)
@with_out
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """Return input · 2^other."""
    refuse_numbers("ldexp", ("input", "other"), "", input, other)
    if other.array.dtype.kind in "iub" and input.array.dtype.kind in "fV" and input.array.dtype.itemsize == 2:
        return select.cast(ldexp(input.float(), other), dtype=input.array.dtype)
    return arithmetic.mul(input, arithmetic.pow(2.0, other))


@public()
@in_float32
@with_out
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """Return log₂(2^input + 2^other)."""
    refuse_numbers("logaddexp2", ("input", "other"), "", input, other)
    scale = math.log(2.0)
    return arithmetic.div(logaddexp(arithmetic.mul(input, scale), arithmetic.mul(other, scale)), scale)


@public(inplace=True)
@with_out
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """Return ln(x / (1 - x)); `eps` limits x to [eps, 1 - eps] first."""
    return float_functions.logit(input, eps=eps)


@public(inplace=True)
@with_out
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Return `input` with NaN replaced by 0 and infinities by the largest numbers of its type, or by what is given."""
    if is_bfloat16(input.array.dtype):  # computed in float32, whose largest number rounds to infinity
        posinf, neginf = (end * BFLOAT16_MAX if x is None else x for x, end in ((posinf, 1), (neginf, -1)))
    return float_functions.nan_to_num(input, nan=nan, posinf=posinf, neginf=neginf)


@public(inplace=True)
@with_out
def polygamma(n: Tensor | float, input: Tensor | float) -> Tensor:
    """Return the n-th derivative of digamma. As a method, of the tensor. Raises RuntimeError for a negative n."""
    if isinstance(n, Tensor):
        n, input = input, n
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return digamma(input) if n == 0 else gamma.polygamma(input, n=n)


@public(inplace=True)
@with_out
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """Return ln of the multivariate gamma function of dimension p. Raises RuntimeError for p < 1."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    total: Operand = p * (p - 1) / 4.0 * math.log(math.pi)
    for j in range(p):
        total = arithmetic.add(lgamma(arithmetic.sub(input, j / 2.0)), total)
    return rename_node(total, "MvlgammaBackward0")


@public()
def positive(input: Tensor) -> Tensor:
    """Return the tensor itself. Raises RuntimeError for truths."""
    if input.array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@public()
@with_out
def isposinf(input: Tensor) -> Tensor:
    """Return True where `input` is ∞."""
    check_ordered("isposinf", input)
    return comparison.eq(input, math.inf)


@public()
@with_out
def isneginf(input: Tensor) -> Tensor:
    """Return True where `input` is -∞."""
    check_ordered("isneginf", input)
    return comparison.eq(input, -math.inf)


@public()
def isreal(input: Tensor) -> Tensor:
    """Return True where `input` has no imaginary part."""
    if input.array.dtype.kind == "c":
        return comparison.eq(imag(input.detach()), 0)
    return constant(np.ones(input.array.shape, np.bool_))
