"""Pooling: one number for each window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from adjoint.core.tensor.size import has_symbolic
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand
from adjoint.functions.api.channels_last import preserve_channels_last
from adjoint.functions.api.compute_dtype import input_in_float32
from adjoint.functions.api.dim_args import per_dimension
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import rename_node
from adjoint.functions.creation.creation import arange
from adjoint.functions.nn.per_rank import per_rank, with_indices
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement
from adjoint.ops.movement.memory_format import copy_in_order
from adjoint.ops.nn.pooling import max_pool, window_argmax, window_sum
from adjoint.ops.reduction import reduction

__all__ = ["avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d"]
__all__ += ["max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices"]

Sizes = tuple[int, ...]
PLAIN_TYPES = frozenset({int, NoneType})
CHANNELS_LAST_ORDER = (1, 2, 3, 0)  # (C, D, H, W) with the channels last


class Geometry(NamedTuple):
    """Windows along each pooled dimension; `extra` elements behind the padding complete the last one."""

    size: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    extra: Sizes


def _geometry(
    name: str,
    rank: int,
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | tuple[int, ...] | None,
    padding: int | tuple[int, ...],
    dilation: int | tuple[int, ...],
    ceil_mode: bool,
) -> Geometry:
    """Return the settings in one form. Raises RuntimeError if they do not fit each other or the input."""
    settings = (kernel_size, stride, padding, dilation)
    # symbols of a traced step are not asked whether they are equal to what was given before
    is_plain = type(input.array) is np.ndarray
    for value in settings:
        if type(value) is tuple:
            is_plain = is_plain and all(type(n) is int for n in value)
        elif type(value) not in PLAIN_TYPES:
            is_plain = False
    find = _find_geometry if is_plain else _find_geometry.__wrapped__
    return find(name, rank, tuple(input.array.shape), *settings, ceil_mode)


@lru_cache(512)
def _find_geometry(
    name: str,
    rank: int,
    shape: Sizes,
    kernel_size: int | Sequence[int],
    stride: int | tuple[int, ...] | None,
    padding: int | tuple[int, ...],
    dilation: int | tuple[int, ...],
    ceil_mode: bool,
) -> Geometry:
    if len(shape) not in (rank + 1, rank + 2):
        ranks = f"{rank + 1}D or {rank + 2}D (batch mode) tensor"
        raise RuntimeError(f"{name}: non-empty {ranks} expected for input, but got {len(shape)}D of shape {shape}")
    if not all(shape[-rank - 1 :]):
        raise RuntimeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(shape)}"
        )
    size = per_dimension(kernel_size, rank, "kernel_size")
    steps = size if stride is None or stride in ([], ()) else per_dimension(stride, rank, "stride")
    frame, gaps = per_dimension(padding, rank, "padding"), per_dimension(dilation, rank, "dilation")
    for what, values in (("kernel_size", size), ("stride", steps), ("dilation", gaps)):
        if any(v < 1 for v in values):
            raise RuntimeError(f"{name}: {what} must be greater than zero, but got {what}={values}")
    reach = tuple(d * (k - 1) + 1 for k, d in zip(size, gaps, strict=True))
    if any(p < 0 or 2 * p > r for p, r in zip(frame, reach, strict=True)):
        raise RuntimeError(
            f"{name}: pad should be at most half of effective kernel size, but got pad={frame}, kernel_size={size} and "
            f"dilation={gaps}"
        )
    extra, places = [], []
    for n, r, s, p in zip(shape[-rank:], reach, steps, frame, strict=True):
        free = n + 2 * p - r
        missing = -free % s if ceil_mode else 0
        # The window that ceil_mode adds must start within the input or the padding in front: a long one does.
        if r < s + p and missing and (free // s + 1) * s >= n + p:
            missing = 0
        places.append((free + missing) // s + 1)
        extra.append(missing)
    if any(count < 1 for count in places):
        sizes = (shape[-rank:], [max(n, 0) for n in places])
        given, found = ("x".join(map(str, (shape[-rank - 1], *size))) for size in sizes)
        raise RuntimeError(
            f"{name}: Given input size: ({given}). Calculated output size: ({found}). Output size is too small"
        )
    return Geometry(size, steps, frame, gaps, tuple(extra))


@preserve_channels_last
def _max_pool(
    rank: int,
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window; of equal elements the first takes the gradient.

    `ceil_mode` adds last windows that reach over the end. With `return_indices` the flat index in ({sizes}) of each
    maximum comes second.

    Shapes:
        input (N, C, {sizes}) -> (N, C, {out_sizes}); the batch dimension N is optional

    Raises: RuntimeError for windows that do not fit the input.
    """
    if input.array.dtype.kind == "b":
        raise NotImplementedError(f'"max_pool{rank}d" not implemented for {input.dtype}')
    geometry = _geometry(f"max_pool{rank}d", rank, input, kernel_size, stride, padding, dilation, ceil_mode)
    if not return_indices:
        return _name_max_pool_node(rank, max_pool(input, **geometry._asdict()), input)
    places = window_argmax(input.detach(), **geometry._asdict())
    framed = any(geometry.padding) or any(geometry.extra)
    if framed and max(geometry.dilation) > 1:  # windows may have no element
        out = max_pool(input, **geometry._asdict())
    else:
        out = gather_at_flat(input, places, rank)
    return _name_max_pool_node(rank, out, input), _name_max_pool_node(rank, places, input)


def _name_max_pool_node(rank: int, out: Tensor, input: Tensor) -> Tensor:
    """Name the node of `out` as PyTorch does; volumes without a batch keep their channels last."""
    x = input.array
    if rank == 3 and input.ndim == 4 and type(x) is np.ndarray and not x.flags.c_contiguous:
        out = (
            copy_in_order(out, order=CHANNELS_LAST_ORDER)
            if x.transpose(CHANNELS_LAST_ORDER).flags.c_contiguous
            else out
        )
    return out if rank == 1 else rename_node(out, f"MaxPool{rank}DWithIndicesBackward0")


def gather_at_flat(x: Tensor, places: Tensor, rank: int) -> Tensor:
    """Return the elements of x at flat `places` within its last `rank` dimensions."""
    lead = x.ndim - rank

    def flat(t: Tensor) -> Tensor:
        return movement.reshape(t, shape=(*t.array.shape[:lead], math.prod(t.array.shape[lead:])))

    return movement.reshape(indexing.gather(flat(x), flat(places), axis=lead), shape=places.array.shape)


max_pool1d, max_pool2d, max_pool3d = per_rank(_max_pool, "max_pool{rank}d")
max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = per_rank(
    with_indices(_max_pool), "max_pool{rank}d_with_indices"
)


@preserve_channels_last
def _avg_pool(
    rank: int,
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of (N, C, {sizes}), with the padding's zeros unless `count_include_pad` is False.

    `ceil_mode` adds last windows that reach over the end; `divisor_override` is what the sums are divided by instead of
    their number of elements. Raises RuntimeError for windows that do not fit the input.
    """
    name = f"avg_pool{rank}d"
    if input.array.dtype.kind not in "fV" and input.array.dtype != np.int64:
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype}')
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    geometry = _geometry(name, rank, input, kernel_size, stride, padding, 1, ceil_mode)
    out = _average_windows(geometry, input, count_include_pad, divisor_override)
    return out if rank == 1 else rename_node(out, f"AvgPool{rank}DBackward0")


def _average_windows(geometry: Geometry, input: Tensor, padded: bool, divisor: int | None) -> Tensor:
    lead = input.ndim - len(geometry.size)
    shape = tuple(input.array.shape[lead:])
    extra = has_symbolic(*geometry.extra) or any(geometry.extra)
    whole = input.array.dtype.kind == "i"
    # of a size that is another in each call it is not asked whether it is the number of a window's elements
    alike = all(type(n) is type(k) for n, k in zip(shape, geometry.size, strict=True)) and geometry.size == shape
    if not whole and divisor is None and alike and not extra and not any(geometry.padding):
        return reduction.mean(input, axes=tuple(range(lead, input.ndim)), keepdims=True)  # one window
    out = window_sum(input, **geometry._asdict())
    if divisor is not None:
        return _divide_truncating(out, divisor)
    if not extra and (padded or not any(geometry.padding)):
        return _divide_truncating(out, math.prod(geometry.size))
    places = tuple(out.array.shape[lead:])
    if has_symbolic(*shape, *places):
        counts = _count_elements_of_call(geometry, shape, places, padded)
        return _divide_truncating(out, select.cast(counts, dtype=input.array.dtype))
    known = _count_window_elements(geometry, shape, places, padded)
    return _divide_truncating(out, constant(known.astype(input.array.dtype)))


def _divide_truncating(total: Tensor, count: Tensor | float) -> Tensor:
    """Return total / count, truncated for integers."""
    if total.array.dtype.kind != "i":
        return total / (count if isinstance(count, Tensor) else float(count))
    size = arithmetic.floor_divide(
        arithmetic.abs(total), arithmetic.abs(count) if isinstance(count, Tensor) else abs(count)
    )
    signs = arithmetic.sign(total)
    return size * (signs if isinstance(count, Tensor) or count > 0 else -signs)


def _count_window_elements(geometry: Geometry, lengths: Sizes, places: Sizes, padded: bool) -> Operand:
    """Count the elements of the input, and of its padding if `padded`, that each window covers."""
    covered = []
    for count, k, s, p, n in zip(places, geometry.size, geometry.stride, geometry.padding, lengths, strict=True):
        starts = np.arange(count) * s - p
        first, end = (-p, n + p) if padded else (0, n)
        covered.append(np.minimum(starts + k, end) - np.maximum(starts, first))
    return math.prod(np.meshgrid(*covered, indexing="ij"))


def _count_elements_of_call(geometry: Geometry, lengths: Sizes, places: Sizes, padded: bool) -> Tensor:
    """Count what `_count_window_elements` does, for sizes that are others in each call of a compiled step."""
    total: Operand = 1
    settings = zip(places, geometry.size, geometry.stride, geometry.padding, lengths, strict=True)
    for d, (count, k, s, p, n) in enumerate(settings, 1 - len(places)):
        starts = arange(count) * s - p
        first, end = (-p, n + p) if padded else (0, n)
        covered = (starts + k).clamp(max=end) - starts.clamp(min=first)
        total = total * movement.reshape(covered, shape=(count, *(1,) * -d))
    return total


@input_in_float32
def avg_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window of (N, C, L), with the zeros of the padding unless `count_include_pad` is False.

    `ceil_mode` adds a last window that reaches over the end. Raises RuntimeError for windows that do not fit the input.
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


avg_pool2d, avg_pool3d = (with_out(input_in_float32(f)) for f in per_rank(_avg_pool, "avg_pool{rank}d")[1:])
