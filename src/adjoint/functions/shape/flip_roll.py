"""Elements reversed, rolled and rotated along dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.tensor.storage import View
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Shape
from adjoint.functions.api.dim_args import Dims, one_dim, parse_shape, some_dims
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.shape import shape as shapes
from adjoint.ops.elementwise import select
from adjoint.ops.movement import movement

__all__ = ["flip", "fliplr", "flipud", "roll", "rot90"]


@public(varargs_ints=True)
def flip(input: Tensor, dims: int | Sequence[int]) -> Tensor:
    """Return a copy with the order of the elements reversed along `dims`.

    Args:
        input: tensor.
        dims: dimensions to reverse, one by one or as a tuple.

    Example:
        >>> ad.flip(ad.tensor([[1, 2], [3, 4]]), (1,))
        tensor([[2, 1],
                [4, 3]])
    """
    return movement.flip(input, axes=some_dims(dims, input.ndim))


@public()
def fliplr(input: Tensor) -> Tensor:
    """Reverse dimension 1. Raises RuntimeError below two dimensions."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, (1,))


@public()
def flipud(input: Tensor) -> Tensor:
    """Reverse dimension 0. Raises RuntimeError for a number."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, (0,))


@public()
def roll(input: Tensor, shifts: Tensor | int | tuple[int, ...], dims: Dims = ()) -> Tensor:
    """Move the elements by `shifts` along `dims`, those beyond the end to the start; flattened without `dims`.

    Raises: RuntimeError unless there is a shift for each of `dims`.
    """
    steps = parse_shape((shifts,))
    axes = parse_shape((dims,)) if dims is not None else ()
    if not steps:
        raise RuntimeError("`shifts` required")
    if not axes:
        if len(steps) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:0")
        return rename_node(shapes.reshape(roll(shapes.ravel(input), steps, (0,)), input.array.shape), "RollBackward0")
    if len(steps) != len(axes):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(axes)}")
    out: Tensor = _roll(input, shifts=steps, axes=tuple(one_dim(dim, input.ndim) for dim in axes))
    return out


def _join_rolled(x: Tensor, *, shifts: Shape, axes: Shape) -> Operand:
    out = x
    for by, axis in zip(shifts, axes, strict=True):
        n = x.shape[axis]
        if n == 0 or by % n == 0:
            continue
        cut = n - by % n
        out = movement.cat(shapes.narrow(out, axis, cut, n - cut), shapes.narrow(out, axis, 0, cut), axis=axis)
    return rename_node(select.copy(x) if out is x else out, "RollBackward0")


@with_eager_fast_path(
    composite=_join_rolled,
    node="RollBackward0",
    linear=True,
    dx=lambda g, shifts, axes: _roll(g, shifts=tuple(-by for by in shifts), axes=axes),
)
def _roll(x: Array, *, shifts: Shape, axes: Shape) -> Array:
    """Return x with its elements moved by a shift along each of `axes`."""
    out = x
    for by, axis in zip(shifts, axes, strict=True):
        lead = (slice(None),) * axis
        cut = -by % (x.shape[axis] or 1)
        if cut:
            out = np.concatenate((out[(*lead, slice(cut, None))], out[(*lead, slice(cut))]), axis)
    return out.copy() if out is x else np.asarray(out, order="C")


@public()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Return the plane of two dimensions turned k times by 90°, from the first towards the second.

    Raises: RuntimeError unless `dims` are two different dimensions.
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = (one_dim(d, input.ndim) for d in dims)
    if first == second:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    turns = k % 4
    if turns == 0:
        out: Operand = select.copy(input)
    elif turns == 2:
        out = movement.flip(input, axes=tuple(sorted((first, second))))
    else:
        flipped = select.copy(movement.flip(input, axes=(second if turns == 1 else first,)))
        out = movement.swap(flipped, first, second)
        if type(out.storage_) is View:  # it lies as PyTorch's does, and nobody else sees the memory
            out.storage_ = None
    return rename_node(out, "Rot90Backward0")
