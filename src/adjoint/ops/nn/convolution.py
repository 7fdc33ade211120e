"""Convolution and its two transposes: each is bilinear, and the gradients of each are the other two.

All three lay the elements under the window out as columns, so that the work is one matrix product per group. Where each
window has one element, or the image is one window, the operands are such columns already.
"""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.op.eager_kernels import FixedShapes
from adjoint.core.op.families import primitive
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.movement.sliding_windows import Sizes, count_windows, fold, windows

# Seconds that NumPy takes for a call, for an element of the columns, and for a multiplication and a sum.
SECONDS_PER_CALL, SECONDS_PER_ELEMENT, SECONDS_PER_PRODUCT = 5e-5, 1.5e-9, 4e-11


def estimate_seconds(
    x: Array, weight: Array, *_: object, groups: int, stride: Sizes, shape: Shape | None = None, **__: object
) -> float:
    """Estimate the seconds that NumPy takes to convolve, or back to an input of `shape`."""
    places = x.size // max(1, x.shape[1])
    columns = places * math.prod(weight.shape[1:]) * groups
    if shape is None:
        columns //= math.prod(stride)
    return _seconds_of(columns, weight.shape[0] // groups)


def _seconds_of(columns: int, channels: int) -> float:
    return SECONDS_PER_CALL + columns * (SECONDS_PER_ELEMENT + channels * SECONDS_PER_PRODUCT)


def convolution_spec(
    x: Operand, weight: Operand, *, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Spec:
    """Spec of a convolution of (N, C, D…) with (O, C/groups, K…)."""
    places = tuple(
        count_windows(n + 2 * p, k, s, d)
        for n, k, s, p, d in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    )
    return Spec((x.shape[0], weight.shape[0], *places), x.dtype)


def is_one_window(image: Shape, taps: Shape, padding: Sizes, groups: int) -> bool:
    """True if an image is as large as a window, and there is no other place for one."""
    return groups == 1 and tuple(image) == tuple(taps) and not any(padding)


def _is_pointwise(image: Shape, places: Shape, taps: Shape, stride: Sizes, padding: Sizes) -> bool:
    """True if each window is one element, and each element is one."""
    return tuple(image) == tuple(places) and all(n == 1 for n in (*taps, *stride)) and not any(padding)


@primitive(
    family="convolution",
    linear=True,
    native=FixedShapes(estimate_seconds),
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
    taps = weight.shape[2:]
    if is_one_window(x.shape[2:], taps, padding, groups):
        return multiply_matrices(_as_rows(x), _as_rows(weight).T).reshape(spec.shape)
    if _is_pointwise(x.shape[2:], spec.shape[2:], taps, stride, padding):
        return multiply_matrices(_by_group(weight, groups), _by_image(x, groups)).reshape(spec.shape)
    out = multiply_matrices(_by_group(weight, groups), _columns(x, taps, stride, padding, dilation, groups))
    n, channels, *places = spec.shape
    if n == 1:
        return out.reshape(spec.shape)
    return np.ascontiguousarray(out.reshape(channels, n, *places).swapaxes(0, 1))  # from (G, O/G, N·P)


@primitive(
    family="convolution",
    linear=True,
    native=FixedShapes(estimate_seconds),
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
    taps = weight.shape[2:]
    if math.prod(g.shape[2:]) == 1 and is_one_window(shape[2:], taps, padding, groups):
        return multiply_matrices(_as_rows(g), _as_rows(weight)).reshape(shape)
    back = np.swapaxes(_by_group(weight, groups), 1, 2)
    if _is_pointwise(shape[2:], g.shape[2:], taps, stride, padding):
        return multiply_matrices(back, _by_image(g, groups)).reshape(shape)
    columns = multiply_matrices(back, _by_channel(g, groups))  # (G, C/G·K, N·P)
    n, c = shape[:2]
    windowed = columns.reshape(groups, c // groups, *taps, n, *g.shape[2:])
    rank = len(stride)
    order = (2 + rank, 0, 1, *range(3 + rank, 3 + 2 * rank), *range(2, 2 + rank))
    windowed = windowed.transpose(order).reshape(n, c, *g.shape[2:], *taps)
    framed = tuple(s + 2 * p for s, p in zip(shape[2:], padding, strict=True))
    full = op_of(fold).evaluate(windowed, shape=(n, c, *framed), stride=stride, dilation=dilation)
    inner = tuple(slice(p, p + s) for s, p in zip(shape[2:], padding, strict=True))
    return np.ascontiguousarray(full[(..., *inner)])


@primitive(
    family="convolution",
    linear=True,
    native=FixedShapes(
        lambda x, g, *, shape, groups, **_: _seconds_of(
            g.size // max(1, g.shape[1]) * math.prod(shape[1:]) * groups, shape[0] // groups
        )
    ),
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
    if math.prod(g.shape[2:]) == 1 and is_one_window(x.shape[2:], shape[2:], padding, groups):
        return multiply_matrices(_as_rows(g).T, _as_rows(x)).reshape(shape)
    columns = _columns(x, shape[2:], stride, padding, dilation, groups, g.shape[2:])
    return multiply_matrices(_by_channel(g, groups), np.swapaxes(columns, 1, 2)).reshape(shape)


def _columns(
    x: Array, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, places: Shape | None = None
) -> Array:
    """The elements under the window at each place: (G, C/G·K, N·P)."""
    c = x.shape[1]
    rank = len(size)
    if any(padding):  # as np.pad does, in an eighth of the time for a small image
        sizes = (n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))
        framed: Operand = np.zeros((*x.shape[:2], *sizes), x.dtype)
        framed[(..., *(slice(p, p + n) for n, p in zip(x.shape[2:], padding, strict=True)))] = x
        x = framed
    seen = op_of(windows).evaluate(x, size=size, stride=stride, dilation=dilation)
    if places is not None:  # a gradient may cover fewer places than fit
        seen = seen[(slice(None), slice(None), *(slice(p) for p in places))]
    order = (1, *range(2 + rank, 2 + 2 * rank), 0, *range(2, 2 + rank))
    return seen.transpose(order).reshape(
        groups, c // groups * math.prod(size), x.shape[0] * math.prod(seen.shape[2 : 2 + rank])
    )


def _as_rows(x: Array) -> Array:
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def _by_image(x: Array, groups: int) -> Array:
    """(N, C, P…) as (N, G, C/G, P)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:]))


def _by_group(weight: Array, groups: int) -> Array:
    return weight.reshape(groups, weight.shape[0] // groups, math.prod(weight.shape[1:]))


def _by_channel(g: Array, groups: int) -> Array:
    """(N, O, P…) as (G, O/G, N·P)."""
    return g.swapaxes(0, 1).reshape(groups, g.shape[1] // groups, g.shape[0] * math.prod(g.shape[2:]))
