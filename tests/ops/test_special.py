"""Special functions against 40 digits: to the last digits over their whole domains."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.eager_kernels import eager_kernels
from adjoint.ops.special import bessel, gamma, normal_cdf, orthogonal_polynomials, zeta
from adjoint.ops.special.chebyshev import chebyshev

mp: Any = pytest.importorskip("mpmath").mp.clone()
mp.dps = 40
NUMBERS = np.random.default_rng(0)
SMALL = 10.0 ** NUMBERS.uniform(-300, 0, 30)
POSITIVE = np.concatenate([SMALL, NUMBERS.uniform(0, 3, 60), NUMBERS.uniform(3, 20, 60), NUMBERS.uniform(20, 700, 40)])
EITHER = np.concatenate([POSITIVE, -POSITIVE])
FAR = np.concatenate([POSITIVE, 10.0 ** NUMBERS.uniform(2, 9, 20)])
SHARES = np.concatenate([10.0 ** NUMBERS.uniform(-307, 0, 100), NUMBERS.uniform(0, 1, 100)])


def largest_error(function: Any, exact: Callable[[Any], Any], at: Any, size: Any = None) -> float:
    """The largest error, over the value or the size of the function about there."""
    found = function.op.evaluate(np.asarray(at))
    worst = 0.0
    for x, got in zip(at.tolist(), found.tolist(), strict=True):
        x = mp.mpf(x)
        value = exact(x)
        scale = max(abs(value), size(x)) if size else abs(value)
        if float(value) != got:
            worst = max(worst, float(abs(got - value) / scale))
    return worst


def wave(x: Any) -> Any:
    """The amplitude with which Bessel functions oscillate."""
    return mp.sqrt(2 / (mp.pi * abs(x))) if abs(x) > 0.5 else 0


@pytest.mark.parametrize("n", [0, 1])
def test_bessel_functions(n: int) -> None:
    b: Any = bessel
    first, second = getattr(b, f"bessel_j{n}"), getattr(b, f"bessel_y{n}")
    assert largest_error(first, lambda x: mp.besselj(n, x), np.concatenate([FAR, -FAR]), wave) < 3e-15
    assert largest_error(second, lambda x: mp.bessely(n, x), FAR, wave) < 3e-15
    assert largest_error(getattr(b, f"i{n}"), lambda x: mp.besseli(n, x), EITHER) < 3e-15
    assert largest_error(getattr(b, f"i{n}e"), lambda x: mp.besseli(n, x) * mp.exp(-abs(x)), EITHER) < 3e-15
    decaying, scaled = getattr(b, f"modified_bessel_k{n}"), getattr(b, f"scaled_modified_bessel_k{n}")
    assert largest_error(decaying, lambda x: mp.besselk(n, x), POSITIVE) < 3e-15
    assert largest_error(scaled, lambda x: mp.besselk(n, x) * mp.exp(x), POSITIVE) < 3e-15


def test_spherical_bessel_function() -> None:
    assert largest_error(bessel.spherical_bessel_j0, lambda x: mp.sin(x) / x, EITHER) < 1e-15


def test_airy_function() -> None:
    """Where it is steep, the last bit of x alone moves the value by x^1.5 of its last bits."""
    near, right, left = (NUMBERS.uniform(*ends, 150) for ends in ((-2.2, 10), (10, 100), (-100, -2)))
    assert largest_error(bessel.airy_ai, mp.airyai, near) < 3e-14
    assert largest_error(bessel.airy_ai, mp.airyai, right) < 1e3 * 5e-16
    assert largest_error(bessel.airy_ai, mp.airyai, left, lambda x: 1 / mp.sqrt(mp.pi * mp.sqrt(-x))) < 1e3 * 5e-16


def scaled_erfc(x: Any) -> Any:
    if x > 1e3:
        return (1 - 1 / (2 * x**2) + 3 / (4 * x**4)) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x)


def quantile(p: Any) -> Any:
    if p > 0.5:
        return -quantile(1 - p)
    x = mp.sqrt(-2 * mp.log(p))
    start = (mp.log(x) + mp.log(2 * mp.pi) / 2) / x - x if x > 2 else mp.mpf(-0.5)
    return mp.findroot(lambda z: mp.log(mp.erfc(-z / mp.sqrt(2)) / 2) - mp.log(p), start)


def test_normal_distribution() -> None:
    parts = NUMBERS.uniform(-26.5, 5, 150), NUMBERS.uniform(0, 5, 100), 10.0 ** NUMBERS.uniform(-300, 300, 60)
    at = np.concatenate(parts)
    assert largest_error(normal_cdf.erfcx, scaled_erfc, at) < 1e-15
    at = np.concatenate([NUMBERS.uniform(-5, 5, 150), NUMBERS.uniform(-300, -5, 60)])
    assert largest_error(normal_cdf.log_ndtr, lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), at) < 1e-14
    assert largest_error(normal_cdf.ndtri, quantile, SHARES) < 2e-15


def test_zeta() -> None:
    with mp.workdps(400):  # its own error is absolute
        s = np.concatenate([10.0 ** NUMBERS.uniform(0.01, 2.5, 20), NUMBERS.integers(2, 60, 15)])
        q = np.concatenate([10.0 ** NUMBERS.uniform(-3, 4, 20), NUMBERS.uniform(-15, 0, 15)])
        found: Any = zeta.zeta.op.evaluate(s, q)  # type: ignore[attr-defined]
        for a, b, got in zip(s.tolist(), q.tolist(), found.tolist(), strict=True):
            steps = 20 if b < 0 else 0
            exact = sum((b + mp.mpf(k)) ** -int(a) for k in range(steps)) + mp.zeta(a, mp.mpf(b) + steps)
            if 1e-300 < abs(exact) < 1e300:
                assert abs(got / exact - 1) < 1e-14


@pytest.mark.parametrize(
    ("f", "exact"),
    [
        (orthogonal_polynomials.chebyshev_polynomial_t, lambda n, x: mp.chebyt(n, x)),
        (orthogonal_polynomials.chebyshev_polynomial_u, lambda n, x: mp.chebyu(n, x)),
        (orthogonal_polynomials.hermite_polynomial_h, lambda n, x: mp.hermite(n, x)),
        (orthogonal_polynomials.laguerre_polynomial_l, lambda n, x: mp.laguerre(n, 0, x)),
        (orthogonal_polynomials.legendre_polynomial_p, lambda n, x: mp.legendre(n, x)),
    ],
)
def test_polynomials(f: Any, exact: Callable[[int, Any], Any]) -> None:
    x = NUMBERS.uniform(-1, 1, 20)
    for n in (2, 5, 9, 30):
        expected = np.array([float(exact(n, mp.mpf(v))) for v in x.tolist()])
        found = f.op.evaluate(x, np.full(20, float(n)))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


def test_series_are_summed_by_their_recurrence() -> None:
    t = np.linspace(-1, 1, 7)
    np.testing.assert_allclose(chebyshev((0.5, 2.0, -1.0, 3.0), t), np.polynomial.chebyshev.chebval(t, [0.5, 2, -1, 3]))


KERNELS: dict[str, tuple[Any, Any]] = {
    "erfinv": (normal_cdf.erfinv, NUMBERS.uniform(-1, 1, 5000)),
    "ndtri": (normal_cdf.ndtri, np.concatenate([SHARES, NUMBERS.uniform(0, 1, 5000)])),
    "lgamma": (gamma.lgamma, NUMBERS.uniform(-30, 30, 5000)),
    "digamma": (gamma.digamma, NUMBERS.uniform(-30, 30, 5000)),
    "i0": (bessel.i0, NUMBERS.uniform(-80, 80, 5000)),
    "i0e": (bessel.i0e, NUMBERS.uniform(-80, 80, 5000)),
    "i1": (bessel.i1, NUMBERS.uniform(-80, 80, 5000)),
    "i1e": (bessel.i1e, NUMBERS.uniform(-80, 80, 5000)),
}
ENDS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.75, 0.125, 0.875, 8.0, 1e-30, -1e-30, 1e30, -1e30, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compute_what_numpy_does(name: str, dtype: Any) -> None:
    function, at = KERNELS[name]
    x = np.concatenate([np.array(ENDS), at]).astype(dtype)
    with eager_kernels(False):
        expected = function.op.evaluate(x.astype(np.float64))
    got = function(ad.from_numpy(x)).numpy()
    assert any(kernel is not None for kernel in function.kernel.kernels.values())
    assert got.dtype == dtype
    with np.errstate(over="ignore"):
        rounded = expected.astype(dtype)
    exact = ~np.isfinite(rounded) | (rounded == 0)
    np.testing.assert_array_equal(got[exact], rounded[exact])
    # near the zeros of the logarithm of the gamma function and of its derivative float64 cancels
    least = 1e-12 if "gamma" in name else 0.0
    np.testing.assert_allclose(got, rounded, rtol=1.2e-7 if dtype == np.float32 else 3e-15, atol=least)
