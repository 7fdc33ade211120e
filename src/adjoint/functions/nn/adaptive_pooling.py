"""Adaptive, fractional and power-average pooling."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.core.random.generator import default_generator
from adjoint.core.tensor.size import has_symbolic
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, Operand
from adjoint.functions.api.channels_last import preserve_channels_last
from adjoint.functions.api.compute_dtype import autocast_float32, in_float32
from adjoint.functions.api.publish import rename_node
from adjoint.functions.nn.per_rank import per_rank, with_indices
from adjoint.functions.nn.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    gather_at_flat,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from adjoint.functions.shape.join import cat
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement
from adjoint.ops.random import draws
from adjoint.ops.reduction import reduction

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "lp_pool1d",
    "lp_pool2d", "lp_pool3d",
]  # fmt: skip
MAX_POOLS = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}
AVG_POOLS = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}


@preserve_channels_last
def _adaptive_max_pool(
    rank: int, input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Any:
    """Return the largest elements of as many windows as `output_size` says, which may overlap.

    None in `output_size` keeps a dimension. With `return_indices` the flat index in ({sizes}) of each maximum comes
    second.

    Shapes:
        input (…, {sizes}) -> (…, *output_size)
    """
    name, shape, lead = f"adaptive_max_pool{rank}d", input.array.shape, input.ndim - rank
    sizes = adaptive_sizes(name, rank, input, output_size)
    if not all(sizes) or not input.numel():
        empty = make_empty_pool(name, input, sizes)
        return (empty, select.cast(empty.detach(), dtype=np.dtype(np.int64))) if return_indices else empty
    if has_symbolic(*shape[lead:]) and not has_symbolic(*sizes) and not return_indices:
        return _max_pool_parts(rank, input, sizes)
    if not return_indices and all(n % s == 0 for n, s in zip(shape[lead:], sizes, strict=True)):
        widths = tuple(n // s for n, s in zip(shape[lead:], sizes, strict=True))
        return _max_pool_blocks("AdaptiveMaxPool", input, input, widths, [], False)
    parts = [_part_positions(n, s) for n, s in zip(shape[lead:], sizes, strict=True)]
    x: Operand = input
    for axis, (n, at) in enumerate(zip(shape[lead:], parts, strict=True), lead):
        if at.size != n:
            x = x.index_select(axis, constant(at.ravel()))
    tables = [constant(at.ravel()) for at in parts]
    widths = tuple(at.shape[1] for at in parts)
    return _max_pool_blocks("AdaptiveMaxPool", input, x, widths, tables, return_indices)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = per_rank(_adaptive_max_pool, "adaptive_max_pool{rank}d")
adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices = per_rank(
    with_indices(_adaptive_max_pool), "adaptive_max_pool{rank}d_with_indices"
)


@preserve_channels_last
def _adaptive_avg_pool(rank: int, input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Return the means over as many windows as `output_size` asks for.

    Along each dimension window i covers the elements ⌊i·n / n_out⌋ to ⌈(i + 1)·n / n_out⌉, the last excluded.

    Args:
        input: tensor of floating point numbers.
        output_size: int or tuple, the number of windows; None keeps the size of that dimension.

    Shapes:
        input (…, C, {sizes}) -> (…, C, {out_sizes})

    Raises: ValueError or RuntimeError for other numbers of dimensions.

    Example:
        >>> F.adaptive_avg_pool{rank}d(ad.ones(1, {fours}), 2).shape
        adjoint.Size([1, {twos}])
    """
    name = f"adaptive_avg_pool{rank}d"
    sizes = adaptive_sizes(name, rank, input, output_size)
    return average_parts(input, sizes) if all(sizes) else make_empty_pool(name, input, sizes)


def average_parts(x: Operand, sizes: Sequence[int]) -> Tensor:
    """Average the last dimensions of x over parts, of which there are `sizes`."""
    if all(parts == 1 for parts in sizes):
        return reduction.mean(x, axes=tuple(range(x.ndim - len(sizes), x.ndim)), keepdims=True)
    for d, parts in enumerate(sizes, x.ndim - len(sizes)):
        shape = x.array.shape
        n = shape[d]
        # not asked of a size that is another in each call, unless the number of parts is so too
        if (has_symbolic(parts) or not has_symbolic(n)) and n % parts == 0:
            apart = movement.reshape(x, shape=(*shape[:d], parts, n // parts, *shape[d + 1 :]))
            x = reduction.mean(apart, axes=(d + 1,), keepdims=False)
            continue
        bounds = _split_into_parts(n, parts)
        x = cat([reduction.mean(x.narrow(d, a, b - a), axes=(d,), keepdims=True) for a, b in bounds], d)
    return x


adaptive_avg_pool1d, adaptive_avg_pool2d = per_rank(in_float32(_adaptive_avg_pool), "adaptive_avg_pool{rank}d")[:2]
adaptive_avg_pool3d = per_rank(autocast_float32(_adaptive_avg_pool), "adaptive_avg_pool{rank}d")[2]


def adaptive_sizes(name: str, rank: int, input: Tensor, output_size: int | Sequence[int | None] | None) -> list[int]:
    """Return the number of parts of each of the last `rank` dimensions. Raises as PyTorch does for impossible sizes."""
    shape = input.array.shape
    if rank > 1 and input.ndim <= rank and isinstance(output_size, (tuple, list)):
        raise ValueError(f"Input dimension should be at least {rank + 1}")
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got {list(shape)}")
    given: Operand = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * rank
    if len(given) != rank:
        raise RuntimeError(f"{name}(): output_size must have {rank} numbers, not {len(given)}")
    sizes = [n if s is None else s for n, s in zip(shape[-rank:], given, strict=True)]
    if any(s < 0 for s in sizes):
        raise RuntimeError(f"{name}(): elements of output_size must be greater than or equal to 0, got {sizes}")
    if input.array.dtype.kind not in "fV":
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype}')
    made = [*shape[:-rank], *sizes]
    if math.prod(made) * input.array.dtype.itemsize > sys.maxsize:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={made}")
    if not all(shape[1:]):
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{list(shape)}"
        )
    return sizes


def make_empty_pool(name: str, input: Tensor, sizes: list[int]) -> Tensor:
    """Return the empty result of pooling. Of no parts, a backward pass raises RuntimeError, as PyTorch does."""
    lead = input.array.shape[: input.ndim - len(sizes)]
    kept = [min(n, s) for n, s in zip(input.array.shape[len(lead) :], sizes, strict=True)]
    out: Operand = movement.slice(input, bounds=tuple((0, n, 1) for n in (*lead, *kept)))
    more = tuple((0, s - n) for s, n in zip(sizes, kept, strict=True))
    out = movement.pad(out, widths=((0, 0),) * len(lead) + more)

    def refuse(g: Operand) -> None:
        raise RuntimeError(
            f"{name}_backward(): Expected grad_output to have non-zero size for non-batch dimensions, but grad_output "
            f"has sizes {list(g.array.shape)}"
        )

    if out.requires_grad and not all(sizes):
        out.register_hook(refuse)
    return out


def _part_positions(length: int, parts: int) -> Array:
    """Return the elements under each of as many parts: (parts, most); shorter parts repeat their last element."""
    numbers = np.arange(parts, dtype=np.int64)
    starts, ends = numbers * length // parts, -(-(numbers + 1) * length // parts)
    taps = np.arange((ends - starts).max())
    return np.minimum(starts[:, None] + taps, ends[:, None] - 1)


def _split_into_parts(length: int, parts: int) -> list[tuple[int, int]]:
    """Return where each of as many parts begins and ends."""
    return [(i * length // parts, -(-(i + 1) * length // parts)) for i in range(parts)]


def _max_pool_parts(rank: int, x: Operand, sizes: Sequence[int]) -> Operand:
    """Return the largest elements of parts, one dimension after the other: of equal ones the first of all."""
    for d in reversed(range(x.ndim - rank, x.ndim)):
        parts = _split_into_parts(x.array.shape[d], sizes[d - x.ndim + rank])
        x = cat([x.narrow(d, a, b - a).max(d, keepdim=True)[0] for a, b in parts], d)
    return x if rank == 1 else rename_node(x, f"AdaptiveMaxPool{rank}DBackward0")


def _max_pool_blocks(
    kind: str, input: Tensor, x: Operand, widths: Sequence[int], tables: list[Tensor], return_indices: bool
) -> Any:
    """Return the largest element of each block of x, made of slices of the input by tables, and its flat index."""
    rank = len(widths)
    node = f"{kind}{rank}DBackward0"
    if not return_indices:
        out = MAX_POOLS[rank](x, widths)
        return out if rank == 1 else rename_node(out, node)
    _, places = MAX_POOLS[rank](x.detach(), widths, return_indices=True)
    lead = input.ndim - rank
    lengths, sizes = input.array.shape[lead:], x.array.shape[lead:]
    where: Operand = 0
    stride, block = math.prod(lengths), math.prod(sizes)
    for table, length, size in zip(tables, lengths, sizes, strict=True):
        stride, block = stride // length, block // size
        along = arithmetic.remainder(arithmetic.floor_divide(places, block), size)
        where = where + _lookup_in_table(table, along) * stride
    out = gather_at_flat(input, where, rank)
    return out if rank == 1 else rename_node(out, node), where


def _lookup_in_table(table: Tensor, along: Operand) -> Operand:
    """Return the elements of a table (n,), or of one for each image (…, n), at `along` (…, P…)."""
    if table.ndim == 1:
        return indexing.index(table, along, pattern=(0,))
    lead = table.ndim - 1
    flat = movement.reshape(along, shape=(*along.array.shape[:lead], math.prod(along.array.shape[lead:])))
    return movement.reshape(indexing.gather(table, flat, axis=lead), shape=along.array.shape)


def _fractional_max_pool(
    rank: int,
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int | None] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the largest elements of windows that stand at random, in order.

    `output_ratio` gives the sizes as parts of the input's. With `return_indices` the flat index in ({sizes}) of each
    maximum comes second.

    Shapes:
        input (…, C, {sizes}) -> (…, C, *output_size)

    Raises: ValueError unless one of `output_size` and `output_ratio` is given, RuntimeError where windows do not fit.

    Source: Graham, 2014.
    """
    name = f"fractional_max_pool{rank}d"
    shape = input.array.shape
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(f"{name}: Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(shape)}")
    if any(not n for n in shape[input.ndim - rank - 1 :]):
        raise RuntimeError(f"{name}: Expected input to have non-zero size for non-batch dimensions, got {list(shape)}")
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
        if len(ratios) != rank:
            raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = [int(n * r) for n, r in zip(shape[-rank:], ratios, strict=True)]
    sizes, widths = (
        _check_per_dimension(name, rank, output_size, "output_size"),
        _check_per_dimension(name, rank, kernel_size, "kernel_size"),
    )
    if input.ndim == rank + 1:
        out = _fractional_max_pool(rank, input.unsqueeze(0), widths, sizes, None, return_indices, _random_samples)
        return tuple(part.squeeze(0) for part in out) if return_indices else out.squeeze(0)
    for side, n, s, k in zip(("time", "height", "width")[-rank:], shape[2:], sizes, widths, strict=True):
        if s < 0 or k < 1:
            raise RuntimeError(f"{name}: sizes of windows and results must not be negative, but got {widths}, {sizes}")
        if s + k - 1 > n:
            raise RuntimeError(f"{name}(): pool {side} {k} too large relative to input {side} {n}, for {s} windows")
    if not all(sizes):
        empty = movement.slice(input, bounds=tuple((0, n, 1) for n in (*shape[:2], *sizes)))
        return (empty, select.cast(empty.detach(), dtype=np.dtype(np.int64))) if return_indices else empty
    samples = _random_samples
    if samples is None:
        drawn = (*shape[:2], rank)
        samples = draws.uniform(shape=drawn, dtype=input.array.dtype, low=0.0, high=1.0, generator=default_generator)
    if samples.ndim == 3 and samples.array.shape[0] > shape[0]:
        samples = samples.narrow(0, 0, shape[0])
    if tuple(samples.array.shape) != (*shape[:2], rank):
        raise RuntimeError(f"Expect _random_samples of shape {[*shape[:2], rank]}, got {list(samples.array.shape)}")
    x: Operand = input
    tables = []
    for d, (n, s, k) in enumerate(zip(shape[2:], sizes, widths, strict=True)):
        at = _fractional_positions(samples.select(2, rank - 1 - d if rank == 2 else d), n, s, k)  # (N, C, s·k)
        tables.append(at)
        wide = movement.reshape(at, shape=(*shape[:2], *(s * k if e == d else 1 for e in range(rank))))
        sides = list(x.array.shape)
        sides[2 + d] = s * k
        x = indexing.gather(x, movement.expand(wide, shape=tuple(sides)), axis=2 + d)
    return _max_pool_blocks("FractionalMaxPool", input, x, widths, tables, return_indices)


def _check_per_dimension(name: str, rank: int, value: Operand, what: str) -> tuple[int, ...]:
    """Return `value` for each dimension. Raises RuntimeError for another number of them."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
    if len(given) != rank:
        count = "" if rank == 2 else "three "
        raise RuntimeError(f"{name}: {what} must either be a single Int or tuple of {count}Ints, but got {value!r}")
    return given


def _fractional_positions(sample: Operand, length: int, parts: int, width: int) -> Operand:
    """Return the elements under each window: the i-th begins at ⌊(i + u) a⌋ - ⌊u a⌋, the last ends at the end."""
    step = (length - width) / (parts - 1) if parts > 1 else 0.0
    numbers = constant(np.arange(parts - 1, dtype=sample.array.dtype))
    u = sample.unsqueeze(-1)
    integer = np.dtype(np.int64)
    begun = select.cast((u + numbers) * step, dtype=integer) - select.cast(u * step, dtype=integer)
    last = movement.expand(constant(np.asarray([length - width], np.int64)), shape=(*sample.array.shape, 1))
    starts = movement.cat(begun, last, axis=sample.ndim)
    taps = starts.unsqueeze(-1) + constant(np.arange(width, dtype=np.int64))
    return movement.reshape(taps, shape=(*sample.array.shape, parts * width))


@in_float32
@preserve_channels_last
def _lp_pool(
    rank: int,
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | tuple[int, ...] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return (Σ xᵖ)^(1/p) over each window, with p = `norm_type`; the largest |x| for p = ∞.

    Shapes:
        input (N, C, {sizes}) -> (N, C, {out_sizes}); the batch dimension N is optional
    """
    p = norm_type
    if math.isinf(p):
        size = arithmetic.abs(input)
        largest = MAX_POOLS[rank](size if p > 0 else -size, kernel_size, stride, 0, 1, ceil_mode)
        return largest if p > 0 else -largest
    mean = AVG_POOLS[rank](arithmetic.pow(input, p), kernel_size, stride, 0, ceil_mode)
    kept = arithmetic.mul(arithmetic.sign(mean), arithmetic.abs(mean).relu())
    count = math.prod(kernel_size) if isinstance(kernel_size, Sequence) else kernel_size**rank
    return arithmetic.pow(kept * count, 1.0 / p)


fractional_max_pool2d, fractional_max_pool3d = per_rank(_fractional_max_pool, "fractional_max_pool{rank}d")[1:]
fractional_max_pool2d_with_indices, fractional_max_pool3d_with_indices = per_rank(
    with_indices(_fractional_max_pool), "fractional_max_pool{rank}d_with_indices"
)[1:]
lp_pool1d, lp_pool2d, lp_pool3d = per_rank(_lp_pool, "lp_pool{rank}d")
