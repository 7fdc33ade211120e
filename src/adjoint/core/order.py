"""The order in which the elements of an array lie, and results that lie so too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np


def keeping_order(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`function` of an array, element by element, whose results lie in memory as the array does, without gaps."""

    @wraps(function)
    def call(x: Any) -> Any:
        return function(x) if x.ndim < 2 or x.flags.c_contiguous else in_order(function, x)

    call.parameters = ("x",)  # type: ignore[attr-defined]
    return call


def in_order(function: Callable[[Any], Any], x: Any) -> Any:
    """`function` of x, to which x is given in an order that makes it row-major; None where it gives None."""
    order = sorted_dims(x.shape, x.strides)
    out = function(np.ascontiguousarray(x.transpose(order)))
    return None if out is None else out.transpose(np.argsort(order))


def sorted_dims(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The dimensions from that of the largest steps to that of the smallest, as PyTorch's iterator sorts them.

    A dimension without steps of its own stays where it is.
    """
    order = list(range(len(shape)))[::-1]  # innermost first
    for i in range(1, len(order)):
        place = i
        for before in reversed(range(i)):
            compared = _compared(order[before], order[place], shape, strides)
            if compared > 0:
                order[before], order[place] = order[place], order[before]
                place = before
            elif compared < 0:
                break
    order.reverse()
    return order


def _compared(a: int, b: int, shape: Sequence[int], strides: Sequence[int]) -> int:
    if not strides[a] or not strides[b]:
        return 0
    if strides[a] != strides[b]:
        return 1 if strides[a] > strides[b] else -1
    return 1 if shape[a] > shape[b] else 0
