"""The terms of losses, one for each element: one op and one kernel in eager mode, composed of ops in compiled steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.elementwise_composite import elementwise_composite, with_elementwise_kernel
from adjoint.core.typing import Operand
from adjoint.ops.elementwise import arithmetic, comparison, transcendental
from adjoint.ops.elementwise.select import where

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


def _are_arrays(*operands: Operand) -> bool:
    """Return whether a rule runs in a pass on arrays: NumPy's functions alone cost a third of ops of a few elements."""
    for x in operands:  # noqa: SIM110  a third of the time of `all` and a generator
        if type(x) is not np.ndarray:
            return False
    return True


def _smooth_l1_dx(g: Operand, x: Operand, y: Operand, beta: float) -> Operand:
    if _are_arrays(g, x, y):
        apart = x - y
        return np.where(np.abs(apart) < beta, apart * (1.0 / beta), np.sign(apart)) * g
    apart = arithmetic.sub(x, y)
    return where(
        comparison.lt(arithmetic.abs(apart), beta),
        g * (apart * (1.0 / beta)),
        arithmetic.mul(g, arithmetic.sign(apart)),
    )


@elementwise_composite(
    node="SmoothL1LossBackward0",
    same_bits=True,
    small=lambda x, y, beta: np.where(
        (size := np.abs(x - y)) < beta, np.square(size) * (0.5 / beta), size - 0.5 * beta
    ),
    dx=_smooth_l1_dx,
    dy=lambda g, x, y, beta: arithmetic.neg(_smooth_l1_dx(g, x, y, beta)),
)
def smooth_l1(x: Operand, y: Operand, *, beta: float) -> Tensor:
    """d² / (2 beta) where |d| < beta, else |d| - beta / 2, of d = x - y."""
    size = arithmetic.abs(arithmetic.sub(x, y))
    return where(comparison.lt(size, beta), arithmetic.square(size) * (0.5 / beta), size - 0.5 * beta)


def _huber_dx(g: Operand, x: Operand, y: Operand, delta: float) -> Operand:
    if _are_arrays(g, x, y):
        return np.minimum(np.maximum(x - y, -delta), delta) * g
    apart = arithmetic.sub(x, y)
    return where(
        comparison.lt(arithmetic.abs(apart), delta), arithmetic.mul(g, apart), g * (arithmetic.sign(apart) * delta)
    )


@elementwise_composite(
    node="HuberLossBackward0",
    same_bits=True,
    small=lambda x, y, delta: np.where(
        (size := np.abs(x - y)) < delta, np.square(size) * 0.5, (size - 0.5 * delta) * delta
    ),
    dx=_huber_dx,
    dy=lambda g, x, y, delta: arithmetic.neg(_huber_dx(g, x, y, delta)),
)
def huber(x: Operand, y: Operand, *, delta: float) -> Tensor:
    """d² / 2 where |d| < delta, else delta (|d| - delta / 2), of d = x - y."""
    size = arithmetic.abs(arithmetic.sub(x, y))
    return where(comparison.lt(size, delta), arithmetic.square(size) * 0.5, (size - 0.5 * delta) * delta)


@elementwise_composite(
    node="BinaryCrossEntropyWithLogitsBackward0",
    dx=lambda g, x, y: arithmetic.mul(g, transcendental.sigmoid(x) - y),
    dy=lambda g, x: arithmetic.neg(arithmetic.mul(g, x)),
)
def logit_entropy(x: Operand, y: Operand) -> Tensor:
    """-(y ln σ(x) + (1 - y) ln(1 - σ(x))) of logits x, so that nothing overflows."""
    return (arithmetic.maximum(x, 0.0) - arithmetic.mul(x, y)) + transcendental.log1p(
        transcendental.exp(-arithmetic.abs(x))
    )


@with_elementwise_kernel
def square_error_dx(g: Operand, x: Operand, y: Operand) -> Operand:
    """2 g (x - y)."""
    if _are_arrays(g, x, y):
        return (x - y) * g * 2.0
    return arithmetic.mul(arithmetic.sub(x, y), g) * 2.0


@elementwise_composite(
    same_bits=True,
    small=lambda x, y: np.square(x - y),
    dx=square_error_dx,
    dy=lambda g, x, y: arithmetic.neg(square_error_dx(g, x, y)),
)
def square_error(x: Operand, y: Operand) -> Tensor:
    """(x - y)²."""
    return arithmetic.square(arithmetic.sub(x, y))
