"""Winograd's transforms of F(2×2, 3×3): of an image, of a weight, of a result, and of their gradients.

A square of 2 by 2 results of a 3 by 3 window takes 16 multiplications instead of 36. It is Aᵀ [(G w Gᵀ) ⊙ (Bᵀ d B)] A,
where d are the 4 by 4 elements that it sees. The gradient of w is Gᵀ [(A g Aᵀ) ⊙ (Bᵀ d B)] G, of the same products.

Source: Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import Reg

SQUARE = 2  # results of a square, in each dimension
TAPS = 3
SEEN = SQUARE + TAPS - 1  # elements that a square sees, in each dimension
PRODUCTS = SEEN * SEEN

Line = Sequence[Reg]
Transform = Callable[[Builder, Line], list[Reg]]


def transform_image(b: Builder, d: Line) -> list[Reg]:
    """Bᵀ d, where the rows of Bᵀ are (1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0) and (0, 1, 0, -1)."""
    return [b.sub(d[0], d[2]), b.add(d[1], d[2]), b.sub(d[2], d[1]), b.sub(d[1], d[3])]


def transform_weight(b: Builder, w: Line) -> list[Reg]:
    """G w, where the rows of G are (1, 0, 0), (½, ½, ½), (½, -½, ½) and (0, 0, 1)."""
    ends, middle = b.mul(b.add(w[0], w[2]), 0.5), b.mul(w[1], 0.5)
    return [w[0], b.add(ends, middle), b.sub(ends, middle), w[2]]


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


def transform_square(b: Builder, transform: Transform, values: Sequence[Reg]) -> list[Reg]:
    """A transform of the columns of a square, and then of the rows of what that gives, in row-major order.

    T x Tᵀ for a transform T, as all of these have the same one for rows and columns.
    """
    size = round(len(values) ** 0.5)
    columns = [transform(b, values[column::size]) for column in range(size)]
    rows = [transform(b, row) for row in zip(*columns, strict=True)]
    return [value for row in rows for value in row]
