"""Slopes of activations far from 0: as exact as their type allows."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64], ids=str)
@pytest.mark.parametrize("name", ["elu", "celu", "selu", "expm1"])
def test_slopes_far_below_zero_keep_their_digits(name: str, dtype: Any) -> None:
    function = getattr(F, name, None) or getattr(ad, name)
    factor = 1.7580993408473766 if name == "selu" else 1.0
    x = ad.tensor([-1e-3, -1.0, -8.4784, -16.0, -20.0, -37.5, -56.8, -80.0], dtype=dtype, requires_grad=True)
    wanted = factor * np.exp(x.detach().numpy().astype(np.float64))
    ones = ad.ones_like(x)
    for form in (function, ad.compile(function)):
        (slope,) = ad.autograd.grad(form(x), x, ones)
        np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-12 if dtype == ad.float64 else 1e-6)
    tangent = ad.func.jvp(function, (x.detach(),), (ones,))[1]
    np.testing.assert_allclose(tangent.numpy(), wanted, rtol=1e-12 if dtype == ad.float64 else 1e-6)
