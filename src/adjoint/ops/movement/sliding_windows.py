"""Sliding windows over the last dimensions, and their transpose."""

from __future__ import annotations

import builtins
from functools import lru_cache
from itertools import product

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, Operand

Sizes = tuple[int, ...]
MIN_TAPS_AT_ONCE = 8  # NumPy's loop over a few elements takes longer than a call for each


def count_windows(length: int, size: int, stride: int, dilation: int) -> int:
    """Count the windows of `size` taps, `dilation` apart, that fit into `length` elements at every `stride`."""
    return (length - dilation * (size - 1) - 1) // stride + 1


def _windows_spec(x: Operand, *, size: Sizes, stride: Sizes, dilation: Sizes) -> Spec:
    n = len(size)
    places = tuple(map(count_windows, x.shape[-n:], size, stride, dilation))
    return Spec((*x.shape[:-n], *places, *size), x.dtype)


@primitive(
    spec=_windows_spec,
    linear=True,
    dx=lambda g, x_shape, stride, dilation: fold(g, shape=x_shape, stride=stride, dilation=dilation),
)
def windows(x: Array, *, size: Sizes, stride: Sizes, dilation: Sizes) -> Array:
    """(…, D₁…Dₙ) seen as (…, P₁…Pₙ, size₁…sizeₙ): the elements under a window at each position. A view."""
    lead, steps = x.strides[: x.ndim - len(size)], x.strides[x.ndim - len(size) :]
    shape = _windows_spec(x, size=size, stride=stride, dilation=dilation).shape
    strides = (*lead, *map(int.__mul__, steps, stride), *map(int.__mul__, steps, dilation))
    if not x.flags.c_contiguous or not x.size:
        return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)
    out = np.ndarray(shape, x.dtype, x, 0, strides)  # a tenth of the time of `as_strided`
    set_flags: Operand = out.setflags
    set_flags(False)
    return out


@primitive(
    spec=lambda x, *, shape, stride, dilation: Spec(shape, x.dtype),
    linear=True,
    dx=lambda g, x_shape, shape, stride, dilation: windows(
        g, size=x_shape[-_window_rank(x_shape, shape) :], stride=stride, dilation=dilation
    ),
)
def fold(x: Operand, *, shape: Sizes, stride: Sizes, dilation: Sizes) -> Array:
    """Add windows back where they came from, into zeros of `shape`: the transpose of `windows`."""
    n = _window_rank(x.shape, shape)
    out: Array = np.zeros(shape, x.dtype)
    lead = len(shape) - n
    places, size, steps = x.shape[lead : lead + n], x.shape[lead + n :], out.strides[lead:]
    moves = tuple(map(int.__mul__, steps, stride))
    gaps = tuple(map(int.__mul__, steps, dilation))
    strides = (*out.strides[:lead], *moves, *gaps)
    seen = (*shape[:lead], *places)
    for taps, widths, offset in _find_disjoint_taps(size, stride, dilation, gaps):
        part: Operand = np.ndarray((*seen, *widths), x.dtype, out, offset, strides)
        part += x[taps]
    return out


@lru_cache(256)
def _find_disjoint_taps(size: Sizes, stride: Sizes, dilation: Sizes, gaps: Sizes) -> list[tuple[Operand, Sizes, int]]:
    """Return ranges of taps that see no element twice at any two places: as many as the stride has, without gaps.

    Each as a key of the last dimensions, with its sizes, and the bytes between the first tap and the first of all.
    """
    ranges = []
    for count, s, d in zip(size, stride, dilation, strict=True):
        most = s if d == 1 and s >= MIN_TAPS_AT_ONCE else 1
        ranges.append([(first, min(most, count - first)) for first in range(0, count, most)])
    found = []
    for taps in product(*ranges):
        key = (..., *[slice(first, first + width) for first, width in taps])
        offset = builtins.sum([first * gap for (first, _), gap in zip(taps, gaps, strict=True)])
        found.append((key, tuple([width for _, width in taps]), offset))
    return found


def tap_slices(shape: Sizes, size: Sizes, stride: Sizes, dilation: Sizes) -> list[Operand]:
    """Return, for each tap of a window, the key of the elements of the input that it sees at the places of `shape`."""
    return _find_tap_slices(tuple(shape[len(shape) - len(size) :]), size, stride, dilation)


@lru_cache(256)
def _find_tap_slices(places: Sizes, size: Sizes, stride: Sizes, dilation: Sizes) -> list[Operand]:
    ranges = [
        [slice(tap * d, tap * d + s * (p - 1) + 1, s) for tap in range(k)]
        for k, d, s, p in zip(size, dilation, stride, places, strict=True)
    ]
    return [(..., *taps) for taps in product(*ranges)]


def _window_rank(windowed: Sizes, shape: Sizes) -> int:
    return len(windowed) - len(shape)
