"""The regularised incomplete gamma functions, which NumPy lacks: the series below, Lentz's fraction above the mean.

Source: Abramowitz & Stegun 6.5.29 and 6.5.31. They have a gradient in x; that in the order is not known in closed form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.families import binary
from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.transcendental import exp, log
from adjoint.ops.special.gamma import lgamma, lgamma_array

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

STEPS = 2000
TINY = 1e-300
ROUNDING = 4.5e-16  # two units in the last place of 1: a factor so near is as near as it comes


def _density(g: Operand, x: Operand, y: Operand) -> Tensor:
    """g times the slope in y: e⁻ʸ yˣ⁻¹ / Γ(x)."""
    return g * exp((x - 1.0) * log(y) - y - lgamma(x))


STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)  # in 1/a, 1/a³, …
STIRLING_FROM = 10.0
ATANH = tuple(1 / (2 * k + 1) for k in range(1, 16))  # of r³, r⁵, …


def _density_array(a: Array, x: Array) -> Array:
    """xᵃ e⁻ˣ / Γ(a), by differences of logarithms that keep their digits where a and x are large and near.

    Source: C. Loader, Fast and Accurate Computation of Binomial Probabilities, 2000.
    """
    large = a >= STIRLING_FROM
    y = np.where(large, a, STIRLING_FROM)
    rest = np.polynomial.polynomial.polyval(1.0 / (y * y), STIRLING) / y
    u = (x - y) / y
    r = u / (u + 2.0)  # ln(1 + u) = 2 (r + r³/3 + r⁵/5 + …)
    series = np.polynomial.polynomial.polyval(r * r, ATANH)
    apart = y * np.where(np.abs(r) < 0.25, r * (u - 2.0 * r * r * series), u - np.log(x / y))
    near = np.sqrt(y / (2.0 * np.pi)) * np.exp(-rest - apart)
    return np.where(large, near, np.exp(a * np.log(x) - x - lgamma_array(a)))


def _lower(a: Array, x: Array) -> Array:
    """P(a, x) for x < a + 1: Σ xⁿ / (a (a + 1) … (a + n)), scaled."""
    total = term = 1.0 / a
    for n in range(1, STEPS):
        term = term * x / (a + n)
        total = total + term
        if np.all(np.abs(term) < np.abs(total) * 1e-17):
            break
    return total * _density_array(a, x)


def _upper(a: Array, x: Array) -> Array:
    """Q(a, x) for x ≥ a + 1, a continued fraction."""
    b = x + 1.0 - a
    c, d = np.full_like(x, 1 / TINY), 1.0 / b
    total, going = d, np.ones(x.shape, np.bool_)
    for n in range(1, STEPS):
        factor = -n * (n - a)
        b = b + 2.0
        d = factor * d + b
        c = b + factor / c
        d = 1.0 / np.where(np.abs(d) < TINY, TINY, d)
        change = d * c
        total = np.where(going, total * change, total)  # each for itself: what goes on does not round the others
        going &= np.abs(change - 1.0) > ROUNDING
        if not going.any():
            break
    return total * _density_array(a, x)


def _both(a: Array, x: Operand) -> tuple[Array, Array]:
    """P and Q, in float64."""
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    valid = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    lower = np.where((a < 0) | (x < 0) | np.isnan(a) | np.isnan(x), np.nan, np.where((x == 0) & (a > 0), 0.0, 1.0))
    lower = np.where((a == np.inf) & np.isfinite(x) & (x >= 0), 0.0, lower)
    lower = np.where(((a == 0) & (x == 0)) | ((a == np.inf) & (x == np.inf)), np.nan, lower)
    upper = np.asarray(1.0 - lower)
    below = valid & (x < a + 1.0)
    above = valid & ~below
    lower[below] = _lower(a[below], x[below])
    upper[below] = 1.0 - lower[below]
    upper[above] = _upper(a[above], x[above])
    lower[above] = 1.0 - upper[above]
    return lower, upper


@binary(promotion="float", dy=_density)
def igamma(x: Array, y: Operand) -> Array:
    """P(x, y) = ∫₀ʸ e⁻ᵗ tˣ⁻¹ dt / Γ(x)."""
    return _both(x, y)[0].astype(x.dtype if hasattr(x, "dtype") else y.dtype, copy=False)


@binary(promotion="float", dy=lambda g, x, y: -_density(g, x, y))
def igammac(x: Array, y: Operand) -> Array:
    """1 - P(x, y)."""
    return _both(x, y)[1].astype(x.dtype if hasattr(x, "dtype") else y.dtype, copy=False)
