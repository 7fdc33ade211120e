"""Implicit derivatives of gamma and beta numbers by their parameters: -(∂F/∂α) / f, which has no closed form.

Piecewise approximations as PyTorch has them: Taylor series near the ends, Rice's saddle point expansion where the
parameters are large, and rational functions fitted to what lies between. Source: Jankowiak and Obermeyer, 2018.
"""

from __future__ import annotations

import numpy as np

from adjoint.core.typing import Array, Function
from adjoint.ops.special.chebyshev import parse_numbers
from adjoint.ops.special.gamma import digamma_array

# p and q of exp(p / q), the gamma gradient between: coefficients of u**i v**j, u = ln(x / α), v = ln α.
GAMMA_NUMBERS = parse_numbers("""
0.16009398 -0.094634809 0.025146376 -0.0030648343 1 0.32668115 0.10406089 0.0014179084
0.53487893 0.1298071 0.065735949 -0.0015649758 0.16639465 0.020070113 -0.0035938915 -0.00058392623
0.040121004 -0.0065914022 -0.0026286047 -0.0013441777 0.017050642 -0.0021309326 0.00085092367 -1.5247877e-07
""")
GAMMA = np.array(GAMMA_NUMBERS).reshape(3, 2, 4).swapaxes(0, 1)

# The same for the beta gradient: coefficients of u**i a**j b**k.
BETA_NUMBERS = parse_numbers("""
1.003668233 -0.01061107488 -0.0657888334 0.01201642863 0.6336835991 -0.3557432599
0.05486251648 -0.001465281033 -0.03276231906 0.004474107445 0.002429354597 -0.0001557569013
0.221950385 -0.3187676331 0.01799915743 0.01074823814 -0.2951249643 0.06219954479
0.01535556598 0.001550077057 0.02155310298 0.004170831599 0.001292462449 6.976601077e-05
-0.05980841433 0.008441916499 0.01085618172 0.002319392565 0.02911413504 0.01400243777
-0.002721828457 0.000751041181 0.005900514878 -0.001936558688 -9.495446725e-06 5.385558597e-05
1 -0.02924021934 -0.04438342661 0.007285809825 0.6357567472 -0.3473456711
0.05454656494 -0.002407477521 -0.03301322327 0.004845219414 0.00231480583 -0.0002307248149
0.5925320577 -0.1757678135 0.01505928619 0.000564515273 0.1014815858 -0.06589186703
0.01272886114 -0.0007316646956 -0.007258481865 0.001096195486 0.0003934994223 -4.12701925e-05
0.06469649321 -0.0236701437 0.002902096474 -5.896963079e-05 0.001925008108 -0.002869809258
0.0008000589141 -6.063713228e-05 -0.0003477407336 6.959756487e-05 1.097287507e-05 -1.650964693e-06
""")
BETA = np.array(BETA_NUMBERS).reshape(2, 3, 3, 4)


def gamma_gradient(alpha: Array, x: Array) -> Array:
    """∂x / ∂α of a gamma number x of shape α, in the type of α."""
    a, z = (np.asarray(v, np.float64) for v in np.broadcast_arrays(alpha, x))
    large, near = a > 8, (0.9 * a <= z) & (z <= 1.1 * a)
    pieces = [(z < 0.8, _gamma_series), (large & near, _gamma_middle), (large, _gamma_saddle), (None, _gamma_fitted)]
    return _piecewise(pieces, a, z).astype(alpha.dtype)


def dirichlet_gradient(x: Array, alpha: Array, total: Array) -> Array:
    """∂x / ∂α / (1 - x) of a beta number x of α and total - α, in the type of x."""
    z, a, n = (np.asarray(v, np.float64) for v in np.broadcast_arrays(x, alpha, total))
    boundary = n * z * (1 - z)
    pieces = [
        ((z <= 0.5) & (boundary < 2.5), _beta_from_zero),
        ((z >= 0.5) & (boundary < 0.75), _beta_from_one),
        ((a > 6) & (n - a > 6), _beta_saddle),
        (None, _beta_fitted),
    ]
    return _piecewise(pieces, z, a, n).astype(x.dtype)


def _piecewise(pieces: list[tuple[Array | None, Function]], *operands: Array) -> Array:
    """Evaluate each element by the first piece whose condition holds."""
    out, open_ = np.empty(operands[0].shape), np.ones(operands[0].shape, np.bool_)
    for condition, function in pieces:
        here = open_ if condition is None else open_ & condition
        if here.any():
            out[here] = function(*[v[here] for v in operands])
        open_ = open_ & ~here
    return out


def _gamma_series(a: Array, x: Array) -> Array:
    term, denominator = np.ones_like(x), a.copy()
    first, second = term / a, term / (a * a)
    for i in range(1, 6):
        term = term * -x / i
        denominator = denominator + 1
        first, second = first + term / denominator, second + term / (denominator * denominator)
    power = x**a
    slope = (np.log(x) - digamma_array(a)) * (power * first) - power * second
    return np.nan_to_num(-slope / (x ** (a - 1) * np.exp(-x)), posinf=np.inf, neginf=-np.inf)


def _gamma_middle(a: Array, x: Array) -> Array:
    left = 1 + 24 * a * (1 + 12 * a)
    right = 1440 * (a * a) + 6 * x * (53 - 120 * x) - 65 * x * x / a + a * (107 + 3600 * x)
    return left * right / (1244160 * (a * a) * (a * a))


def _gamma_saddle(a: Array, x: Array) -> Array:
    scale, ratio = np.sqrt(8 * a), np.log(x / a)
    bend = (x - a - a * ratio) ** -1.5
    both = scale / (a - x) + np.where(x < a, -bend, bend)
    term = ratio * both - np.sqrt(2 / a) * (a + x) / ((a - x) * (a - x))
    stirling = 1 + 1 / (12 * a) * (1 + 1 / (24 * a))
    return -stirling * x * term / scale


def _gamma_fitted(a: Array, x: Array) -> Array:
    powers_u, powers_v = _powers(np.log(x / a), 3), _powers(np.log(a), 4)
    p, q = np.einsum("tij,ix,jx->tx", GAMMA, powers_u, powers_v)
    return np.exp(p / q)


def _beta_from_zero(x: Array, alpha: Array, total: Array) -> Array:
    beta = total - alpha
    factor = digamma_array(alpha) - digamma_array(total) - np.log(x)
    term, series = np.ones_like(x), (factor + 1 / alpha) / alpha
    for i in range(1, 11):
        term = term * ((i - beta) * x / i)
        series = series + term / (alpha + i) * (factor + 1 / (alpha + i))
    return np.nan_to_num(x * (1 - x) ** -beta * series, posinf=np.inf, neginf=-np.inf)


def _beta_from_one(x: Array, alpha: Array, total: Array) -> Array:
    """The series of 1 - x, a number of the beta distribution whose parameters are exchanged."""
    y, a, b = 1 - x, total - alpha, alpha
    factor = digamma_array(total) - digamma_array(b)
    term, product, slope, series = np.ones_like(y), np.ones_like(y), np.zeros_like(y), factor / a
    for i in range(1, 9):
        term = term * -y / i
        slope = slope * (b - i) + product
        product = product * (b - i)
        series = series + term / (a + i) * (slope + factor * product)
    return np.nan_to_num((1 - y) ** (1 - b) * series, posinf=np.inf, neginf=-np.inf)


def _beta_saddle(x: Array, alpha: Array, total: Array) -> Array:
    beta, mean = total - alpha, alpha / total
    spread = np.sqrt(alpha * beta / (total + 1)) / total
    near = (mean - 0.1 * spread <= x) & (x <= mean + 0.1 * spread)
    return _piecewise([(near, _beta_middle), (None, _beta_far)], x, alpha, beta, total, mean)


def _beta_middle(x: Array, a: Array, b: Array, total: Array, _: Array) -> Array:
    innermost = 8 * (1 - x) * (135 * b - 11)
    poly = (453 + 1620 * b * (1 - x) - 455 * x) * b + a * innermost
    poly = 3 * (59 + 180 * b - 90 * x) * b**2 + a * poly
    poly = (43 + 20 * (16 + 27 * b) * x) * b**3 + a * poly
    poly = 47 * x * b**4 + a * poly
    scale = (1 + 12 * a) * (1 + 12 * b) / total**2
    return scale / (1 - x) * poly / (12960 * a**3 * b**2 * (1 + 12 * total))


def _beta_far(x: Array, a: Array, b: Array, total: Array, mean: Array) -> Array:
    stirling = _stirling(a) * _stirling(b) / _stirling(total)
    off = a * (x - 1) + b * x
    first = 2 * a**2 * (x - 1) + a * b * (x - 1) - x * b**2
    first = first / (np.sqrt(2 * a / b) * total**1.5 * off * off)
    ratio = np.log(a / (total * x))
    bend = (b * np.log(b / (total * (1 - x))) + a * ratio) ** -1.5
    rest = np.sqrt(8 * a * b / total) / off + np.where(x < mean, bend, -bend)
    return stirling * (-x / np.sqrt(2 * a * b / total)) * (first + 0.5 * ratio * rest)


def _beta_fitted(x: Array, alpha: Array, total: Array) -> Array:
    u = np.log(x)
    a = np.log(alpha) - u
    b = np.log(total) - a
    p, q = np.einsum("tijk,ix,jx,kx->tx", BETA, _powers(u, 3), _powers(a, 3), _powers(b, 4))
    return p / q * (x * (digamma_array(total) - digamma_array(alpha)) / (total - alpha))


def _stirling(n: Array) -> Array:
    return 1 + 1 / (12 * n) + 1 / (288 * n * n)


def _powers(x: Array, count: int) -> Array:
    return x ** np.arange(count)[:, None]
