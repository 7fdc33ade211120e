"""Other shapes and orders for the same elements; tensors joined, split and repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.shape import flip_roll, join
from adjoint.functions.shape import repeat as repetition
from adjoint.functions.shape import shape as shapes
from adjoint.functions.shape import split as sections
from adjoint.interop.array_api.dtypes import result_type
from adjoint.interop.array_api.operands import cast_to, normalize_axes
from adjoint.ops.elementwise import select
from adjoint.ops.movement import movement

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat",
    "reshape", "roll", "squeeze", "stack", "tile", "unstack",
]  # fmt: skip


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """All of them expanded to their common shape. Raises ValueError if there is none."""
    shape = broadcast_shapes(*[x.array.shape for x in arrays])
    return [movement.expand(x, shape=shape) for x in arrays]


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """x repeated along dimensions of size 1 and new ones in front. Raises ValueError if that does not give `shape`."""
    if broadcast_shapes(x.array.shape, shape) != tuple(shape):
        raise ValueError(f"broadcast_to: {tuple(x.shape)} does not broadcast to {tuple(shape)}")
    return movement.expand(x, shape=tuple(shape))


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors joined along `axis`, or all their elements for None; types meet as in arithmetic."""
    kind = result_type(*arrays).numpy
    parts = [cast_to(x, kind) for x in arrays]
    if axis is None:
        parts, axis = [movement.reshape(x, shape=(x.numel(),)) for x in parts], 0
    one_dim(axis, parts[0].ndim)
    return join.cat(parts, axis)


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """A dimension of size 1 inserted at `axis`. Raises IndexError outside [-ndim - 1, ndim]."""
    return shapes.unsqueeze(x, axis)


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The order of elements reversed along `axis`, or along all."""
    return movement.flip(x, axes=normalize_axes(axis, x.ndim))


def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """Dimensions `source` moved to `destination`; the others keep their order."""
    return shapes.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Dimension i of the result is dimension `axes[i]` of x."""
    return shapes.permute(x, tuple(axes))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element, or each slice along `axis`, so often in a row."""
    if not isinstance(repeats, Tensor):
        return repetition.repeat_interleave(x, repeats, axis)
    if repeats.numel() == 1:
        return repetition.repeat_interleave(x, int(repeats), axis)
    return repetition.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The same elements in row-major order under another shape; one size may be -1.

    Raises ValueError if `copy` is false and the memory does not allow it.
    """
    if copy is False:
        try:
            return shapes.view(x, tuple(shape))
        except RuntimeError as error:
            raise ValueError(f"reshape: {error}") from error
    out = shapes.reshape(x, tuple(shape))
    return select.copy(out) if copy else out


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The elements moved by `shift` along `axis`, those beyond the end back to the beginning; flattened for None."""
    if axis is None:
        return flip_roll.roll(x, shift)
    dims = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(dims) if isinstance(shift, int) else tuple(shift)
    return flip_roll.roll(x, shifts, dims) if x.numel() else select.copy(x)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Without the dimensions `axis`. Raises ValueError unless they have size 1."""
    axes = normalize_axes(axis, x.ndim)
    for d in axes:
        if x.array.shape[d] != 1:
            raise ValueError(f"squeeze: axis {d} of {tuple(x.shape)} has size {x.array.shape[d]}, not 1")
    shape = tuple(n for d, n in enumerate(x.array.shape) if d not in axes)
    return movement.reshape(x, shape=shape)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    kind = result_type(*arrays).numpy
    return join.stack([cast_to(x, kind) for x in arrays], axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """x repeated along each dimension, counted from the last."""
    return repetition.tile(x, tuple(repetitions))


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along `axis`, without it."""
    found: Any = sections.unbind(x, axis)
    return tuple(found)
