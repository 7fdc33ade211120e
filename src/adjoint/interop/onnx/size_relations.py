"""Relations between sizes: a free number as an expression of the dimensions that a running model can ask for.

A number is known by its values at some sizes of the free axes. It is an affine function a · d + b of a dimension d
of an earlier value, or of a product of two or three of them, or a quotient rounded down. That holds for all sizes if
it holds for the few that were traced, which are chosen unequal and without a common law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from typing import NamedTuple

MAX_PRODUCT_DIMENSIONS = 24  # of which pairs are tried; triples of half as many
MAX_DIVISOR = 64
TOLERANCE = 1e-9  # relative, of computed floats

Vector = tuple[int, ...]


class Relation(NamedTuple):
    """⌊(numerator · (Π dimensions - minus) + offset) / denominator⌋, dimensions given by their values in the traces."""

    dimensions: tuple[Vector, ...]
    numerator: int
    offset: int
    denominator: int
    minus: Vector | None = None


class FloatRelation(NamedTuple):
    """`root` of scale · Π dimensions + offset: the number itself, its reciprocal, its root, or that of the root."""

    dimensions: tuple[Vector, ...]
    scale: float
    offset: float
    root: str


def find_relation(values: Vector, known: Iterable[Vector]) -> Relation | None:
    """Return the integer as a function of known dimensions; None if there is none."""
    known = list(known)
    for dimensions in _products(known):
        line = fit_line(values, multiply(dimensions))
        if line is not None:
            slope, offset = line
            denominator = math.lcm(slope.denominator, offset.denominator)
            return Relation(dimensions, int(slope * denominator), int(offset * denominator), denominator)
    for d, minus in permutations(known[:MAX_PRODUCT_DIMENSIONS], 2):
        line = fit_line(values, tuple(a - b for a, b in zip(d, minus, strict=True)))
        if line is not None and line[0] == 1 and line[1].denominator == 1:
            return Relation((d,), 1, int(line[1]), 1, minus)
    for d in known:
        for k in range(2, MAX_DIVISOR):
            # ⌊(d + b) / k⌋ = v for all pairs: k v - d ≤ b < k v - d + k
            low = max(k * v - n for v, n in zip(values, d, strict=True))
            high = min(k * v - n + k for v, n in zip(values, d, strict=True))
            if low < high:
                b = min(range(low, high), key=abs)
                return Relation((d,), 1, b, k)
    return None


ROOTS: dict[str, Callable[[float], float]] = {  # what the argument of the root is for a value
    "": lambda v: v,
    "Reciprocal": lambda v: 1.0 / v,
    "Sqrt": lambda v: v * v,
    "Reciprocal Sqrt": lambda v: 1.0 / (v * v),
}


def find_float_relation(values: tuple[float, ...], known: Iterable[Vector]) -> FloatRelation | None:
    """Return the float as a function of known dimensions; None if there is none."""
    known = list(known)
    for root, argument in ROOTS.items():
        if any(v == 0 for v in values):
            continue
        arguments = [argument(v) for v in values]
        for dimensions in _products(known):
            products = multiply(dimensions)
            pairs = list(zip(arguments, products, strict=True))
            (y0, x0), (y1, x1) = pairs[0], next((p for p in pairs if p[1] != pairs[0][1]), pairs[0])
            if x0 == x1:
                continue
            slope = (y1 - y0) / (x1 - x0)
            offset = y0 - slope * x0
            offset = 0.0 if abs(offset) < TOLERANCE * max(map(abs, arguments)) else offset
            if all(math.isclose(slope * x + offset, y, rel_tol=TOLERANCE) for y, x in pairs):
                return FloatRelation(dimensions, slope, offset, root)
    return None


def multiply(dimensions: tuple[Vector, ...]) -> Vector:
    """Return the product in each trace."""
    return tuple(math.prod(row) for row in zip(*dimensions, strict=True))


def fit_line(values: Vector, at: Vector) -> tuple[Fraction, Fraction] | None:
    """Return (a, b) with values = a · at + b in all traces; None if there are none."""
    other = next((i for i, n in enumerate(at) if n != at[0]), None)
    if other is None:
        return None
    slope = Fraction(values[other] - values[0], at[other] - at[0])
    offset = values[0] - slope * at[0]
    return (slope, offset) if all(slope * n + offset == v for v, n in zip(values, at, strict=True)) else None


def _products(known: list[Vector]) -> Iterator[tuple[Vector, ...]]:
    """Generate the dimensions, then pairs and triples of them."""
    yield from ((d,) for d in known)
    yield from combinations_with_replacement(known[:MAX_PRODUCT_DIMENSIONS], 2)
    yield from combinations_with_replacement(known[: MAX_PRODUCT_DIMENSIONS // 2], 3)
