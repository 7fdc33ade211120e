"""Activation functions of single elements: each one op and one kernel in eager mode, composed of ops in compiled steps.

A choice between two branches first replaces, in the branch that overflows, the elements that it does not take: so the
gradients of gradients stay finite too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adjoint.core.op.elementwise_composite import elementwise_composite, with_elementwise_kernel
from adjoint.core.typing import Operand
from adjoint.ops.elementwise import arithmetic, comparison, transcendental
from adjoint.ops.elementwise.select import where

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


@elementwise_composite(
    node="LeakyReluBackward0",
    same_bits=True,
    dx=lambda g, x, negative_slope: where(comparison.gt(x, 0.0), g, g * negative_slope),
)
def leaky_relu(x: Operand, *, negative_slope: float) -> Tensor:
    """x where x > 0, else negative_slope · x."""
    return where(comparison.gt(x, 0.0), x, arithmetic.mul(x, negative_slope))


def _negative_part(x: Operand) -> Tensor:
    """x where it is not positive, else 0."""
    return where(comparison.gt(x, 0.0), 0.0, x)


@elementwise_composite(
    node="EluBackward0",
    dx=lambda g, x, alpha, scale: where(
        comparison.gt(x, 0.0), g * scale, g * (transcendental.exp(_negative_part(x)) * (alpha * scale))
    ),
)
def elu(x: Operand, *, alpha: float, scale: float) -> Tensor:
    """scale · x where x > 0, else scale · alpha (eˣ - 1)."""
    below = arithmetic.mul(transcendental.expm1(_negative_part(x)), alpha)
    out = where(comparison.gt(x, 0.0), x, below)
    return out if scale == 1.0 else arithmetic.mul(out, scale)


@elementwise_composite(
    dx=lambda g, x, alpha: where(
        comparison.gt(x, 0.0), g, g * transcendental.exp(where(comparison.gt(x, 0.0), 0.0, arithmetic.div(x, alpha)))
    ),
)
def celu(x: Operand, *, alpha: float) -> Tensor:
    """x where x > 0, else alpha (e^(x / alpha) - 1)."""
    above = comparison.gt(x, 0.0)
    below = where(above, 0.0, arithmetic.div(x, alpha))
    return where(above, x, arithmetic.mul(transcendental.expm1(below), alpha))


@elementwise_composite(
    node="SoftplusBackward0",
    dx=lambda g, x, beta, threshold: where(
        comparison.gt(arithmetic.mul(x, beta), threshold), g, g * transcendental.sigmoid(arithmetic.mul(x, beta))
    ),
)
def softplus(x: Operand, *, beta: float, threshold: float) -> Tensor:
    """ln(1 + e^(beta x)) / beta, and x itself where beta x exceeds the threshold."""
    scaled = arithmetic.mul(x, beta)
    linear = comparison.gt(scaled, threshold)
    below = where(linear, 0.0, scaled)
    return where(linear, x, arithmetic.div(transcendental.log1p(transcendental.exp(below)), beta))


@elementwise_composite(node="LogSigmoidBackward0", dx=lambda g, x: g * transcendental.sigmoid(arithmetic.neg(x)))
def logsigmoid(x: Operand) -> Tensor:
    """ln(1 / (1 + e⁻ˣ))."""
    return arithmetic.minimum(x, 0.0) - transcendental.log1p(transcendental.exp(-arithmetic.abs(x)))


@elementwise_composite(
    node="HardtanhBackward0",
    same_bits=True,
    dx=lambda g, x, low, high: where(comparison.le(x, low), 0.0, where(comparison.ge(x, high), 0.0, g)),
)
def hardtanh(x: Operand, *, low: float, high: float) -> Tensor:
    """x clamped to [low, high]."""
    return where(comparison.le(x, low), low, where(comparison.ge(x, high), high, x))


@elementwise_composite(
    same_bits=True,
    dx=lambda g, x: where(comparison.le(x, -3.0), 0.0, where(comparison.ge(x, 3.0), 0.0, arithmetic.div(g, 6.0))),
)
def hardsigmoid(x: Operand) -> Tensor:
    """x / 6 + 1/2, clamped to [0, 1]."""
    inner = arithmetic.div(arithmetic.add(x, 3.0), 6.0)
    return where(comparison.le(x, -3.0), 0.0, where(comparison.ge(x, 3.0), 1.0, inner))


def _between_threes(x: Operand) -> Tensor:
    """x where |x| < 3, else 0."""
    return where(comparison.ge(arithmetic.abs(x), 3.0), 0.0, x)


@elementwise_composite(
    same_bits=True,
    dx=lambda g, x: where(
        comparison.le(x, -3.0), 0.0, where(comparison.ge(x, 3.0), g, g * ((_between_threes(x) * 2.0 + 3.0) / 6.0))
    ),
)
def hardswish(x: Operand) -> Tensor:
    """x (x + 3) / 6 between -3 and 3, 0 below and x above."""
    middle = _between_threes(x)
    inner = arithmetic.div(arithmetic.mul(middle, arithmetic.add(middle, 3.0)), 6.0)
    return where(comparison.le(x, -3.0), 0.0, where(comparison.ge(x, 3.0), x, inner))


def _mish_share(x: Operand) -> Tensor:
    """tanh(ln(1 + eˣ))."""
    below = where(comparison.gt(x, 20.0), 0.0, x)
    return transcendental.tanh(where(comparison.gt(x, 20.0), x, transcendental.log1p(transcendental.exp(below))))


@partial(with_elementwise_kernel, same_bits=False)
def _mish_dx(g: Operand, x: Operand) -> Operand:
    share = _mish_share(x)
    return g * (share + x * ((1.0 - share * share) * transcendental.sigmoid(x)))


@elementwise_composite(node="MishBackward0", dx=_mish_dx)
def mish(x: Operand) -> Tensor:
    """x tanh(ln(1 + eˣ))."""
    return arithmetic.mul(x, _mish_share(x))


@elementwise_composite(same_bits=True, dx=lambda g, x, lambd: where(comparison.le(arithmetic.abs(x), lambd), 0.0, g))
def softshrink(x: Operand, *, lambd: float) -> Tensor:
    """x moved towards 0 by lambd, and 0 where |x| ≤ lambd."""
    shrunk = where(comparison.gt(x, 0.0), arithmetic.sub(x, lambd), arithmetic.add(x, lambd))
    return where(comparison.le(arithmetic.abs(x), lambd), 0.0, shrunk)


@elementwise_composite(same_bits=True, dx=lambda g, x, lambd: where(comparison.le(arithmetic.abs(x), lambd), 0.0, g))
def hardshrink(x: Operand, *, lambd: float) -> Tensor:
    """x where |x| > lambd, else 0."""
    return where(comparison.le(arithmetic.abs(x), lambd), 0.0, x)
