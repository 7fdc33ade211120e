"""Choices by masks, and positions of the elements that are not zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype_info import check_range
from adjoint.core.op.elementwise_kernels import KERNEL_TYPES
from adjoint.core.op.recorder import wrap_unrecorded
from adjoint.core.runtime.mode import call_on_values, mode, nondefault
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Operand
from adjoint.functions.api.out import with_out, write_out
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.indexing.gather import _broadcast_or_raise
from adjoint.functions.indexing.getitem import getitem
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.indexing.nonzero import find_nonzero, nonzero_places
from adjoint.ops.movement import movement

__all__ = ["argwhere", "masked_fill", "masked_select", "nonzero", "nonzero_static", "unravel_index"]


def _fill_where(x: Array, mask: Array, value: float) -> Array | None:
    """Compute `masked_fill`; None for what is no mask of truths and number."""
    if type(mask) is not np.ndarray or mask.dtype.kind != "b" or type(value) not in select.NUMBERS:
        return None
    np.putmask(x, mask, select.number_as_array(value, x.dtype))
    return x


@public(inplace=_fill_where)
def masked_fill(input: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """Return a copy of `input` with `value` wherever `mask` is true.

    Args:
        input: tensor.
        mask: bool tensor that broadcasts with `input`.
        value: number or 0-d tensor.

    Raises: RuntimeError for a mask that is not bool, and for a `value` with dimensions.

    Example:
        >>> x = ad.tensor([1.0, -2.0, 3.0])
        >>> ad.masked_fill(x, x < 0, 0.0)
        tensor([1., 0., 3.])
    """
    check_range(value, input.array.dtype)
    if type(value) in select.NUMBERS and type(mask) is Tensor and input.array.dtype in KERNEL_TYPES:
        filled = select.fill(mask, value, input)
        if filled is not None:
            return rename_node(filled, "MaskedFillBackward0")
    if mask.array.dtype.kind != "b":
        raise RuntimeError(f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype}")
    if not isinstance(value, Tensor):
        value = select.number_as_array(value, input.array.dtype)
    elif value.ndim:
        raise RuntimeError(
            f"masked_fill only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    elif value.array.dtype != input.array.dtype:
        if value.array.dtype.kind == "c" and input.array.dtype.kind != "c":
            raise RuntimeError(f"value cannot be converted to type {input.dtype.name} without overflow")
        value = select.cast(value, dtype=input.array.dtype)
    out = select.choose(mask, value, input)  # of which PyTorch gives a row-major copy
    return rename_node(out if out.is_contiguous() else select.copy(out), "MaskedFillBackward0")


@public()
@with_out
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Return the elements of `input` where `mask` is true, as a vector.

    Raises: RuntimeError unless `mask` is bool and broadcasts.
    """
    if mask.array.dtype.kind != "b":
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, got {mask.dtype}")
    shape = _broadcast_or_raise(input.array.shape, mask.array.shape)
    if not shape:
        shape = (1,)
    chosen = getitem(movement.expand(input, shape=shape), movement.expand(mask, shape=shape))
    return rename_node(chosen, "MaskedSelectBackward0")


@public()
def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """Return the positions of the elements that are not zero, in row-major order.

    Args:
        input: tensor.
        as_tuple: True for a tuple with one index vector per dimension. Default: False, a matrix (count, ndim).
        out: int64 tensor that takes the matrix.

    Example:
        >>> ad.nonzero(ad.tensor([[0, 5], [7, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    if out is not None:
        if as_tuple:
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        return write_out(out, nonzero, input)
    values = mode.interpreter.constant_values(input) if nondefault.count and mode.interpreter is not None else None
    if values is not None:
        return tuple(map(wrap, find_nonzero(values))) if as_tuple else wrap(_stack(values))
    if type(input.array) is np.ndarray and not (nondefault.count and mode.needs_slow_path):
        return find_positions(input) if as_tuple else wrap_unrecorded(_stack(input.array))
    if as_tuple:
        return call_on_values(find_positions, input.detach())
    return call_on_values(lambda x: wrap(_stack(x.numpy_view("nonzero()"))), input.detach())


def find_positions(input: Tensor) -> tuple[Tensor, ...]:
    """Return one index vector for each dimension: the positions of the elements that are not zero."""
    return tuple(map(wrap, find_nonzero(input.numpy_view("nonzero()"))))


def _stack(array: Array) -> Array:
    if not array.ndim:
        return np.zeros((int(bool(array)), 0), np.int64)
    return np.array(find_nonzero(array)).T.copy()  # a third of the time of `stack`


@public()
def argwhere(input: Tensor) -> Tensor:
    """Return the positions of the elements that are not zero: (count, ndim)."""
    return nonzero(input)


@public()
@with_out
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the positions of the first `size` elements that are not zero, (size, ndim), padded with `fill_value`.

    Raises RuntimeError for a negative size.
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    return nonzero_places(input.detach(), size=size, fill=fill_value)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Return the coordinates, one tensor for each dimension, of elements of a tensor of that shape counted row by row.

    Raises TypeError for indices or sizes that are not integers, ValueError for negative sizes.
    """
    if indices.array.dtype.kind not in "iu":
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, np.integer, Sequence)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    for size in sizes:
        if not isinstance(size, (int, np.integer)):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    found, step = [], 1
    whole = select.cast(indices, dtype=np.dtype(np.int64))
    for size in reversed(sizes):
        found.append(arithmetic.remainder(arithmetic.floor_divide(whole, step), size))
        step *= size
    return tuple(reversed(found))
