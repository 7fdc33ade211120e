"""`polygamma` and `lgamma` against many digits: left of zero by the reflection formula, at poles, near zeros."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad

FAR = [-1e7 - 0.3, -1e5 - 0.25, -100.499, -12.00001, -7.75, -3.3, -0.5, -1e-5, 0.3, 2.2, 50.0, 1e20, 1e-20]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_values(n: int) -> None:
    mpmath: Any = pytest.importorskip("mpmath")
    with mpmath.workdps(60):

        def exact(x: float) -> Any:
            if x > -1:
                return mpmath.polygamma(n, mpmath.mpf(x))
            slope = mpmath.diff(lambda z: mpmath.pi * mpmath.cot(mpmath.pi * z), mpmath.mpf(x), n)
            return (-1) ** n * mpmath.polygamma(n, 1 - mpmath.mpf(x)) - slope

        expected = [float(exact(x)) for x in FAR]
    got = ad.polygamma(n, ad.tensor(FAR, dtype=ad.float64)).numpy()
    np.testing.assert_allclose(got, expected, rtol=2e-13)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_poles_and_infinities(n: int) -> None:
    x = ad.tensor([0.0, -2.0, -1e7, -1e300, -np.inf, np.nan, np.inf], dtype=ad.float64)
    pole = np.inf if n % 2 else -np.inf
    np.testing.assert_array_equal(ad.polygamma(n, x).numpy(), [pole] * 4 + [np.nan, np.nan, 0.0])


def test_gradient_far_to_the_left() -> None:
    x = ad.tensor([-1e7 - 0.3], dtype=ad.float64, requires_grad=True)
    ad.polygamma(1, x).backward()
    assert x.grad.item() == ad.polygamma(2, x).item()


# by mpmath with 40 digits
LOGARITHMS = {
    0.6: 0.39823385806923495, 0.9999999999999989: 6.408381213480016e-16, 1.0000000000001: -5.767543092131184e-14,
    1.25: -0.09827183642181316, 1.49: -0.12110025854219772, 1.9999999999998: -8.45831595705306e-14,
    2.0000000000002: 8.448928258990094e-14, 2.45: 0.25014296569217626, 2.75: 0.47521466691493713,
    3.25: 0.9358019311087253, 1e-20: 46.051701859880914, -0.3: 1.4648400508576025, -0.7: 1.4524729387568078,
    -7.75: -8.581847763551867, 5.51: 3.9739348596289217, 9.99: 12.779315214350193, 10.0: 12.801827480081469,
    300.5: 1412.0535420412662, 1e200: 4.595170185988091e202,
}  # fmt: skip


@pytest.mark.parametrize("x", LOGARITHMS)
def test_logarithms_keep_their_digits_everywhere(x: float) -> None:
    given = ad.tensor([x] * 3, dtype=ad.float64)
    for found in (ad.lgamma(given), ad.compile(ad.lgamma)(given)):
        np.testing.assert_allclose(found.numpy(), LOGARITHMS[x], rtol=2e-15)


def test_logarithms_of_infinities_poles_and_what_is_too_large() -> None:
    x = ad.tensor([np.inf, -np.inf, np.nan, 0.0, -1.0, 1.7e308, 1.0, 2.0], dtype=ad.float64)
    expected = [np.inf, np.inf, np.nan, np.inf, np.inf, np.inf, 0.0, 0.0]
    np.testing.assert_array_equal(ad.lgamma(x).numpy(), expected)


# by mpmath with 40 digits
DERIVATIVES = {
    3: 0.0019900862371443544, 8: -4.8934615584055216e-05, 12: -3.7470635416758475e-05, 20: -0.0010307637762451416,
    30: -6.2224465669723275,
}  # fmt: skip


@pytest.mark.parametrize("n", DERIVATIVES)
def test_high_derivatives_of_digamma_keep_their_digits(n: int) -> None:
    found = ad.special.polygamma(n, ad.tensor(10.5, dtype=ad.float64)).item()
    np.testing.assert_allclose(found, DERIVATIVES[n], rtol=5e-15)
