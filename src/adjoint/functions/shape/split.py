"""Tensors split along a dimension: into views, or into tensors that may be written in place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.graph.node import OutputSlot
from adjoint.core.tensor.size import has_symbolic
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.publish import public
from adjoint.functions.shape.shape import narrow
from adjoint.ops import multi_output
from adjoint.ops.movement import split as pieces

__all__ = [
    "chunk", "dsplit", "hsplit", "split", "split_with_sizes", "tensor_split", "unbind", "unsafe_chunk", "unsafe_split",
    "unsafe_split_with_sizes", "vsplit",
]  # fmt: skip


@public()
def split(
    tensor: Tensor,
    split_size_or_sections: int | Sequence[int] | None = None,
    dim: int = 0,
    *,
    split_size: int | Sequence[int] | None = None,
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
    lengths = tensor.array.shape
    axis = one_dim(dim, len(lengths))
    size = lengths[axis]
    called: type[pieces.SplitOutputs] = pieces.SplitBackward0
    if isinstance(split_size_or_sections, int):
        sections = _equal_sections(split_size_or_sections, size)
    else:
        called = pieces.SplitWithSizesBackward0
        sections = tuple(split_size_or_sections)
        if sum(sections) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension "
                f"{axis}), but got split_sizes={list(sections)}"
            )
    return pieces.split(tensor, sections, axis, called)


@lru_cache(256)
def _equal_sections(step: int, size: int) -> tuple[int, ...]:
    if step < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={step}")
    if step == 0 and size:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}")
    if not has_symbolic(step, size):
        return tuple([min(step, size - i) for i in range(0, size, step or 1)]) or (0,)
    pieces = [step]
    while sum(pieces) < size:
        pieces.append(step)
    return (*pieces[:-1], size - sum(pieces[:-1]))


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
    shape = input.array.shape
    axis = one_dim(dim, len(shape))
    size = shape[axis]
    if size == 0:
        return split(input, [0] * chunks, dim)
    return pieces.split(input, _equal_sections(-(-size // chunks), size), axis, pieces.SplitBackward0)


@public()
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along `dim`, without it. Raises IndexError for a 0-d tensor."""
    rank = len(input.array.shape)
    axis = one_dim(dim, rank)
    if not rank:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return pieces.unbind(input, axis)


class UnsafeSplitBackward0(pieces.SplitBackward0):
    """Of `unsafe_split` and `unsafe_chunk`."""

    __slots__ = ()


class UnsafeSplitWithSizesBackward0(pieces.SplitWithSizesBackward0):
    """Of `unsafe_split_with_sizes`."""

    __slots__ = ()


@public()
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return the pieces of these sizes along `dim`."""
    return split(input, list(split_sizes), dim)


@public()
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return `split`, whose pieces may be written in place: each has memory of its own."""
    return _separate_parts(split(input, split_size, dim), UnsafeSplitBackward0)


@public()
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return `split_with_sizes`, whose pieces may be written in place: each has memory of its own."""
    return _separate_parts(split_with_sizes(input, split_sizes, dim), UnsafeSplitWithSizesBackward0)


@public()
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return `chunk`, whose pieces may be written in place: each has memory of its own."""
    return _separate_parts(chunk(input, chunks, dim), UnsafeSplitBackward0)


def _separate_parts(parts: tuple[Tensor, ...], called: type[pieces.SplitOutputs]) -> tuple[Tensor, ...]:
    for part in parts:
        if type(part.node) is OutputSlot:
            part.node.owner.__class__ = called
    return multi_output.separate_memory(parts)


@public()
def tensor_split(
    input: Tensor,
    indices_or_sections: Tensor | int | Sequence[int] | None = None,
    dim: int = 0,
    *,
    indices: Operand = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:
    """Return a number of pieces along `dim`, the first ones longer by one, or the pieces between listed positions.

    `indices` are positions, `sections` how many pieces.

    Raises: RuntimeError for a number of pieces below 1 and for a 0-d tensor.
    """
    given = [each for each in (indices_or_sections, indices, sections) if each is not None]
    if len(given) != 1:
        raise TypeError("tensor_split(): one of indices_or_sections, indices and sections must be given")
    (indices_or_sections,) = given
    if not input.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    size = input.array.shape[one_dim(dim, input.ndim)]
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, "
                f"but got a tensor with {indices_or_sections.ndim} dims"
            )
        if indices_or_sections.array.dtype != np.int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, "
                f"but got {scalar_type(indices_or_sections.dtype)}"
            )
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        n = indices_or_sections
        if n <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {n}")
        bounds = [i * (size // n) + min(i, size % n) for i in range(n + 1)]
    else:
        several = isinstance(indices_or_sections, Sequence) and not isinstance(indices_or_sections, str)
        places: Operand = indices_or_sections if several else (indices_or_sections,)
        wrong = [p for p in places if not hasattr(p, "__index__")]
        if wrong:
            raise TypeError(
                "tensor_split(): indices_or_sections must be an int, a tuple of ints or a tensor, "
                f"got {type(wrong[0]).__name__}"
            )
        bounds = [0, *(min(max(p + size if p < 0 else p, 0), size) for p in places), size]
    return tuple(narrow(input, dim, a, max(b - a, 0)) for a, b in pairwise(bounds))


def _make_named_split(name: str, least: int, dim: Function) -> Function:
    def call(input: Tensor, indices_or_sections: Tensor | int | Sequence[int]) -> tuple[Tensor, ...]:
        if input.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {input.ndim} "
                "dimensions!"
            )
        d = dim(input)
        n, size = indices_or_sections, input.array.shape[d]
        if isinstance(n, int) and (n <= 0 or size % n):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {d}, but the size of the dimension {size} is not "
                f"divisible by the split_size {n}!"
            )
        return tensor_split(input, indices_or_sections, d)

    call.__name__ = call.__qualname__ = name
    where = "1, of a vector 0" if name == "hsplit" else dim(None)
    raised = f"Raises RuntimeError below {least} dimensions, and for a number of pieces of unequal size."
    call.__doc__ = f"`tensor_split` along dimension {where}. {raised}"
    return public()(call)


hsplit = _make_named_split("hsplit", 1, lambda x: 0 if x.ndim == 1 else 1)
vsplit = _make_named_split("vsplit", 2, lambda x: 0)
dsplit = _make_named_split("dsplit", 3, lambda x: 2)
