"""Tensors repeated: whole, along each dimension, or element by element."""

from __future__ import annotations

from functools import wraps
from typing import cast

import numpy as np

from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.op.signature import with_parameters_of
from adjoint.core.runtime.mode import call_on_values
from adjoint.core.tensor.tensor import Tensor, constant, wrap
from adjoint.core.typing import Function, Operand
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.shape.shape import ravel, unsqueeze
from adjoint.ops.elementwise import select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement

__all__ = ["repeat_interleave", "tile"]


@public(varargs_ints=True)
def tile(input: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the tensor repeated `dims[i]` times along dimension i, counted from the last."""
    counts = (1,) * (input.ndim - len(dims)) + dims
    shape = (1,) * (len(counts) - input.ndim) + tuple(input.array.shape)
    paired = movement.reshape(input, shape=tuple(k for n in shape for k in (1, n)))
    spread = movement.expand(paired, shape=tuple(k for c, n in zip(counts, shape, strict=True) for k in (c, n)))
    out = movement.reshape(spread, shape=tuple(c * n for c, n in zip(counts, shape, strict=True)))
    return rename_node(_copy_if_view(out), "RepeatBackward0")


def _copy_if_view(x: Tensor) -> Tensor:
    """Return x, or a copy where a reshape found that it could repeat elements without copying."""
    return select.copy(x) if x._is_view() else x


@public(varargs_ints=True)
def repeat(self: Tensor, repeats: tuple[int, ...]) -> Tensor:
    """Return a copy that repeats the tensor along each dimension.

    Args:
        repeats: repetitions of each dimension, one by one or as a tuple; surplus ones add leading dimensions.

    Raises: RuntimeError for fewer numbers than dimensions, and for negative ones.

    Example:
        >>> ad.tensor([1, 2]).repeat(2, 3)
        tensor([[1, 2, 1, 2, 1, 2],
                [1, 2, 1, 2, 1, 2]])
    """
    if len(repeats) < self.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if any(n < 0 for n in repeats):
        raise RuntimeError(f"Trying to create tensor with negative dimension: repeats are {list(repeats)}")
    return tile(self, repeats)


def _accept_counts_alone(function: Function) -> Function:
    """Return `function`, which with its first argument alone takes that for counts: of each position as many."""

    @wraps(function)
    def call(*args: Operand, **named: Operand) -> Tensor:
        counts = named.pop("repeats", None) if not args and "input" not in named else None
        if counts is None and len(args) == 1 and "repeats" not in named and "dim" not in named:
            counts, args = args[0], ()
        if counts is None:
            return cast("Tensor", function(*args, **named))
        return cast("Tensor", function(constant(np.arange(counts.numel(), dtype=np.int64)), counts, 0, **named))

    return with_parameters_of(call, function)


@public()
@_accept_counts_alone
def repeat_interleave(
    input: Tensor, repeats: Tensor | float, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Repeat each element, or each slice along `dim`, `repeats` times in a row, or as often as its own count says.

    With counts alone, return each position as often as its count says.

    Raises: RuntimeError if `output_size` is not the size along `dim`.
    """
    out = _repeat_elements(input, repeats, dim)
    if output_size is not None and out.array.shape[0 if dim is None else dim] != output_size:
        raise RuntimeError(f"repeat_interleave: allocated size does not match required size: {output_size}")
    return out


def _repeat_positions(size: int, repeats: Tensor) -> Tensor:
    counts = repeats.numpy_view("repeat_interleave()")
    if counts.size and counts.min() < 0:
        raise RuntimeError("repeats can not be negative")
    return wrap(np.repeat(np.arange(size, dtype=np.int64), counts.astype(np.intp, copy=False)))


def _repeat_elements(input: Tensor, repeats: Tensor | float, dim: int | None) -> Tensor:
    if isinstance(repeats, Tensor):
        if repeats.ndim > 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        if repeats.array.dtype not in (np.int32, np.int64):
            raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{scalar_type(repeats.dtype)}'")
    x = ravel(input) if dim is None else input
    d = 0 if dim is None else one_dim(dim, x.ndim)
    if isinstance(repeats, Tensor):
        size = x.array.shape[d] if x.ndim else 1
        if repeats.numel() not in (1, size):
            raise RuntimeError(
                "repeats must have the same size as input along dim, but got "
                f"repeats.size(0) = {repeats.numel()} and input.size({d}) = {size}"
            )
        at = call_on_values(lambda repeats: _repeat_positions(size, repeats), repeats)
        return indexing.index(x, at, pattern=(None,) * d + (0,))
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    shape = x.array.shape
    spread = movement.expand(unsqueeze(x, d + 1), shape=(*shape[: d + 1], repeats, *shape[d + 1 :]))
    return _copy_if_view(movement.reshape(spread, shape=(*shape[:d], shape[d] * repeats, *shape[d + 1 :])))
