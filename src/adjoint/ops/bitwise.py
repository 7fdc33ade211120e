"""Logic on the bits of integers, and on truths."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.families import binary, unary


@binary(scalar="bitwise_and", refuses="fc")
def bitwise_and(x: Any, y: Any) -> Any:
    """The bits set in both; of truths: both."""
    return np.bitwise_and(x, y)


@binary(scalar="bitwise_or", refuses="fc")
def bitwise_or(x: Any, y: Any) -> Any:
    """The bits set in either; of truths: either."""
    return np.bitwise_or(x, y)


@binary(scalar="bitwise_xor", refuses="fc")
def bitwise_xor(x: Any, y: Any) -> Any:
    """The bits set in exactly one; of truths: exactly one."""
    return np.bitwise_xor(x, y)


@unary(scalar="bitwise_not", refuses="fc")
def bitwise_not(x: Any) -> Any:
    """The bits that are not set; of a truth: its contrary."""
    return np.bitwise_not(x)
