"""Sums and maxima of windows over the last dimensions, and their transposes.

Windows are given by one number for each dimension pooled: `size` taps, `dilation` apart, at every `stride`. There are
`padding` elements before and behind the input, and `extra` more behind. They count as 0 for a sum, and as less than all
others for a maximum. Of equal elements the first is the maximum, and NaN is largest.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from adjoint.core.op.eager_kernels import FixedShapes, LateKernel, kernel_provider
from adjoint.core.op.families import primitive
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.tensor import Tensor, detach
from adjoint.core.typing import Array, NumpyDtype, Operand
from adjoint.ops.movement.sliding_windows import Sizes, count_windows, tap_slices, windows


def pooled_shape(x: Operand, *, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes) -> Sizes:
    """The shape of x pooled: its leading dimensions, and the number of windows along each pooled one."""
    find = _find_pooled_shape if type(x) is np.ndarray else _find_pooled_shape.__wrapped__
    return find(tuple(x.shape), size, stride, padding, dilation, extra)


@functools.lru_cache(512)
def _find_pooled_shape(
    shape: Sizes, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes
) -> Sizes:
    rank = len(size)
    framed = [n + 2 * p + e for n, p, e in zip(shape[-rank:], padding, extra, strict=True)]
    return (*shape[:-rank], *map(count_windows, framed, size, stride, dilation))


MAX_FEW_TAPS = 16384  # upper bound of those of all windows
MIN_ROW = 16  # windows along the last dimension, for which NumPy's loop over a row pays
MIN_TILE_TAPS = 32  # taps of a window: of fewer, one call for each costs less than tiles that lie in one piece
MAX_NATIVE_ELEMENTS = 2**15  # of an image or all windows, for native code that is not made for its shape
SUM_WINDOWS, MAX_WINDOWS = LateKernel("sum_windows"), LateKernel("max_windows")
MAX_WINDOWS_GRADIENT = LateKernel("max_windows_gradient")
SECONDS_PER_CALL, SECONDS_PER_ELEMENT = 5e-5, 8e-9  # seconds that NumPy takes for a call, and an element of the images


def _estimate_seconds(*arrays: Array, lengths: Sizes | None = None, **_: object) -> float:
    """Estimate the seconds that NumPy takes; `lengths`: of the images that a gradient of sums is for."""
    count = max([x.size for x in arrays])
    if lengths is not None:
        g = arrays[0]
        count = max(count, math.prod(g.shape[: g.ndim - len(lengths)]) * math.prod(lengths))
    return SECONDS_PER_CALL + count * SECONDS_PER_ELEMENT


POOLING_COST = FixedShapes(_estimate_seconds)


@primitive(
    linear=True,
    family="pooling",
    batch_leading=True,
    native=POOLING_COST,
    spec=lambda x, **windows: Spec(pooled_shape(x, **windows), x.dtype),
    dx=lambda g, x_shape, size, stride, padding, dilation, extra: window_sum_input(
        g, lengths=x_shape[-len(size) :], size=size, stride=stride, padding=padding, dilation=dilation, extra=extra
    ),
)
def window_sum(x: Operand, *, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes) -> Array:
    """out[…, p…] = Σ x[…, p·stride + k·dilation - padding] over the taps k of a window."""
    shape = pooled_shape(x, size=size, stride=stride, padding=padding, dilation=dilation, extra=extra)
    settings = _find_native_settings(x.shape, shape, size, stride, padding, dilation)
    if settings is not None and math.prod(shape) > 1:  # NumPy adds up the taps of one window in pairs
        found = np.empty(shape, x.dtype)
        if SUM_WINDOWS.call(x, settings, found) is not None:
            return found
    framed = _pad_input(x, padding, extra, 0)
    few = _gather_few_taps(framed, size, stride, dilation)
    if few is not None:
        return np.add.reduce(few, 0, x.dtype, initial=0).reshape(shape)
    out = np.zeros(shape, x.dtype)
    for where in tap_slices(shape, size, stride, dilation):
        out += framed[where]
    return out


@primitive(
    linear=True,
    family="pooling",
    batch_leading=True,
    native=POOLING_COST,
    spec=lambda g, *, lengths, size, stride, padding, dilation, extra: Spec(
        (*g.shape[: len(g.shape) - len(size)], *lengths), g.dtype
    ),
    dg=lambda gg, size, stride, padding, dilation, extra: window_sum(
        gg, size=size, stride=stride, padding=padding, dilation=dilation, extra=extra
    ),
)
def window_sum_input(
    g: Operand, *, lengths: Sizes, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes
) -> Array:
    """The transpose of `window_sum`: each window's g added to all elements of it, in zeros of `lengths`."""
    lead = g.shape[: g.ndim - len(size)]
    framed = _padded_zeros((*lead, *lengths), padding, extra, g.dtype)
    if _are_few(framed, size) and _are_apart(size, stride, dilation):
        framed.reshape(-1)[_find_few_taps(framed.shape, size, stride, dilation)] = g.reshape(-1)
        return _crop_padding(framed, lengths, padding)
    for where in tap_slices(g.shape, size, stride, dilation):
        framed[where] += g
    return _crop_padding(framed, lengths, padding)


@primitive(
    family="pooling",
    batch_leading=True,
    native=POOLING_COST,
    spec=lambda x, **windows: Spec(pooled_shape(x, **windows), x.dtype),
    dx=lambda g, x, size, stride, padding, dilation, extra: max_pool_input(
        g, _detach_input(x), size=size, stride=stride, padding=padding, dilation=dilation, extra=extra
    ),
)
def max_pool(x: Operand, *, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes) -> Array:
    """The largest element of each window."""
    shape = pooled_shape(x, size=size, stride=stride, padding=padding, dilation=dilation, extra=extra)
    settings = _find_native_settings(x.shape, shape, size, stride, padding, dilation)
    if settings is not None:
        found = np.empty(shape, x.dtype)
        if MAX_WINDOWS.call(x, settings, found) is not None:
            return found
    tiles = _split_into_tiles(x, size, stride, padding, dilation, extra)
    if tiles is not None:
        return np.maximum.reduce(tiles, -1)
    framed = _pad_input(x, padding, extra, _lowest(x.dtype))
    few = _gather_few_taps(framed, size, stride, dilation) if shape[-1] < MIN_ROW else None
    if few is not None:
        return np.maximum.reduce(few, 0).reshape(shape)
    rank = len(size)
    for d in range(rank):  # the maxima along one dimension after the other, of the others as they are
        lengths = (*shape[x.ndim - rank : x.ndim - rank + d + 1], *framed.shape[x.ndim - rank + d + 1 :])
        taps, steps, gaps = [(*(1,) * d, s[d], *(1,) * (rank - d - 1)) for s in (size, stride, dilation)]
        first, *rest = tap_slices(lengths, taps, steps, gaps)
        source, framed = framed, framed[first]
        for i, where in enumerate(rest):
            framed = np.maximum(source[where], framed, out=framed if i else None)
    return framed.copy() if framed.base is not None else framed


@primitive(
    linear=True,
    family="pooling",
    batch_leading=True,
    native=POOLING_COST,
    spec=lambda g, x, **windows: Spec(x.shape, g.dtype),
    dg=lambda gg, x, size, stride, padding, dilation, extra: at_max(
        gg, _detach_input(x), size=size, stride=stride, padding=padding, dilation=dilation, extra=extra
    ),
)
def max_pool_input(
    g: Operand, x: Operand, *, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes
) -> Array:
    """The gradient of `max_pool` in x: each window's g added to the largest element of it, in zeros."""
    settings = _find_native_settings(x.shape, g.shape, size, stride, padding, dilation)
    if settings is not None:
        found = np.zeros(x.shape, g.dtype)
        if MAX_WINDOWS_GRADIENT.call(g, x, settings, found) is not None:
            return found
    winners = _winners(x, size, stride, padding, dilation, extra)
    if _are_large_tiles(x, size, stride, padding, dilation, extra):
        tiles = np.zeros((*g.shape, math.prod(size)), g.dtype)
        np.put_along_axis(tiles, winners[..., None], g[..., None], -1)
        return _join_tiles(tiles, x.shape, size)
    is_padded = any(padding) or any(extra)
    if _are_few(x, size) and _are_apart(size, stride, dilation) and not is_padded:
        out: Array = np.zeros(x.shape, g.dtype)
        table = _find_few_taps(x.shape, size, stride, dilation)
        out.reshape(-1)[table[winners.reshape(-1), np.arange(table.shape[1])]] = g.reshape(-1)
        return out
    framed = _padded_zeros(x.shape, padding, extra, g.dtype)
    bits = np.dtype(f"i{g.itemsize}")
    for i, where in enumerate(tap_slices(g.shape, size, stride, dilation)):
        framed[where] += (g.view(bits) & -(winners == i).astype(bits)).view(g.dtype)  # g there, else 0
    return _crop_padding(framed, x.shape[x.ndim - len(size) :], padding)


@primitive(
    linear=True,
    family="pooling",
    batch_leading=True,
    native=POOLING_COST,
    spec=lambda values, x, **windows: Spec(pooled_shape(x, **windows), values.dtype),
    dvalues=lambda g, x, size, stride, padding, dilation, extra: max_pool_input(
        g, _detach_input(x), size=size, stride=stride, padding=padding, dilation=dilation, extra=extra
    ),
)
def at_max(
    values: Operand, x: Operand, *, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes
) -> Array:
    """The value of each window at the place where x is largest."""
    winners = _winners(x, size, stride, padding, dilation, extra)
    tiles = _split_into_tiles(values, size, stride, padding, dilation, extra)
    if tiles is not None:
        return np.take_along_axis(tiles, winners[..., None], -1)[..., 0]
    framed = _pad_input(values, padding, extra, 0)
    out: Operand = np.zeros(winners.shape, values.dtype)
    for i, where in enumerate(tap_slices(winners.shape, size, stride, dilation)):
        _replace(out, framed[where], winners == i)
    return out


@primitive(spec=lambda x, **windows: Spec(pooled_shape(x, **windows), np.dtype(np.int64)), batch_leading=True)
def window_argmax(x: Operand, *, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes) -> Array:
    """The flat index, within the pooled dimensions, of each window's first largest element; NaN is largest.

    A window without any element has the index of the first one behind its beginning, or of the last.
    """
    winners = _winners(x, size, stride, padding, dilation, extra)
    return _locate_winners(x, winners, size, stride, padding, dilation, extra)


def _locate_winners(
    x: Array, winners: Array, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes
) -> Array:
    """Return the flat index, within the pooled dimensions, of the tap of each window that `winners` tells."""
    lead = x.ndim - len(size)
    lengths, places = tuple(x.shape[lead:]), tuple(winners.shape[lead:])
    reach, starts, inner = _find_flat_indices(lengths, places, size, stride, padding, dilation)
    at: Array = reach[winners]
    at += starts
    if any(padding) or any(extra):
        # Only of a window without elements the first tap wins from outside.
        np.copyto(at, inner, where=winners == 0)
    return at


@functools.lru_cache(256)
def _find_flat_indices(
    lengths: Sizes, places: Sizes, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> tuple[Array, Array, Array]:
    """Return how far each tap lies behind the first, where the windows begin, and the first element inside of each."""
    steps = [math.prod(lengths[d + 1 :]) for d in range(len(size))]
    reach = _grid([np.arange(k) * d * s for k, d, s in zip(size, dilation, steps, strict=True)])
    starts = [np.arange(n) * s - p for n, s, p in zip(places, stride, padding, strict=True)]
    first = zip(starts, dilation, lengths, steps, strict=True)
    inner = _grid([np.minimum(np.where(a < 0, a % d, a), n - 1) * s for a, d, n, s in first])
    return reach.ravel(), _grid([start * s for start, s in zip(starts, steps, strict=True)]), inner


def _grid(along: list[Array]) -> Array:
    """The sums of one number for each dimension."""
    return functools.reduce(np.add.outer, along)


def _detach_input(x: Operand) -> Operand:
    """x without its history: the position of the largest element has no gradient."""
    return detach(x) if isinstance(x, Tensor) else x


def _winners(x: Operand, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes) -> Array:
    """The number of each window's first largest tap; never one in the padding."""
    tiles = _split_into_tiles(x, size, stride, padding, dilation, extra)
    if tiles is not None:
        return tiles.argmax(-1)
    rank = len(size)
    shape = pooled_shape(x, size=size, stride=stride, padding=padding, dilation=dilation, extra=extra)
    if not any(padding) and not any(extra) and (few := _gather_few_taps(x, size, stride, dilation)) is not None:
        return few.argmax(0).reshape(shape)
    framed = _pad_input(x, padding, extra, _lowest(x.dtype))
    inside = None if framed is x else _pad_input(np.ones(x.shape[x.ndim - rank :], bool), padding, extra, False)
    winners = np.zeros(shape, np.int8 if math.prod(size) < 128 else np.int64)
    hollow = _has_nan(x)
    best: Any = None
    found: Any = None
    for i, where in enumerate(tap_slices(shape, size, stride, dilation)):
        tap = framed[where]
        if best is None:
            best, found = tap.copy(), None if inside is None else inside[where]
            continue
        better = _is_better(tap, best, hollow)
        if inside is not None:
            # Elements as low as the frame win against it.
            better |= inside[where] & ~found
            found = found | inside[where]
        _replace(best, tap, better)
        np.maximum(winners, better * winners.dtype.type(i), out=winners)
    return winners


def _find_native_settings(
    shape: Sizes, places: Sizes, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> Array | None:
    """Return what native code of two dimensions is told; None where it is not for images of this shape."""
    is_small = math.prod(shape) <= MAX_NATIVE_ELEMENTS and math.prod(places) * math.prod(size) <= MAX_NATIVE_ELEMENTS
    if not kernel_provider.enabled or not is_small or len(size) > 2:
        return None
    rank = len(size)
    return _make_native_settings(tuple(shape[-rank:]), tuple(places[-rank:]), size, stride, padding, dilation)


@functools.lru_cache(256)
def _make_native_settings(*settings: Sizes) -> Array:
    one = (1, 1, 1, 1, 0, 1)  # of a dimension in front that there is not
    return np.array([n for each, absent in zip(settings, one, strict=True) for n in ((absent, *each)[-2:])], np.int64)


def _gather_few_taps(x: Array, size: Sizes, stride: Sizes, dilation: Sizes) -> Array | None:
    """Return the elements under each tap, (taps, windows), in one call; None if they are not few."""
    if not _are_few(x, size):
        return None
    return x.reshape(-1).take(_find_few_taps(x.shape, size, stride, dilation))


def _are_few(x: Array, size: Sizes) -> bool:
    """True if there are so few taps that NumPy's calls for each of them would take longer than one for all."""
    return 0 < x.size * math.prod(size) <= MAX_FEW_TAPS


@functools.lru_cache(64)
def _find_few_taps(shape: Sizes, size: Sizes, stride: Sizes, dilation: Sizes) -> Array:
    """Return the flat index of each tap of each window, (taps, windows)."""
    every = np.arange(math.prod(shape)).reshape(shape)
    taps = op_of(windows).evaluate(every, size=size, stride=stride, dilation=dilation).reshape(-1, math.prod(size))
    return np.ascontiguousarray(taps.T)


def _are_apart(size: Sizes, stride: Sizes, dilation: Sizes) -> bool:
    """True if no element is under two windows, and every window has elements."""
    return all(k <= s for k, s in zip(size, stride, strict=True)) and all(d == 1 for d in dilation)


def _are_large_tiles(x: Operand, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes) -> bool:
    """True if windows of many elements, as those of a global pool, lie side by side without padding."""
    if math.prod(size) < MIN_TILE_TAPS or any(padding) or any(extra) or any(d != 1 for d in dilation):
        return False
    counts = pooled_shape(x, size=size, stride=stride, padding=padding, dilation=dilation, extra=extra)[-len(size) :]
    return all(k == s or n == 1 for k, s, n in zip(size, stride, counts, strict=True))


def _split_into_tiles(
    x: Operand, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, extra: Sizes
) -> Array | None:
    """Return (…, windows…, taps) of windows that are large tiles: a few calls, and not some for each tap; else None."""
    if not _are_large_tiles(x, size, stride, padding, dilation, extra):
        return None
    rank = len(size)
    lead = x.shape[: x.ndim - rank]
    counts = [max(1, n // k) if s == k else 1 for n, k, s in zip(x.shape[x.ndim - rank :], size, stride, strict=True)]
    inside = x[(..., *(slice(n * k) for n, k in zip(counts, size, strict=True)))]
    sides = [m for pair in zip(counts, size, strict=True) for m in pair]
    first = len(lead)
    order = (*range(first), *range(first, first + 2 * rank, 2), *range(first + 1, first + 2 * rank, 2))
    tiles: Array = inside.reshape(*lead, *sides).transpose(order).reshape(*lead, *counts, math.prod(size))
    return tiles


def _join_tiles(tiles: Array, shape: Sizes, size: Sizes) -> Array:
    """Return tiles at their places in zeros of `shape`: the inverse of `_split_into_tiles`."""
    rank, first = len(size), len(shape) - len(size)
    counts = tiles.shape[first : first + rank]
    apart = tiles.reshape(*shape[:first], *counts, *size)
    order = (*range(first), *(first + d + rank * half for d in range(rank) for half in (0, 1)))
    inside = apart.transpose(order).reshape(*shape[:first], *(n * k for n, k in zip(counts, size, strict=True)))
    if inside.shape == tuple(shape):
        return inside
    out = np.zeros(shape, tiles.dtype)
    out[tuple(slice(n) for n in inside.shape)] = inside
    return out


def _is_better(tap: Array, best: Array, hollow: bool) -> Array:
    better = tap > best
    if hollow:
        better |= (tap != tap) & (best == best)
    return better


def _replace(best: Array, tap: Array, better: Array) -> None:
    """best[better] = tap[better], by bit operations: a masked assignment is ten times slower."""
    bits = np.dtype(f"i{best.itemsize}")
    held = best.view(bits)
    held ^= (held ^ tap.view(bits)) & -better.astype(bits)


def _has_nan(x: Operand) -> bool:
    """Test x for NaN."""
    return bool(x.dtype.kind == "f" and x.size and np.isnan(x.max()))


def _lowest(dtype: NumpyDtype) -> float:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _pad_input(x: Operand, padding: Sizes, extra: Sizes, value: Operand) -> Operand:
    if not any(padding) and not any(extra):
        return x
    lead = x.shape[: x.ndim - len(padding)]
    lengths = tuple(x.shape[len(lead) :])
    framed = np.empty((*lead, *_padded_lengths(lengths, padding, extra)), x.dtype)
    framed.fill(value)
    framed[_inside(lengths, padding)] = x
    return framed


def _padded_zeros(shape: Sizes, padding: Sizes, extra: Sizes, dtype: NumpyDtype) -> Operand:
    """Zeros for an input of `shape` and its padding."""
    lead = len(shape) - len(padding)
    return np.zeros((*shape[:lead], *_padded_lengths(shape[lead:], padding, extra)), dtype)


def _padded_lengths(lengths: Sizes, padding: Sizes, extra: Sizes) -> Sizes:
    return tuple([n + 2 * p + e for n, p, e in zip(lengths, padding, extra, strict=True)])


def _inside(lengths: Sizes, padding: Sizes) -> Operand:
    """Return the key of what is no padding."""
    return (..., *[slice(p, p + n) for p, n in zip(padding, lengths, strict=True)])


def _crop_padding(framed: Operand, lengths: Sizes, padding: Sizes) -> Array:
    if framed.shape[framed.ndim - len(lengths) :] == tuple(lengths):
        return framed
    return np.ascontiguousarray(framed[_inside(lengths, padding)])
