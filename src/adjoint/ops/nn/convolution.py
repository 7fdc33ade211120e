"""Convolution and its two transposes: each is bilinear, and the gradients of each are the other two.

All three lay the elements under the window out as columns, so that the work is one matrix product per group.
"""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.movement.sliding_windows import Sizes, count_windows, fold, windows

SECONDS_PER_TAP = 2e-9  # seconds that NumPy takes for an element under a window


def estimate_seconds(x: Array, weight: Array, *_: object, **__: object) -> float:
    """Estimate the seconds that NumPy takes to convolve."""
    return float(x.size * math.prod(weight.shape[2:]) * SECONDS_PER_TAP)


def convolution_spec(
    x: Operand, weight: Operand, *, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Spec:
    """Spec of a convolution of (N, C, D…) with (O, C/groups, K…)."""
    places = tuple(
        count_windows(n + 2 * p, k, s, d)
        for n, k, s, p, d in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    )
    return Spec((x.shape[0], weight.shape[0], *places), x.dtype)


@primitive(
    family="convolution",
    linear=True,
    native=estimate_seconds,
    spec=convolution_spec,
    dx=lambda g, weight, x_shape, stride, padding, dilation, groups: convolution_input(
        g, weight, shape=x_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    dweight=lambda g, x, weight_shape, stride, padding, dilation, groups: convolution_weight(
        x, g, shape=weight_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
)
def convolution(x: Array, weight: Array, *, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Array:
    """out[n, o, p…] = Σ weight[o, c, k…] x[n, c, p·stride + k·dilation - padding]."""
    spec = convolution_spec(x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    out = _by_group(weight, groups) @ _columns(x, weight.shape[2:], stride, padding, dilation, groups)
    n, channels, *places = spec.shape
    return np.ascontiguousarray(np.moveaxis(out.reshape(channels, n, *places), 1, 0))  # from (G, O/G, N·P)


@primitive(
    family="convolution",
    linear=True,
    native=estimate_seconds,
    spec=lambda g, weight, *, shape, stride, padding, dilation, groups: Spec(shape, g.dtype),
    dg=lambda gg, weight, stride, padding, dilation, groups: convolution(
        gg, weight, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    dweight=lambda gg, g, weight_shape, stride, padding, dilation, groups: convolution_weight(
        gg, g, shape=weight_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
)
def convolution_input(
    g: Array, weight: Array, *, shape: Shape, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """The transpose of `convolution` in x: scatters g through `weight` into zeros of `shape`."""
    columns = np.swapaxes(_by_group(weight, groups), 1, 2) @ _by_channel(g, groups)  # (G, C/G·K, N·P)
    n, c = shape[:2]
    windowed = columns.reshape(groups, c // groups, *weight.shape[2:], n, *g.shape[2:])
    rank = len(stride)
    taps, places = tuple(range(2, 2 + rank)), tuple(range(3 + rank, 3 + 2 * rank))
    windowed = windowed.transpose(2 + rank, 0, 1, *places, *taps).reshape(n, c, *g.shape[2:], *weight.shape[2:])
    framed = tuple(s + 2 * p for s, p in zip(shape[2:], padding, strict=True))
    full = op_of(fold).evaluate(windowed, shape=(n, c, *framed), stride=stride, dilation=dilation)
    inner = tuple(slice(p, p + s) for s, p in zip(shape[2:], padding, strict=True))
    return np.ascontiguousarray(full[(..., *inner)])


@primitive(
    family="convolution",
    linear=True,
    native=lambda x, g, *, shape, **_: x.size * math.prod(shape[2:]) * SECONDS_PER_TAP,
    spec=lambda x, g, *, shape, stride, padding, dilation, groups: Spec(shape, x.dtype),
    dx=lambda gg, g, x_shape, stride, padding, dilation, groups: convolution_input(
        g, gg, shape=x_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    dg=lambda gg, x, stride, padding, dilation, groups: convolution(
        x, gg, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
)
def convolution_weight(
    x: Array, g: Array, *, shape: Shape, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """The transpose of `convolution` in `weight`: correlates x with g."""
    columns = _columns(x, shape[2:], stride, padding, dilation, groups, g.shape[2:])
    return (_by_channel(g, groups) @ np.swapaxes(columns, 1, 2)).reshape(shape)


def _columns(
    x: Array, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, places: Shape | None = None
) -> Array:
    """The elements under the window at each place: (G, C/G·K, N·P)."""
    c = x.shape[1]
    rank = len(size)
    if any(padding):
        x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    seen = op_of(windows).evaluate(x, size=size, stride=stride, dilation=dilation)
    if places is not None:  # a gradient may cover fewer places than fit
        seen = seen[(slice(None), slice(None), *(slice(p) for p in places))]
    order = (1, *range(2 + rank, 2 + 2 * rank), 0, *range(2, 2 + rank))
    return seen.transpose(order).reshape(
        groups, c // groups * math.prod(size), x.shape[0] * math.prod(seen.shape[2 : 2 + rank])
    )


def _by_group(weight: Array, groups: int) -> Array:
    return weight.reshape(groups, weight.shape[0] // groups, math.prod(weight.shape[1:]))


def _by_channel(g: Array, groups: int) -> Array:
    """(N, O, P…) as (G, O/G, N·P)."""
    return np.moveaxis(g, 0, 1).reshape(groups, g.shape[1] // groups, g.shape[0] * math.prod(g.shape[2:]))
