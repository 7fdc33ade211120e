"""Elements in another order in memory, such as images with their channels last, and bits read as another type."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.families import movement_op, primitive
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.memory_format import channels_last, channels_last_3d
from adjoint.core.typing import Array, NumpyDtype, Shape

Order = tuple[int, ...]
CHANNELS_LAST = {4: channels_last.order, 5: channels_last_3d.order}  # by the number of dimensions


@primitive(
    family="elementwise",
    spec=lambda x, *, order, back=(): Spec(x.shape, x.dtype),
    scalar=lambda b, x: x,
    linear=True,
    node="CloneBackward0",
    dx=lambda g, back: copy_in_order(g, order=back) if back else g,
)
def copy_in_order(x: Array, *, order: Order, back: Order = ()) -> Array:
    """x in memory of its own, row-major when the dimensions are taken in `order`; its gradient in the order `back`."""
    out = empty_in_order(x.shape, x.dtype, order)
    out[...] = x
    return out


def empty_in_order(shape: Shape, dtype: NumpyDtype, order: Order) -> Array:
    """Return a new array that owns its memory and is row-major when its dimensions are taken in `order`."""
    steps, step = [0] * len(shape), np.dtype(dtype).itemsize
    for d in reversed(order):
        steps[d] = step
        step *= max(shape[d], 1)
    return np.ndarray(shape, dtype, strides=steps)


def is_channels_last(array: Array) -> bool:
    """True where steps grow from the channels through the innermost dimension to the outermost, as PyTorch decides.

    Where sizes of 1 leave it open the strides of those dimensions tell; where they do not either, False.
    """
    shape, strides = array.shape, array.strides
    if len(shape) not in CHANNELS_LAST or strides[1] > strides[-1] or not strides[1]:
        return False
    least = 0
    for d in reversed(CHANNELS_LAST[len(shape)]):
        if not shape[d] or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * shape[d]
    return True


@movement_op(
    spec=lambda x, *, dtype: Spec(
        (*x.shape[:-1], *(n * x.dtype.itemsize // dtype.itemsize for n in x.shape[-1:])), dtype
    ),
    batch_leading=True,
)
def reinterpret(x: Array, *, dtype: NumpyDtype) -> Array:
    """The same memory read as elements of `dtype`; the last dimension grows or shrinks with the item size."""
    if dtype.itemsize != x.dtype.itemsize and x.strides[-1] != x.itemsize:
        x = np.ascontiguousarray(x)
    return x.view(dtype)
