"""Exponentials, logarithms, circular and hyperbolic functions, element by element; integers become floats."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.elementwise_composite import with_elementwise_kernel
from adjoint.core.op.elementwise_kernels import DIVIDE, MULTIPLY
from adjoint.core.op.families import binary, unary
from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.select import where
from adjoint.ops.special.erf import erf_array

SIGMOID = SmallArrayKernel("sigmoid")


@unary(promotion="float", scalar="exp", kernel=True, dx=lambda g, out: MULTIPLY.call(g, out))
def exp(x: Operand) -> Operand:
    """Return eˣ, element by element; integers give floats.

    Args:
        input: tensor.
        out: tensor that takes the result.

    Example:
        >>> ad.exp(ad.tensor([0.0, 1.0]))
        tensor([1.0000, 2.7183])
    """
    return np.exp(x)


@unary(
    promotion="float", scalar="exp2", kernel=True, dx=with_elementwise_kernel(lambda g, out: g * (out * math.log(2)))
)
def exp2(x: Array) -> Operand:
    """2ˣ."""
    return np.exp2(x)


@unary(
    promotion="float",
    scalar="expm1",
    kernel=True,
    dx=with_elementwise_kernel(lambda g, x: g * exp(x), same_bits=False, small=lambda g, x: g * np.exp(x)),
)
def expm1(x: Operand) -> Operand:
    """eˣ - 1, accurate near 0."""
    return np.expm1(x)


@unary(promotion="float", scalar="log", kernel=True, dx=lambda g, x: DIVIDE.call(g, x))
def log(x: Operand) -> Operand:
    """Return ln x, element by element; integers give floats, negative numbers NaN.

    Args:
        input: tensor.
        out: tensor that takes the result.

    Example:
        >>> ad.log(ad.tensor([1.0, 10.0]))
        tensor([0.0000, 2.3026])
    """
    return np.log(x)


@unary(promotion="float", scalar="log2", kernel=True, dx=with_elementwise_kernel(lambda g, x: g / (x * math.log(2))))
def log2(x: Array) -> Operand:
    """log₂ x."""
    return np.log2(x)


@unary(promotion="float", scalar="log10", kernel=True, dx=with_elementwise_kernel(lambda g, x: g / (x * math.log(10))))
def log10(x: Operand) -> Operand:
    """log₁₀ x."""
    return np.log10(x)


@unary(promotion="float", scalar="log1p", kernel=True, dx=with_elementwise_kernel(lambda g, x: g / (x + 1.0)))
def log1p(x: Operand) -> Operand:
    """ln(1 + x), accurate near 0."""
    return np.log1p(x)


@unary(
    promotion="float",
    scalar="sin",
    kernel=True,
    dx=with_elementwise_kernel(lambda g, x: g * cos(x), same_bits=False, small=lambda g, x: g * np.cos(x)),
)
def sin(x: Array) -> Operand:
    """Return sin x, element by element; integers give floats.

    Args:
        input: tensor of angles in radians.
        out: tensor that takes the result.

    Example:
        >>> ad.sin(ad.tensor([0.0, np.pi / 6]))
        tensor([0.0000, 0.5000])
    """
    return np.sin(x)


@unary(
    promotion="float",
    scalar="cos",
    kernel=True,
    dx=with_elementwise_kernel(lambda g, x: -(g * sin(x)), same_bits=False, small=lambda g, x: -(g * np.sin(x))),
)
def cos(x: Operand) -> Operand:
    """cos x, radians."""
    return np.cos(x)


@unary(promotion="float", scalar="tan", kernel=True, dx=with_elementwise_kernel(lambda g, out: g * (out * out + 1.0)))
def tan(x: Operand) -> Operand:
    """tan x, radians."""
    return np.tan(x)


@unary(promotion="float", scalar="asin", kernel=True, dx=with_elementwise_kernel(lambda g, x: g / (1.0 - x * x) ** 0.5))
def asin(x: Array) -> Operand:
    """The angle in [-π/2, π/2] with sine x."""
    return np.arcsin(x)


@unary(
    promotion="float", scalar="acos", kernel=True, dx=with_elementwise_kernel(lambda g, x: -(g / (1.0 - x * x) ** 0.5))
)
def acos(x: Operand) -> Operand:
    """The angle in [0, π] with cosine x."""
    return np.arccos(x)


@unary(promotion="float", scalar="atan", kernel=True, dx=with_elementwise_kernel(lambda g, x: g / (x * x + 1.0)))
def atan(x: Array) -> Operand:
    """The angle in (-π/2, π/2) with tangent x."""
    return np.arctan(x)


def _squared_distance(x: Operand, y: Operand) -> Operand:
    """x² + y², and 1 at the origin, where the angle's gradient is taken as 0."""
    squared = x * x + y * y
    return where(squared == 0, 1.0, squared)


@binary(
    promotion="float",
    scalar="atan2",
    unsupported_kinds="c",
    kernel=True,
    dx=with_elementwise_kernel(lambda g, x, y: g * (y / _squared_distance(x, y))),
    dy=with_elementwise_kernel(lambda g, x, y: -(g * (x / _squared_distance(x, y)))),
)
def atan2(x: Array, y: Operand) -> Operand:
    """The angle of the point with ordinate x and abscissa y, in (-π, π]."""
    return np.arctan2(x, y)


@unary(
    promotion="float",
    scalar="sinh",
    kernel=True,
    dx=with_elementwise_kernel(lambda g, x: g * cosh(x), same_bits=False, small=lambda g, x: g * np.cosh(x)),
)
def sinh(x: Array) -> Operand:
    """(eˣ - e⁻ˣ) / 2."""
    return np.sinh(x)


@unary(
    promotion="float",
    scalar="cosh",
    kernel=True,
    dx=with_elementwise_kernel(lambda g, x: g * sinh(x), same_bits=False, small=lambda g, x: g * np.sinh(x)),
)
def cosh(x: Array) -> Operand:
    """(eˣ + e⁻ˣ) / 2."""
    return np.cosh(x)


@unary(promotion="float", scalar="tanh", kernel=True, dx=with_elementwise_kernel(lambda g, out: g * (1.0 - out * out)))
def tanh(x: Array) -> Operand:
    """Return tanh x = sinh x / cosh x, element by element; integers give floats.

    Args:
        input: tensor.
        out: tensor that takes the result.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> ad.tanh(ad.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.7616,  0.0000,  0.7616])
    """
    return np.tanh(x)


@unary(
    promotion="float", scalar="sigmoid", kernel=True, dx=with_elementwise_kernel(lambda g, out: g * ((1.0 - out) * out))
)
def sigmoid(x: Operand) -> Operand:
    """Return 1 / (1 + e⁻ˣ), element by element; integers give floats.

    For a large negative x, e⁻ˣ overflows and the result is 0.

    Args:
        input: tensor.
        out: tensor that takes the result.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> ad.sigmoid(ad.tensor([-2.0, 0.0, 2.0]))
        tensor([0.1192, 0.5000, 0.8808])
    """
    if kernel_provider.enabled and (found := SIGMOID.call(x)) is not None:
        return found
    return np.reciprocal(np.add(np.exp(np.negative(x)), 1))


@unary(
    promotion="float",
    scalar="erf",
    unsupported_kinds="c",
    dx=with_elementwise_kernel(
        lambda g, x: g * (exp(-(x * x)) * (2.0 / math.sqrt(math.pi))),
        same_bits=False,
        small=lambda g, x: g * (np.exp(-(x * x)) * (2.0 / math.sqrt(math.pi))),
    ),
    kernel=True,
)
def erf(x: Operand) -> Array:
    """2/√π ∫₀ˣ exp(-t²) dt."""
    return erf_array(x)
