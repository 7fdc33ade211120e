"""Further functions of single elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.dtype import DTYPES
from adjoint.core.tensor import Tensor, constant
from adjoint.functions import pointwise
from adjoint.functions.reduce import mean as _mean
from adjoint.functions.surface import in_place, named, public
from adjoint.ops import arithmetic, comparison, elementary, gamma, selection
from adjoint.ops.elementary import (
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
from adjoint.ops.gamma import digamma, erfinv, lgamma
from adjoint.ops.incomplete_gamma import igamma, igammac

__all__ = [
    "acosh", "arccosh", "arcsinh", "arctanh", "asinh", "atanh", "clamp_max", "clamp_min", "copysign", "deg2rad",
    "digamma", "erfc", "erfinv", "fix", "float_power", "fmax", "fmin", "frac", "gcd", "heaviside", "hypot", "igamma",
    "igammac", "isneginf", "isposinf", "isreal", "lcm", "ldexp", "lgamma", "logaddexp", "logaddexp2", "logit",
    "mvlgamma", "nan_to_num", "nanmean", "nansum", "nextafter", "polygamma", "positive", "rad2deg", "sgn", "signbit",
    "sinc", "threshold", "xlogy",
]  # fmt: skip

for _f in (
    acosh, asinh, atanh, copysign, digamma, erfc, erfinv, frac, gcd, heaviside, hypot, igamma, igammac, lcm, lgamma,
    nextafter, sinc, xlogy,
):  # fmt: skip
    public(inplace=True)(_f)
for _f in (fmax, fmin, logaddexp, signbit):
    public()(_f)
arccosh, arcsinh, arctanh, fix, sgn = acosh, asinh, atanh, arithmetic.trunc, arithmetic.sign
for _name in ("arccosh", "arcsinh", "arctanh", "fix", "sgn"):
    setattr(Tensor, _name, globals()[_name])
    setattr(Tensor, f"{_name}_", in_place(globals()[_name], f"{_name}_"))


@public(inplace=True)
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """`input`, but nowhere below `min`."""
    return named(pointwise.clamp(input, min=min), "ClampMinBackward0")


@public(inplace=True)
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """`input`, but nowhere above `max`."""
    return named(pointwise.clamp(input, max=max), "ClampMaxBackward0")


@public(inplace=True)
def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
    return arithmetic.mul(input, math.pi / 180.0)


@public(inplace=True)
def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
    return arithmetic.mul(input, 180.0 / math.pi)


@public(inplace=True)
def float_power(input: Any, exponent: Any) -> Tensor:
    """input to the power `exponent`, in float64."""
    return arithmetic.pow(*(_as_double(v) for v in (input, exponent)))


def _as_double(value: Any) -> Any:
    double = np.dtype(np.float64)
    return selection.cast(value, dtype=double) if isinstance(value, Tensor) else float(value)


@public(inplace=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input · 2^other."""
    return arithmetic.mul(input, arithmetic.pow(2.0, other))


@public()
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log₂(2^input + 2^other)."""
    scale = math.log(2.0)
    return arithmetic.div(logaddexp(arithmetic.mul(input, scale), arithmetic.mul(other, scale)), scale)


@public(inplace=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """ln(x / (1 - x)); `eps` limits x to [eps, 1 - eps] first."""
    return elementary.logit(input, eps=eps)


@public(inplace=True)
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """`input` with NaN replaced by 0 and infinities by the largest numbers of its type, or by what is given."""
    return elementary.nan_to_num(input, nan=nan, posinf=posinf, neginf=neginf)


@public(method=False)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`input` where it is above the threshold, else `value`."""
    if inplace:
        return in_place(elementary.threshold, "threshold_")(input, threshold=threshold, value=value)
    return elementary.threshold(input, threshold=threshold, value=value)


@public(inplace=True)
def polygamma(n: Any, input: Any) -> Tensor:
    """The n-th derivative of digamma. As a method, of the tensor. Raises RuntimeError for a negative n."""
    if isinstance(n, Tensor):
        n, input = input, n
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return digamma(input) if n == 0 else gamma.polygamma(input, n=n)


@public(inplace=True)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """ln of the multivariate gamma function of dimension p."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    total: Any = p * (p - 1) / 4.0 * math.log(math.pi)
    for j in range(p):
        total = arithmetic.add(lgamma(arithmetic.sub(input, j / 2.0)), total)
    return named(total, "MvlgammaBackward0")


@public()
def positive(input: Tensor) -> Tensor:
    """The tensor itself. Raises RuntimeError for truths."""
    if input.array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@public()
def isposinf(input: Tensor) -> Tensor:
    """True where `input` is ∞."""
    return comparison.eq(input, math.inf)


@public()
def isneginf(input: Tensor) -> Tensor:
    """True where `input` is -∞."""
    return comparison.eq(input, -math.inf)


@public()
def isreal(input: Tensor) -> Tensor:
    """True where `input` has no imaginary part."""
    if input.array.dtype.kind == "c":
        return constant(np.isreal(input.numpy_view("isreal()")))
    return constant(np.ones(input.array.shape, np.bool_))


def _without_nan(input: Tensor) -> Tensor:
    return selection.where(comparison.isnan(input), np.zeros((), input.array.dtype), input)


@public()
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Σ over `dim`, NaN counting as 0."""
    x: Any = _without_nan(input) if input.array.dtype.kind in "fc" else input
    return named(x.sum(dim, keepdim, dtype=dtype), "NansumBackward0")


@public()
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over `dim` of what is not NaN."""
    if DTYPES[input.array.dtype].rank < 2:
        return _mean(input, dim, keepdim, dtype=dtype)
    there: Any = selection.cast(comparison.logical_not(comparison.isnan(input.detach())), dtype=input.array.dtype)
    return arithmetic.div(nansum(input, dim, keepdim, dtype=dtype), there.sum(dim, keepdim))
