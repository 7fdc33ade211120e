"""Sliding windows over the last dimensions, and their transpose."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, Operand

Sizes = tuple[int, ...]


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
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


@primitive(
    spec=lambda x, *, shape, stride, dilation: Spec(shape, x.dtype),
    linear=True,
    dx=lambda g, x_shape, shape, stride, dilation: windows(
        g, size=x_shape[-_window_rank(x_shape, shape) :], stride=stride, dilation=dilation
    ),
)
def fold(x: Array, *, shape: Sizes, stride: Sizes, dilation: Sizes) -> Array:
    """Add windows back where they came from, into zeros of `shape`: the transpose of `windows`."""
    n = _window_rank(x.shape, shape)
    out: Operand = np.zeros(shape, x.dtype)
    lead = len(shape) - n
    places, size = x.shape[lead : lead + n], x.shape[lead + n :]
    for taps, where in zip(np.ndindex(*size), tap_slices(places, size, stride, dilation), strict=True):
        out[(..., *where)] += x[(..., *taps)]
    return out


def tap_slices(shape: Sizes, size: Sizes, stride: Sizes, dilation: Sizes) -> Iterator[tuple[slice, ...]]:
    """Yield, for each tap of a window, the slices of the input that it sees at the places of `shape`."""
    places = shape[len(shape) - len(size) :]
    for taps in product(*map(range, size)):
        yield tuple(
            slice(tap * d, tap * d + s * (p - 1) + 1, s)
            for tap, d, s, p in zip(taps, dilation, stride, places, strict=True)
        )


def _window_rank(windowed: Sizes, shape: Sizes) -> int:
    return len(windowed) - len(shape)
