"""Both modes of differentiation: what forward and reverse give, and that forward keeps no graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad


def polynomial(x: Any) -> Any:
    return x * x + 3.0 * x + 2.0


@pytest.mark.claim("2.9")
def test_both_modes() -> None:
    five, one = ad.tensor(5.0, dtype=ad.float64), ad.tensor(1.0, dtype=ad.float64)
    value, slope = ad.func.jvp(polynomial, (five,), (one,))
    assert (value.item(), slope.item()) == (42.0, 13.0)
    value, pull = ad.func.vjp(polynomial, five)
    assert (value.item(), pull(one)[0].item()) == (42.0, 13.0)


@pytest.mark.claim("2.9")
def test_forward_and_reverse_jacobians_agree() -> None:
    def f(x: Any) -> Any:
        return ad.stack([(x * x).sum(), ad.sin(x[0]) * x[1], x.prod(), ad.exp(x[2])])

    x = ad.tensor([0.3, 0.7, 1.1], dtype=ad.float64)
    forward, reverse = ad.func.jacfwd(f)(x), ad.func.jacrev(f)(x)
    np.testing.assert_allclose(forward.numpy(), reverse.numpy(), rtol=1e-14)
    assert forward.shape == (4, 3)


@pytest.mark.claim("2.9")
def test_forward_mode_stores_no_graph() -> None:
    nodes: list[Any] = []

    def seen(x: Any) -> Any:
        y = polynomial(x)
        nodes.extend(t.grad_fn for t in (x, y))
        assert not y.requires_grad
        return y

    ad.func.jvp(seen, (ad.ones(3),), (ad.ones(3),))
    assert nodes == [None, None]
