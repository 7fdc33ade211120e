"""The incomplete gamma functions against numbers of mpmath: to the digits of the exponent, whatever lies beside."""

from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad

# (order, x): (P, Q), by mpmath with 40 digits
VALUES = {
    (3, 8.87704251506937): (0.9931229472432963, 0.006877052756703739),
    (0.5, 0.3): (0.5614219739190002, 0.4385780260809999),
    (2.5, 4.0): (0.8437643724222776, 0.15623562757772233),
    (12, 10.0): (0.3032238536968933, 0.6967761463031067),
    (25, 40.0): (0.9955173434344268, 0.004482656565573204),
    (100, 80.0): (0.017108313035133115, 0.9828916869648668),
    (100, 130.0): (0.9972495916326934, 0.002750408367306526),
    (10_000, 10_050.0): (0.6923424407025656, 0.30765755929743444),
}


@pytest.mark.parametrize("given", VALUES)
def test_values_keep_their_digits(given: tuple[float, float]) -> None:
    a, x = (ad.tensor(float(v), dtype=ad.float64) for v in given)
    below, above = VALUES[given]
    np.testing.assert_allclose(ad.special.gammainc(a, x).item(), below, rtol=4e-15)
    np.testing.assert_allclose(ad.special.gammaincc(a, x).item(), above, rtol=4e-15)


@pytest.mark.parametrize("function", [ad.special.gammainc, ad.special.gammaincc])
def test_a_value_does_not_depend_on_its_neighbours(function: Callable[..., ad.Tensor]) -> None:
    orders = ad.tensor([float(a) for a, _ in VALUES] * 40, dtype=ad.float64)
    x = ad.tensor([x for _, x in VALUES] * 40, dtype=ad.float64)
    together = function(orders, x).tolist()
    assert together == [function(a, b).item() for a, b in zip(orders, x, strict=True)]
