"""Identities of arithmetic that hold to the last bit, for NaN, infinities and signed zeros too.

So there is no x - x = 0, no x / x = 1, no 0 x = 0 and no x + 0 = x: NaN, infinity and -0 are numbers here. Convolutions
of which each image is one window are matrix products, as NumPy has them; and so are gradients of weights whose windows
lie side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from adjoint.compiler.passes.pattern import rule
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand, Shape
from adjoint.ops.creation import full
from adjoint.ops.elementwise.arithmetic import abs, add, div, maximum, minimum, mul, neg, pow, relu, square, sub
from adjoint.ops.elementwise.select import copy
from adjoint.ops.linalg.matmul import mm
from adjoint.ops.movement.movement import permute, reshape
from adjoint.ops.movement.sliding_windows import Sizes
from adjoint.ops.nn.convolution import convolution, convolution_input, convolution_weight, is_one_window

MIN_PATCH_ELEMENTS = 16  # of a window in a channel, whose copy costs less than its product gains


def dtype_kind(x: Operand) -> str:
    """The kind of elements: "f", "i", "u", "b" or "c"; "" of a Python number."""
    return str(x.array.dtype.kind) if isinstance(x, Tensor) else ""


@rule
def times_one(x: Tensor) -> Iterator[Operand]:
    yield mul(x, 1.0)
    yield x


@rule
def one_times(x: Tensor) -> Iterator[Operand]:
    yield mul(1.0, x)
    yield x


@rule
def times_minus_one(x: Tensor) -> Iterator[Operand]:
    yield mul(x, -1.0)
    yield neg(x)


@rule
def minus_one_times(x: Tensor) -> Iterator[Operand]:
    yield mul(-1.0, x)
    yield neg(x)


@rule
def over_one(x: Tensor) -> Iterator[Operand]:
    yield div(x, 1.0)
    yield x


@rule
def over_minus_one(x: Tensor) -> Iterator[Operand]:
    yield div(x, -1.0)
    yield neg(x)


@rule
def over_power_of_two(x: Operand, c: Operand) -> Iterator[Operand]:
    yield div(x, c)
    if _has_exact_inverse(c, x):
        yield mul(x, 1.0 / c)


def _has_exact_inverse(c: Operand, x: Operand) -> bool:
    """True for a number ±2ᵏ of which neither it nor its inverse is subnormal or too large in the type of x."""
    if isinstance(c, Tensor) or dtype_kind(x) != "f" or not c or math.isinf(c) or math.isnan(c):
        return False
    mantissa, exponent = math.frexp(c)
    limits = np.finfo(x.array.dtype)
    return math.fabs(mantissa) == 0.5 and limits.minexp < exponent - 1 < -limits.minexp


@rule
def less_zero(x: Tensor) -> Iterator[Operand]:
    yield sub(x, 0.0)
    yield x


@rule
def plus_minus_zero(x: Tensor) -> Iterator[Operand]:
    yield add(x, -0.0)
    yield x


@rule
def plus_zero(x: Tensor) -> Iterator[Operand]:
    yield add(x, 0)
    if dtype_kind(x) in ("i", "u"):  # of floats, -0 + 0 is 0
        yield x


@rule
def to_the_zeroth(x: Tensor) -> Iterator[Operand]:
    yield pow(x, 0.0)
    if dtype_kind(x) == "f" and x.array.dtype.itemsize > 2:  # NaN to the zeroth is one, too, but for some of float16
        yield full(shape=x.array.shape, value=1, dtype=x.array.dtype)


@rule
def to_the_first(x: Tensor) -> Iterator[Operand]:
    yield pow(x, 1.0)
    yield x


@rule
def to_the_second(x: Tensor) -> Iterator[Operand]:
    yield pow(x, 2.0)
    yield square(x)


@rule
def times_itself(x: Tensor) -> Iterator[Operand]:
    yield mul(x, x)
    if dtype_kind(x) != "b":
        yield square(x)


@rule
def minus_minus(x: Tensor) -> Iterator[Operand]:
    yield neg(neg(x))
    yield x


@rule
def plus_minus(x: Operand, y: Tensor) -> Iterator[Operand]:
    yield add(x, neg(y))
    yield sub(x, y)


@rule
def minus_plus(x: Tensor, y: Operand) -> Iterator[Operand]:
    yield add(neg(x), y)
    yield sub(y, x)


@rule
def less_minus(x: Tensor, y: Tensor) -> Iterator[Operand]:
    yield sub(x, neg(y))
    yield add(x, y)


@rule(op=[mul, div])
def minus_and_minus(x: Tensor, y: Tensor, *, op: Function) -> Iterator[Operand]:
    yield op(neg(x), neg(y))
    yield op(x, y)


@rule(op=[square, abs], sign=[neg, abs])
def without_sign(x: Tensor, *, op: Function, sign: Function) -> Iterator[Operand]:
    yield op(sign(x))
    if dtype_kind(x) != "u":  # 1 and 255 have no sign to differ in
        yield op(x)


@rule(op=[abs, relu], positive=[abs, square])
def of_the_positive(x: Tensor, *, op: Function, positive: Function) -> Iterator[Operand]:
    yield op(positive(x))
    if dtype_kind(x) == "f":  # of integers, |x| and x² overflow
        yield positive(x)


@rule
def relu_twice(x: Tensor) -> Iterator[Operand]:
    yield relu(relu(x))
    yield relu(x)


@rule(op=[maximum, minimum])
def extreme_of_the_same(x: Tensor, *, op: Function) -> Iterator[Operand]:
    yield op(x, x)
    yield x


@rule
def copy_of_computed(x: Tensor) -> Iterator[Operand]:
    yield copy(x)
    if x.array.op is not None and x.array.op.index is None:  # an input may be written, a view is scattered
        yield x


@rule
def convolution_of_one_window(
    x: Operand, weight: Operand, *, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Iterator[Operand]:
    yield convolution(x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if is_one_window(x.shape[2:], weight.shape[2:], padding, groups):
        product = mm(_as_rows(x), permute(_as_rows(weight), axes=(1, 0)))
        yield reshape(product, shape=(x.shape[0], weight.shape[0], *(1,) * len(stride)))


@rule
def input_gradient_of_one_window(
    g: Operand, weight: Operand, *, shape: Shape, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Iterator[Operand]:
    yield convolution_input(g, weight, shape=shape, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if math.prod(g.shape[2:]) == 1 and is_one_window(shape[2:], weight.shape[2:], padding, groups):
        yield reshape(mm(_as_rows(g), _as_rows(weight)), shape=shape)


@rule
def weight_gradient_of_one_window(
    x: Operand, g: Operand, *, shape: Shape, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Iterator[Operand]:
    yield convolution_weight(x, g, shape=shape, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if math.prod(g.shape[2:]) == 1 and is_one_window(x.shape[2:], shape[2:], padding, groups):
        yield reshape(mm(permute(_as_rows(g), axes=(1, 0)), _as_rows(x)), shape=shape)


@rule
def weight_gradient_of_patches(
    x: Operand, g: Operand, *, shape: Shape, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Iterator[Operand]:
    """Windows side by side, as those that cut an image into patches, are the rows of a matrix once they are copied."""
    yield convolution_weight(x, g, shape=shape, stride=stride, padding=padding, dilation=dilation, groups=groups)
    taps, places, rank = tuple(shape[2:]), g.shape[2:], len(stride)
    apart = tuple(stride) != taps or any(padding) or {*dilation} != {1} or groups != 1
    is_covered = tuple(n * t for n, t in zip(places, taps, strict=True)) == tuple(x.shape[2:])
    if math.prod(taps) >= MIN_PATCH_ELEMENTS and is_covered and not apart:
        cut = reshape(x, shape=(*x.shape[:2], *(n for pair in zip(places, taps, strict=True) for n in pair)))
        order = (0, *range(2, 2 + 2 * rank, 2), 1, *range(3, 3 + 2 * rank, 2))
        rows = math.prod((x.shape[0], *places))
        patches = reshape(permute(cut, axes=order), shape=(rows, math.prod(shape[1:])))
        by_channel = reshape(permute(g, axes=(1, 0, *range(2, 2 + rank))), shape=(shape[0], rows))
        yield reshape(mm(by_channel, patches), shape=shape)


def _as_rows(x: Operand) -> Operand:
    """The operand as a matrix of one row for each index in its first dimension."""
    return reshape(x, shape=(x.shape[0], math.prod(x.shape[1:])))
