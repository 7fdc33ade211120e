"""Bitwise logic of integers and bools, and shifts."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.families import binary, unary
from adjoint.core.typing import Array, Operand


@binary(scalar="bitwise_and", unsupported_kinds="fc")
def bitwise_and(x: Array, y: Array) -> Operand:
    """The bits that are set in both; logical and of bools."""
    return np.bitwise_and(x, y)


@binary(scalar="bitwise_or", unsupported_kinds="fc")
def bitwise_or(x: Array, y: Array) -> Array:
    """The bits that are set in either; logical or of bools."""
    return np.bitwise_or(x, y)


@binary(scalar="bitwise_xor", unsupported_kinds="fc")
def bitwise_xor(x: Array, y: Array) -> Array:
    """The bits that are set in exactly one; logical exclusive or of bools."""
    return np.bitwise_xor(x, y)


@unary(scalar="bitwise_not", unsupported_kinds="fc")
def bitwise_not(x: Array) -> Operand:
    """The complement of all bits; logical not of bools."""
    return np.bitwise_not(x)


@binary(scalar="shl", unsupported_kinds="bfc")
def bitwise_left_shift(x: Array, y: Array) -> Array:
    """x 2ʸ: the bits shifted up by y places; 0 where y is negative or not below the width."""
    return np.left_shift(x, y)


@binary(scalar="shr", unsupported_kinds="bfc")
def bitwise_right_shift(x: Array, y: Array) -> Operand:
    """⌊x / 2ʸ⌋: the bits shifted down by y places; 0 or, below 0, -1 where y is negative or not below the width."""
    return np.right_shift(x, y)
