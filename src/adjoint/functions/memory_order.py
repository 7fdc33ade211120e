"""The order in which PyTorch fills memory with random numbers: as the elements lie, not as they are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.tensor import Tensor
from adjoint.ops import movement

Draw = Callable[[tuple[int, ...]], Tensor]


def as_it_lies(like: Tensor, draw: Draw) -> Tensor:
    """What `draw` gives for the shape of `like`, its numbers in the order of `like`'s memory."""
    shape: Any = like.array.shape
    order = memory_order(like)
    if order is None:
        return draw(shape)
    drawn = draw(tuple(shape[i] for i in order))
    return movement.permute(drawn, axes=tuple(order.index(i) for i in range(len(order))))


def memory_order(x: Tensor) -> list[int] | None:
    """The dimensions of `x` from that of the largest steps to that of the smallest; None if they come in that order.

    They are sorted as PyTorch's iterator does it: a dimension without steps of its own stays where it is.
    """
    shape: Any = x.array.shape
    if len(shape) < 2 or x.is_contiguous():
        return None
    strides = x.stride()
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
    moved = [i for i in order if shape[i] != 1]
    return None if moved == sorted(moved) else order


def _compared(a: int, b: int, shape: Any, strides: Any) -> int:
    if not strides[a] or not strides[b]:
        return 0
    if strides[a] != strides[b]:
        return 1 if strides[a] > strides[b] else -1
    return 1 if shape[a] > shape[b] else 0
