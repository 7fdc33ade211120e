"""Winograd's transforms of F(2×2, 3×3): of an image, of a weight, of a result, and of their gradients.

Other windows are segments of three taps and fewer in each dimension. F(2, 2) and F(2, 1) have products for some of the
points of F(2, 3): 0, 1, -1 and infinity. So the products of all segments add up to the same sums, and these have one
transform. Five taps take 7 multiplications for two results instead of 10.

A square of 2 by 2 results of a 3 by 3 window takes 16 multiplications instead of 36. It is Aᵀ [(G w Gᵀ) ⊙ (Bᵀ d B)] A,
where d are the 4 by 4 elements that it sees. The gradient of w is Gᵀ [(A g Aᵀ) ⊙ (Bᵀ d B)] G, of the same products.

Source: Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import Reg

SQUARE = 2  # results of a square, in each dimension
TAPS = 3
SEEN = SQUARE + TAPS - 1  # elements that a square sees, in each dimension
PRODUCTS = SEEN * SEEN

Line = Sequence[Reg]
Transform = Callable[[Builder, Line], list[Reg]]


class TapSegment(NamedTuple):
    """Neighbouring taps of a window in one dimension, from the first on, and the sums that they have products for."""

    first: int
    taps: int
    points: tuple[int, ...]


def split_window(taps: int) -> tuple[TapSegment, ...]:
    """The segments of a window in one dimension: none for two taps, by which the sums would not be begun."""
    if taps == 1:
        return (TapSegment(0, 1, (0,)),)
    if taps == SQUARE:
        return ()
    sizes = [TAPS] * (taps // TAPS) + [taps % TAPS] * (taps % TAPS > 0)
    return tuple(TapSegment(TAPS * i, size, _POINTS[size]) for i, size in enumerate(sizes))


_POINTS = {3: (0, 1, 2, 3), 2: (0, 1, 3), 1: (0, 3)}


def transform_image(b: Builder, d: Line) -> list[Reg]:
    """Bᵀ d, where the rows of Bᵀ are (1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0) and (0, 1, 0, -1)."""
    return [b.sub(d[0], d[2]), b.add(d[1], d[2]), b.sub(d[2], d[1]), b.sub(d[1], d[3])]


def transform_weight(b: Builder, w: Line) -> list[Reg]:
    """G w, where the rows of G are (1, 0, 0), (½, ½, ½), (½, -½, ½) and (0, 0, 1)."""
    ends, middle = b.mul(b.add(w[0], w[2]), 0.5), b.mul(w[1], 0.5)
    return [w[0], b.add(ends, middle), b.sub(ends, middle), w[2]]


def keep(b: Builder, line: Line) -> list[Reg]:
    """A line as it is."""
    return list(line)


# Of segments by the number of their points. One of two taps: (d0 - d1, d1, d1 - d2) and (w0, w0 + w1, w1).
IMAGE_TRANSFORMS: dict[int, Transform] = {
    4: transform_image,
    3: lambda b, d: [b.sub(d[0], d[1]), d[1], b.sub(d[1], d[2])],
    2: lambda b, d: [d[0], b.neg(d[1])],
    1: keep,
}
WEIGHT_TRANSFORMS: dict[int, Transform] = {
    4: transform_weight,
    3: lambda b, w: [w[0], b.add(w[0], w[1]), w[1]],
    2: lambda b, w: [w[0], w[0]],
    1: keep,
}


def transform_result(b: Builder, m: Line) -> list[Reg]:
    """Aᵀ m, where the rows of Aᵀ are (1, 1, 1, 0) and (0, 1, -1, -1)."""
    return [b.add(m[0], b.add(m[1], m[2])), b.sub(b.sub(m[1], m[2]), m[3])]


def transform_gradient(b: Builder, g: Line) -> list[Reg]:
    """A g."""
    return [g[0], b.add(g[0], g[1]), b.sub(g[0], g[1]), b.neg(g[1])]


def transform_weight_gradient(b: Builder, m: Line) -> list[Reg]:
    """Gᵀ m."""
    even = b.mul(b.add(m[1], m[2]), 0.5)
    return [b.add(m[0], even), b.mul(b.sub(m[1], m[2]), 0.5), b.add(even, m[3])]


# Of segments by the number of their points: the transposes of WEIGHT_TRANSFORMS.
WEIGHT_GRADIENT_TRANSFORMS: dict[int, Transform] = {
    4: transform_weight_gradient,
    3: lambda b, m: [b.add(m[0], m[1]), b.add(m[1], m[2])],
    2: lambda b, m: [b.add(m[0], m[1])],
    1: keep,
}


def transform_rectangle(
    b: Builder, transforms: tuple[Transform, Transform], values: Sequence[Reg], width: int
) -> list[Reg]:
    """A transform of the columns of a rectangle, and another of the rows of what that gives, in row-major order."""
    down, across = transforms
    columns = [down(b, values[column::width]) for column in range(width)]
    rows = [across(b, row) for row in zip(*columns, strict=True)]
    return [value for row in rows for value in row]
