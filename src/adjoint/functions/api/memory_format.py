"""Memory order of elements: copies keep it, and random numbers fill memory in it, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.tensor import tensor as tensors
from adjoint.core.tensor.as_strided import element_strides
from adjoint.core.tensor.memory_format import preserve_format, sorted_dims
from adjoint.core.tensor.meta import MetaArray
from adjoint.core.tensor.shape_tracer import meta_scope
from adjoint.core.tensor.tensor import Tensor
from adjoint.ops.movement import movement
from adjoint.ops.movement.memory_format import CHANNELS_LAST, is_channels_last

if TYPE_CHECKING:
    from adjoint.core.tensor.memory_format import memory_format

Draw = Callable[[tuple[int, ...]], Tensor]


def draw_in_memory_order(like: Tensor, draw: Draw) -> Tensor:
    """Draw random numbers in the shape of `like`, in the order of its memory."""
    array, shape = like.array, like.array.shape
    # as nearly always; strides of sizes of 1 may be those of another order
    if type(array) is np.ndarray and array.flags.c_contiguous and 1 not in shape:
        return draw(shape)
    if type(array) is MetaArray:
        with meta_scope():
            return draw(shape)
    order = _resolve_memory_order(like)
    if order is None:
        return draw(shape)
    drawn = draw(tuple(shape[i] for i in order))
    return movement.permute(drawn, axes=tuple(order.index(i) for i in range(len(order))))


def dim_order_for_copy(like: Tensor, memory_format: memory_format | None = None) -> tuple[int, ...]:
    """Return the order of the dimensions of a copy: as `memory_format` says, else as in `like`.

    () means row-major order. Raises RuntimeError for a format of another rank.
    """
    if memory_format is None or memory_format is preserve_format:
        return tuple(_resolve_memory_order(like) or ())
    order: tuple[int, ...] = memory_format.order
    if order and like.ndim != len(order):
        raise RuntimeError(f"required rank {len(order)} tensor to use {memory_format.name} format")
    return order


def _resolve_memory_order(x: Tensor) -> Sequence[int] | None:
    """Return `memory_order`; strides decide if sizes of 1 leave open whether channels lie last."""
    order, rank = memory_order(x), x.ndim
    if order is None and rank in CHANNELS_LAST and is_channels_last(tensors.strided_stand_in(x)):
        return CHANNELS_LAST[rank]
    return order


def memory_order(x: Tensor) -> list[int] | None:
    """Return the dimensions of `x` from the largest stride to the smallest; None if they come in that order."""
    array = x.array
    if type(array) is np.ndarray and array.flags.c_contiguous:
        return None
    shape = array.shape
    if len(shape) < 2 or x.is_contiguous():
        return None
    order = sorted_dims(shape, element_strides(tensors.strided_stand_in(x)))
    moved = [i for i in order if shape[i] != 1]
    return None if moved == sorted(moved) else order
