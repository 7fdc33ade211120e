"""Tensors joined, split and repeated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any, cast

import numpy as np

from adjoint.core.dtype.dtype import promote
from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.op.apply import apply
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.op.signature import parameters_of
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.shape.shape import ravel, unsqueeze
from adjoint.ops.elementwise import select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement
from adjoint.ops.movement import split as pieces

__all__ = [
    "cat", "chunk", "concat", "concatenate", "hstack", "repeat_interleave", "split", "stack", "tile", "unbind",
    "vstack",
]  # fmt: skip


@public(method=False)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return the tensors joined along an existing dimension.

    Args:
        tensors: list or tuple of tensors, equal in all sizes but that of `dim`; different dtypes are promoted.
        dim: dimension to join along. Default: 0.
        out: tensor that takes the result.

    Raises: RuntimeError, with the two sizes, if they do not fit; ValueError for an empty list.

    Example:
        >>> ad.cat([ad.zeros(1, 2), ad.ones(1, 2)], dim=1)
        tensor([[0., 0., 1., 1.]])
    """
    if type(tensors) is list and _is_uniform(tensors):
        rank = len(tensors[0].array.shape)
        return apply(movement.cat.op, tuple(tensors), {"axis": one_dim(dim, rank)})  # type: ignore[attr-defined]
    if isinstance(tensors, Tensor):
        raise TypeError("cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    if not len(tensors):
        raise ValueError("cat(): expected a non-empty list of Tensors")
    for i, part in enumerate(tensors):
        if not isinstance(part, Tensor):
            raise TypeError(f"cat(): expected Tensor as element {i} in argument 0, but got {type(part).__name__}")
    kinds = {p.array.dtype for p in tensors}
    target = kinds.pop() if len(kinds) == 1 else promote(p.array for p in tensors)
    # an empty vector joins with anything, for it is how people start a list
    parts = [p for p in tensors if p.array.shape != (0,)] or list(tensors[:1])
    first = parts[0].array.shape
    if not first:
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    axis = 0 if first == (0,) else one_dim(dim, len(first))
    before, after = first[:axis], first[axis + 1 :]
    for i, part in enumerate(parts):
        shape = part.array.shape
        if shape[:axis] == before and shape[axis + 1 :] == after:
            continue
        if len(shape) != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
        for d, (a, b) in enumerate(zip(first, shape, strict=True)):
            if a != b and d != axis:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {axis}. Expected size {a} but got size {b} for "
                    "tensor "
                    f"number {i} in the list."
                )
    parts = [p if p.array.dtype == target else select.cast(p, dtype=target) for p in parts]
    return apply(movement.cat.op, tuple(parts), {"axis": axis})  # type: ignore[attr-defined]


def _is_uniform(parts: list[Tensor]) -> bool:
    """True for some tensors of one type and one shape, which is neither that of a number nor of an empty vector."""
    first = getattr(parts[0], "array", None) if parts else None
    if first is None or first.shape in ((), (0,)):
        return False
    shape, dtype = first.shape, first.dtype
    for part in parts:
        if type(part) is not Tensor or part.array.shape != shape or part.array.dtype is not dtype:
            return False
    return True


concat = concatenate = cat


@public(method=False)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new dimension.

    Args:
        tensors: list or tuple of tensors.
        dim: place of the new dimension in the result. Default: 0.
        out: tensor that takes the result.

    Raises: RuntimeError if the shapes differ and for an empty list.

    Example:
        >>> ad.stack([ad.tensor([1, 2]), ad.tensor([3, 4])], dim=1)
        tensor([[1, 3],
                [2, 4]])
    """
    parts = list(tensors)
    if not parts:
        raise RuntimeError("stack expects a non-empty TensorList")
    shape, dtype, mixed = parts[0].array.shape, parts[0].array.dtype, False
    for i, part in enumerate(parts):
        if part.array.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(part.array.shape)} at entry {i}"
            )
        mixed = mixed or part.array.dtype != dtype
    axis = one_dim(dim, len(shape) + 1)
    if mixed:
        return cat([unsqueeze(part, axis) for part in parts], axis)
    return _stack(*parts, axis=axis)


def _stack_composite(*tensors: Any, axis: int) -> Any:
    return movement.cat(*[unsqueeze(part, axis) for part in tensors], axis=axis)


@with_eager_fast_path(
    composite=_stack_composite,
    node="StackBackward0",
    linear=True,
    dtensors=lambda g, i, axis: movement.select(g, axis=axis, at=i),
)
def _stack(*tensors: Any, axis: int) -> Any:
    shape = tensors[0].shape
    if not axis and len(tensors) < 8 and all(part.flags.c_contiguous for part in tensors):
        return np.array(tensors)  # half the time for few of them, but no way to copy what lies otherwise
    column = (*shape[:axis], 1, *shape[axis:])
    return np.asarray(np.concatenate([part.reshape(column) for part in tensors], axis), order="C")


@with_out
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dimension 1, vectors along dimension 0; numbers become vectors."""
    check_tensor_list("hstack", tensors)
    parts = [part if part.ndim else ravel(part) for part in tensors]
    return cat(parts, 0 if parts and parts[0].ndim < 2 else 1)


@with_out
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dimension 0; vectors become rows."""
    check_tensor_list("vstack", tensors)
    return cat([movement.reshape(part, shape=(1, part.numel())) if part.ndim < 2 else part for part in tensors], 0)


def check_tensor_list(name: str, tensors: Sequence[Tensor]) -> None:
    """Raise RuntimeError for an empty list, TypeError for anything but a list or tuple of tensors."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
        )
    for i, part in enumerate(tensors):
        if not isinstance(part, Tensor):
            raise TypeError(f"{name}(): expected Tensor as element {i} in argument 0, but got {type(part).__name__}")
    if not len(tensors):
        raise RuntimeError(f"{name} expects a non-empty TensorList")


@public()
def split(
    tensor: Tensor, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> tuple[Tensor, ...]:
    """Return the pieces of a tensor along `dim`, as a tuple of views.

    Args:
        tensor: tensor to cut.
        split_size_or_sections: size of every piece but the last, which may be smaller; or the list of all sizes.
        dim: dimension to cut. Default: 0.
        split_size: another name of `split_size_or_sections`.

    Raises: RuntimeError unless the listed sizes add up to that of `dim`.

    Example:
        >>> x = ad.arange(5)
        >>> x.split(2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
        >>> x.split([1, 4])
        (tensor([0]), tensor([1, 2, 3, 4]))
    """
    if split_size_or_sections is None:
        split_size_or_sections = split_size
    if split_size_or_sections is None:
        raise TypeError('split() missing 1 required positional arguments: "split_size"')
    axis = one_dim(dim, tensor.ndim)
    size = tensor.array.shape[axis]
    called: type[pieces.SplitOutputs] = pieces.SplitBackward0
    if isinstance(split_size_or_sections, int):
        sections = _equal_sections(split_size_or_sections, size)
    else:
        called = pieces.SplitWithSizesBackward0
        sections = list(split_size_or_sections)
        if sum(sections) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension "
                f"{axis}), "
                f"but got split_sizes={sections}"
            )
    return pieces.split(tensor, sections, axis, called)


def _equal_sections(step: int, size: int) -> list[int]:
    if step < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={step}")
    if step == 0 and size:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}")
    return [min(step, size - i) for i in range(0, size, step or 1)] or [0]


@public()
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return at most `chunks` pieces of equal size along `dim`, as a tuple of views.

    Args:
        input: tensor to cut.
        chunks: number of pieces; there are fewer if the size of `dim` rounded up to full pieces needs no more.
        dim: dimension to cut. Default: 0.

    Raises: RuntimeError unless `chunks` is positive.

    Example:
        >>> ad.chunk(ad.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    axis = one_dim(dim, input.ndim)
    size = input.array.shape[axis]
    if size == 0:
        return split(input, [0] * chunks, dim)
    return pieces.split(input, _equal_sections(-(-size // chunks), size), axis, pieces.SplitBackward0)


@public()
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along `dim`, without it. Raises IndexError for a 0-d tensor."""
    axis = one_dim(dim, input.ndim)
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return pieces.unbind(input, axis)


@public(varargs_ints=True)
def tile(input: Tensor, dims: Any) -> Tensor:
    """The tensor repeated `dims[i]` times along dimension i, counted from the last."""
    counts = (1,) * (input.ndim - len(dims)) + dims
    shape = (1,) * (len(counts) - input.ndim) + tuple(input.array.shape)
    paired = movement.reshape(input, shape=tuple(k for n in shape for k in (1, n)))
    spread = movement.expand(paired, shape=tuple(k for c, n in zip(counts, shape, strict=True) for k in (c, n)))
    out = movement.reshape(spread, shape=tuple(c * n for c, n in zip(counts, shape, strict=True)))
    return rename_node(_copy_if_view(out), "RepeatBackward0")


def _copy_if_view(x: Tensor) -> Tensor:
    """x, or a copy where a reshape found that it could repeat elements without copying."""
    return select.copy(x) if x._is_view() else x


@public(varargs_ints=True)
def repeat(self: Tensor, repeats: Any) -> Tensor:
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


def _accept_counts_alone(function: Any) -> Any:
    """`function`, which with its first argument alone takes that for counts: of each position as many."""

    @wraps(function)
    def call(*args: Any, **named: Any) -> Tensor:
        counts = named.pop("repeats") if not args and "input" not in named else None
        if counts is None and len(args) == 1 and "repeats" not in named and "dim" not in named:
            counts, args = args[0], ()
        if counts is None:
            return cast("Tensor", function(*args, **named))
        return cast("Tensor", function(constant(np.arange(counts.numel())), counts, 0, **named))

    call.parameters = parameters_of(function).positional  # type: ignore[attr-defined]
    return call


@public()
@_accept_counts_alone
def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each element, or each slice along `dim`, repeated `repeats` times in a row, or as often as its own count says.

    Of counts alone, each position as often as its count says. Raises RuntimeError where an `output_size` is given
    which is not the size along `dim`.
    """
    out = _repeat_elements(input, repeats, dim)
    if output_size is not None and out.array.shape[0 if dim is None else dim] != output_size:
        raise RuntimeError(f"repeat_interleave: allocated size does not match required size: {output_size}")
    return out


def _repeat_elements(input: Tensor, repeats: Any, dim: int | None) -> Tensor:
    if isinstance(repeats, Tensor):
        if repeats.ndim > 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        if repeats.array.dtype not in (np.int32, np.int64):
            raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{scalar_type(repeats.dtype)}'")
    x = ravel(input) if dim is None else input
    d = 0 if dim is None else one_dim(dim, x.ndim)
    if isinstance(repeats, Tensor):
        counts, size = repeats.numpy_view("repeat_interleave()"), x.array.shape[d] if x.ndim else 1
        if counts.size not in (1, size):
            raise RuntimeError(
                "repeats must have the same size as input along dim, but got "
                f"repeats.size(0) = {counts.size} and input.size({d}) = {size}"
            )
        if counts.size and counts.min() < 0:
            raise RuntimeError("repeats can not be negative")
        at = constant(np.repeat(np.arange(size), counts))
        return apply(indexing.index.op, (x, at), {"pattern": (None,) * d + (0,)})  # type: ignore[attr-defined]
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    shape = x.array.shape
    spread = movement.expand(unsqueeze(x, d + 1), shape=(*shape[: d + 1], repeats, *shape[d + 1 :]))
    return _copy_if_view(movement.reshape(spread, shape=(*shape[:d], shape[d] * repeats, *shape[d + 1 :])))
