"""The gamma function's logarithm and its derivatives, and the inverse of erf: what NumPy lacks, in float64 inside.

Sources: Abramowitz & Stegun 6.3.7, 6.3.18 (reflection, asymptotic series), 23.2.9 (ζ by Euler and Maclaurin); the start
for erf⁻¹ is Giles, "Approximating the erfinv function", 2010.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from adjoint.core.families import primitive, unary
from adjoint.core.spec import Spec
from adjoint.ops.error_function import erf_array
from adjoint.ops.transcendental import exp

Evaluate = Callable[..., Any]
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # B₂, B₄, …
FAR = 10.0  # from here on the series have converged


def in_float64(function: Evaluate) -> Evaluate:
    """`function`, which computes with float64 vectors, for arrays of any floating type and shape."""

    @wraps(function)
    def call(x: Any, **params: Any) -> Any:
        array = np.asarray(x)
        with np.errstate(all="ignore"):
            out = function(array.astype(np.float64).reshape(-1), **params)
        return out.reshape(array.shape).astype(array.dtype, copy=False)

    call.parameters = ("x",)  # type: ignore[attr-defined]
    return call


@in_float64
def lgamma_array(x: Any) -> Any:
    """ln |Γ(x)| of an array."""
    poles = (x <= 0) & (x == np.floor(x)) | np.isinf(x)
    safe = np.where(poles, 1.0, x)
    return np.where(poles, np.inf, np.fromiter(map(math.lgamma, safe.tolist()), np.float64, safe.size))


@unary(refuses="c", promotion="float", dx=lambda g, x: g * digamma(x))
def lgamma(x: Any) -> Any:
    """ln |Γ(x)|."""
    return lgamma_array(x)


@in_float64
def _digamma_array(x: Any) -> Any:
    left = x < 0.5
    y = np.where(left, 1.0 - x, x)
    total = np.zeros_like(y)
    for _ in range(int(FAR)):
        near = y < FAR
        total -= np.where(near, 1.0 / np.where(near, y, 1.0), 0.0)
        y = y + near
    square = 1.0 / (y * y)
    series = sum(b / (2 * k) * square**k for k, b in enumerate(BERNOULLI, 1))
    total += np.log(y) - 0.5 / y - series
    out = np.where(left, total - np.pi / np.tan(np.pi * np.where(left, x, 0.25)), total)
    out = np.where(left & (x == np.floor(x)), np.nan, out)
    return np.where(x == 0, np.copysign(np.inf, -x), np.where(x == -np.inf, np.nan, out))


@unary(refuses="c", promotion="float", dx=lambda g, x: g * polygamma(x, n=1))
def digamma(x: Any) -> Any:
    """The derivative of ln Γ(x)."""
    return _digamma_array(x)


@in_float64
def _polygamma_array(x: Any, *, n: int) -> Any:
    """±n! ζ(n + 1, x), and by reflection at ½ where x < 0: (-1)ⁿ ψ(1 - x) less the n-th derivative of π cot πx."""
    left = x < 0
    out = (-1.0) ** (n + 1) * math.factorial(n) * _hurwitz(np.where(left, 1.0 - x, x), n + 1.0)
    nearest = np.round(x)
    slope = np.poly1d([1.0, 0.0])  # of the cotangent c, whose derivative is -1 - c²
    for _ in range(n):
        slope = np.polymul(slope.deriv(), np.poly1d([-1.0, 0.0, -1.0]))
    cot = 1.0 / np.tan(np.pi * np.where(left, x - nearest, 0.25))
    out = np.where(left, (-1.0) ** n * out - np.pi ** (n + 1) * slope(cot), out)
    pole = (x <= 0) & (x == nearest) & np.isfinite(x)
    return np.where(pole, np.copysign(np.inf, (-1.0) ** (n + 1)), np.where(x == -np.inf, np.nan, out))


def _hurwitz(x: Any, s: float) -> Any:
    """ζ(s, x) = Σ (x + k)⁻ˢ for x ≥ 0: terms up to FAR, then the integral of the rest and its corrections."""
    total, y = np.zeros_like(x), x.copy()
    for _ in range(int(FAR)):
        near = y < FAR
        total += np.where(near, np.where(near, y, 1.0) ** -s, 0.0)
        y = y + near
    total += y ** (1.0 - s) / (s - 1.0) + 0.5 * y**-s
    term = s * y ** (-s - 1.0)
    for k, b in enumerate(BERNOULLI, 1):
        total += b / math.factorial(2 * k) * term
        term = term * (s + 2 * k - 1) * (s + 2 * k) / (y * y)
    return total


@primitive(
    family="elementwise",
    promotion="float",
    spec=lambda x, *, n: Spec(x.shape, x.dtype),
    dx=lambda g, x, n: g * polygamma(x, n=n + 1),
)
def polygamma(x: Any, *, n: int) -> Any:
    """The n-th derivative of digamma, n ≥ 1."""
    return _polygamma_array(x, n=n)


CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip


@in_float64
def _erfinv_array(y: Any) -> Any:
    w = -np.log((1.0 - y) * (1.0 + y))
    x = y * np.where(w < 5, np.polyval(CENTRAL, w - 2.5), np.polyval(TAIL, np.sqrt(np.maximum(w, 5.0)) - 3.0))
    for _ in range(2):
        error = erf_array(x) - y
        x = x - error / (2 / math.sqrt(math.pi) * np.exp(-x * x) + x * error)  # Halley's step
    return np.where(np.abs(y) == 1, np.copysign(np.inf, y), np.where(np.abs(y) > 1, np.nan, x))


@unary(refuses="c", promotion="float", dx=lambda g, out: g * (exp(out * out) * (math.sqrt(math.pi) / 2)))
def erfinv(x: Any) -> Any:
    """The number whose erf is x."""
    return _erfinv_array(x)
