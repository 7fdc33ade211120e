"""Orthogonal polynomials of a given degree, which is the second operand: by recurrence, or as cosines of an angle.

A degree is truncated to an integer; below 0 the polynomial is 0. One that takes more than 2²⁰ steps of a recurrence is
NaN. Formulas: Abramowitz & Stegun, 22.2, 22.3.15 and 22.7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from adjoint.core.typing import Array, Operand
from adjoint.ops.special.chebyshev import special_binary

Step = Callable[[int, Operand, Operand, Operand], Operand]  # from k, x, pₖ and pₖ₋₁ to pₖ₊₁
OfDegree = Callable[[Operand], Operand]
MIN_DEGREE_BY_ANGLE = 8  # from here on a Chebyshev polynomial within (-1, 1) comes by its angle
MAX_RECURRENCE_STEPS = 1 << 20  # steps of a recurrence


def _recurrence(x: Array, degree: Array, first: Array, step: Step) -> Array:
    """The polynomial of each element's degree, from p₀ = 1, p₁ = `first` and the step up."""
    out = np.where(degree < 0, 0.0, np.where(degree == 0, 1.0, np.where(degree > MAX_RECURRENCE_STEPS, np.nan, first)))
    degree = np.where(degree > MAX_RECURRENCE_STEPS, 0.0, degree)
    before, this = np.ones_like(x), first
    for k in range(1, int(degree.max(initial=0))):
        before, this = this, step(k, x, this, before)
        out = np.where(degree > k, this, out)
        if not np.any((degree > k) & np.isfinite(this)):
            break
    return out


def _truncate_degree(n: Array) -> Array:
    return np.where(np.isfinite(n), np.trunc(n), -1.0)


def _with_ends(x: Array, degree: Array, inside: OfDegree, at_1: OfDegree, at_minus_1: OfDegree) -> Array:
    """Evaluate `inside(degree)`; where x is 1 or -1, `at_1(degree)` or (-1)ⁿ `at_minus_1(degree)`."""
    ends = (np.abs(x) == 1) & (degree > 0)
    out = inside(np.where(ends, 0.0, degree))
    n = degree[ends]
    out[ends] = np.where(x[ends] > 0, at_1(n), (1 - 2 * (n % 2)) * at_minus_1(n))
    return out


class ChebyshevKind(NamedTuple):
    """One of the four kinds of Chebyshev polynomials."""

    first: OfDegree  # p₁(x)
    by_angle: Callable[[Operand, Operand], Operand]  # pₙ(cos θ), of θ and n
    at_1: OfDegree
    at_minus_1: OfDegree  # times (-1)ⁿ

    def __call__(self, x: Operand, n: Operand) -> Operand:
        """Evaluate pₙ(x)."""

        def inside(degree: Array) -> Array:
            angular = (np.abs(x) < 1) & (degree > MIN_DEGREE_BY_ANGLE)
            out = _recurrence(x, np.where(angular, 0.0, degree), self.first(x), lambda k, x, p, q: 2 * x * p - q)
            out[angular] = self.by_angle(np.arccos(x[angular]), degree[angular])
            return out

        return _with_ends(x, _truncate_degree(n), inside, self.at_1, self.at_minus_1)


T = ChebyshevKind(lambda x: x, lambda a, n: np.cos(n * a), np.ones_like, np.ones_like)
U = ChebyshevKind(lambda x: 2 * x, lambda a, n: np.sin((n + 1) * a) / np.sin(a), lambda n: n + 1, lambda n: n + 1)
V = ChebyshevKind(
    lambda x: 2 * x - 1, lambda a, n: np.cos((n + 0.5) * a) / np.cos(a / 2), np.ones_like, lambda n: 2 * n + 1
)
W = ChebyshevKind(
    lambda x: 2 * x + 1, lambda a, n: np.sin((n + 0.5) * a) / np.sin(a / 2), lambda n: 2 * n + 1, np.ones_like
)


@special_binary()
def chebyshev_polynomial_t(x: Array, y: Array) -> Array:
    """Tₙ(x) = cos n θ, x = cos θ, n = y: the Chebyshev polynomial of the first kind."""
    return T(x, y)


@special_binary()
def chebyshev_polynomial_u(x: Array, y: Array) -> Array:
    """Uₙ(x) = sin (n + 1)θ / sin θ, x = cos θ, n = y: the Chebyshev polynomial of the second kind."""
    return U(x, y)


@special_binary()
def chebyshev_polynomial_v(x: Array, y: Array) -> Array:
    """Vₙ(x) = cos (n + ½)θ / cos ½θ, x = cos θ, n = y: the Chebyshev polynomial of the third kind."""
    return V(x, y)


@special_binary()
def chebyshev_polynomial_w(x: Array, y: Array) -> Array:
    """Wₙ(x) = sin (n + ½)θ / sin ½θ, x = cos θ, n = y: the Chebyshev polynomial of the fourth kind."""
    return W(x, y)


@special_binary()
def shifted_chebyshev_polynomial_t(x: Array, y: Array) -> Array:
    """Tₙ(2x - 1), n = y."""
    return T(2 * x - 1, y)


@special_binary()
def shifted_chebyshev_polynomial_u(x: Array, y: Array) -> Array:
    """Uₙ(2x - 1), n = y."""
    return U(2 * x - 1, y)


@special_binary()
def shifted_chebyshev_polynomial_v(x: Array, y: Array) -> Array:
    """Vₙ(2x - 1), n = y."""
    return V(2 * x - 1, y)


@special_binary()
def shifted_chebyshev_polynomial_w(x: Array, y: Array) -> Array:
    """Wₙ(2x - 1), n = y."""
    return W(2 * x - 1, y)


@special_binary()
def hermite_polynomial_h(x: Array, y: Array) -> Array:
    """Hₙ(x), n = y: the physicist's Hermite polynomial, orthogonal under exp(-x²)."""
    return _recurrence(x, _truncate_degree(y), 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q)


@special_binary()
def hermite_polynomial_he(x: Array, y: Array) -> Array:
    """Heₙ(x), n = y: the probabilist's Hermite polynomial, orthogonal under exp(-x²/2)."""
    return _recurrence(x, _truncate_degree(y), x, lambda k, x, p, q: x * p - k * q)


@special_binary()
def laguerre_polynomial_l(x: Array, y: Array) -> Array:
    """Lₙ(x), n = y: the Laguerre polynomial, orthogonal under e⁻ˣ over x ≥ 0."""
    return _recurrence(x, _truncate_degree(y), 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1))


@special_binary()
def legendre_polynomial_p(x: Array, y: Array) -> Array:
    """Pₙ(x), n = y: the Legendre polynomial, orthogonal over [-1, 1]."""

    def inside(degree: Array) -> Array:
        return _recurrence(x, degree, x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1))

    return _with_ends(x, _truncate_degree(y), inside, np.ones_like, np.ones_like)
