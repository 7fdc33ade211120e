"""Sliding windows over the last dimensions, and their transpose."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec

Sizes = tuple[int, ...]


def count_windows(length: int, size: int, stride: int, dilation: int) -> int:
    """Count the windows of `size` taps, `dilation` apart, that fit into `length` elements at every `stride`."""
    return (length - dilation * (size - 1) - 1) // stride + 1


def _windows_spec(x: Any, *, size: Sizes, stride: Sizes, dilation: Sizes) -> Spec:
    n = len(size)
    places = tuple(map(count_windows, x.shape[-n:], size, stride, dilation))
    return Spec((*x.shape[:-n], *places, *size), x.dtype)


@primitive(
    spec=_windows_spec,
    linear=True,
    dx=lambda g, x_shape, stride, dilation: fold(g, shape=x_shape, stride=stride, dilation=dilation),
)
def windows(x: Any, *, size: Sizes, stride: Sizes, dilation: Sizes) -> Any:
    """(…, D₁…Dₙ) seen as (…, P₁…Pₙ, size₁…sizeₙ): the elements under a window at each position. A view."""
    n = len(size)
    lead, steps = x.shape[: x.ndim - n], x.strides[x.ndim - n :]
    places = tuple(map(count_windows, x.shape[x.ndim - n :], size, stride, dilation))
    return np.lib.stride_tricks.as_strided(
        x,
        (*lead, *places, *size),
        (*x.strides[: x.ndim - n], *map(int.__mul__, steps, stride), *map(int.__mul__, steps, dilation)),
        writeable=False,
    )


@primitive(
    spec=lambda x, *, shape, stride, dilation: Spec(shape, x.dtype),
    linear=True,
    dx=lambda g, x_shape, shape, stride, dilation: windows(
        g, size=x_shape[-_window_rank(x_shape, shape) :], stride=stride, dilation=dilation
    ),
)
def fold(x: Any, *, shape: Sizes, stride: Sizes, dilation: Sizes) -> Any:
    """Add windows back where they came from, into zeros of `shape`: the transpose of `windows`."""
    n = _window_rank(x.shape, shape)
    out: Any = np.zeros(shape, x.dtype)
    lead = len(shape) - n
    places, size = x.shape[lead : lead + n], x.shape[lead + n :]
    for taps in product(*map(range, size)):
        where = tuple(
            slice(tap * d, tap * d + s * (p - 1) + 1, s)
            for tap, d, s, p in zip(taps, dilation, stride, places, strict=True)
        )
        out[(..., *where)] += x[(..., *taps)]
    return out


def _window_rank(windowed: Sizes, shape: Sizes) -> int:
    return len(windowed) - len(shape)
