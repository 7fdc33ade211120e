"""Sums with a product, a quotient or a share of others: each one op, and one kernel, where ops would be three or four.

The factor comes as an array of one number, so that a kernel takes it as it is: that of an optimizer keeps changing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.elementwise_composite import elementwise_composite
from adjoint.core.typing import Operand
from adjoint.ops.elementwise import arithmetic, comparison
from adjoint.ops.elementwise.select import where

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


@elementwise_composite(
    node="AddcmulBackward0",
    same_bits=True,
    small=lambda x, y, z, value: y * value * z + x,
    dx=lambda g: g,
    dy=lambda g, z, value: g * (z * value),
    dz=lambda g, y, value: g * (y * value),
)
def add_product(x: Operand, y: Operand, z: Operand, value: Operand) -> Tensor:
    """x + value · y · z."""
    return arithmetic.add(x, arithmetic.mul(arithmetic.mul(y, value), z))


@elementwise_composite(
    node="AddcdivBackward0",
    same_bits=True,
    small=lambda x, y, z, value: y * value / z + x,
    dx=lambda g: g,
    dy=lambda g, z, value: g * arithmetic.div(value, z),
    dz=lambda g, y, z, value: arithmetic.neg(g * arithmetic.div(arithmetic.mul(y, value), arithmetic.square(z))),
)
def add_quotient(x: Operand, y: Operand, z: Operand, value: Operand) -> Tensor:
    """x + value · y / z."""
    return arithmetic.add(x, arithmetic.div(arithmetic.mul(y, value), z))


@elementwise_composite(
    node="LerpBackward1",
    same_bits=True,
    small=lambda x, end, weight: np.where(
        np.abs(weight) < 0.5, x + (end - x) * weight, end - (end - x) * (1.0 - weight)
    ),
    dx=lambda g, weight: g * (1.0 - weight),
    dend=lambda g, weight: g * weight,
    dweight=lambda g, x, end: g * arithmetic.sub(end, x),
)
def interpolate(x: Operand, end: Operand, weight: Operand) -> Tensor:
    """x + weight (end - x), computed from the nearer end."""
    gap = arithmetic.sub(end, x)
    far = arithmetic.sub(end, arithmetic.mul(gap, arithmetic.sub(1.0, weight)))
    near = arithmetic.add(x, arithmetic.mul(gap, weight))
    return where(comparison.lt(arithmetic.abs(weight), 0.5), near, far)


@elementwise_composite(
    node="LerpBackward0",
    same_bits=True,
    small=lambda x, end, weight, rest: x + (end - x) * weight,
    dx=lambda g, rest: g * rest,
    dend=lambda g, weight: g * weight,
)
def approach(x: Operand, end: Operand, weight: Operand, rest: Operand) -> Tensor:
    """x + weight (end - x), for a weight below a half; `rest` is 1 - weight."""
    return arithmetic.add(x, arithmetic.mul(arithmetic.sub(end, x), weight))


@elementwise_composite(
    node="LerpBackward0",
    same_bits=True,
    small=lambda x, end, weight, rest: end - (end - x) * rest,
    dx=lambda g, rest: g * rest,
    dend=lambda g, weight: g * weight,
)
def reach(x: Operand, end: Operand, weight: Operand, rest: Operand) -> Tensor:
    """The same from the other end: end - rest (end - x)."""
    return arithmetic.sub(end, arithmetic.mul(arithmetic.sub(end, x), rest))
