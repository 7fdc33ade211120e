"""`polygamma` left of zero, against the reflection formula in many digits, and at its poles."""

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
