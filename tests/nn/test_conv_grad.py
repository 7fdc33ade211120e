"""`nn.grad`: the gradients of convolutions by themselves, and masks of causal attention as tensors."""

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gradients_are_those_of_the_convolution(rank: int) -> None:
    conv = getattr(nn.functional, f"conv{rank}d")
    rng = np.random.default_rng(rank)
    x = ad.tensor(rng.normal(size=(2, 4, *(6,) * rank))).requires_grad_()
    w = ad.tensor(rng.normal(size=(6, 2, *(3,) * rank))).requires_grad_()
    out = conv(x, w, None, 2, 1, 1, 2)
    g = ad.tensor(rng.normal(size=tuple(out.shape)))
    dx, dw = ad.autograd.grad(out, (x, w), g)
    to_input, to_weight = getattr(nn.grad, f"conv{rank}d_input"), getattr(nn.grad, f"conv{rank}d_weight")
    np.testing.assert_allclose(to_input(x.shape, w.detach(), g, 2, 1, 1, 2).numpy(), dx.numpy(), rtol=1e-10)
    np.testing.assert_allclose(to_weight(x.detach(), w.shape, g, 2, 1, 1, 2).numpy(), dw.numpy(), rtol=1e-10)


def test_they_have_gradients_themselves() -> None:
    w, g = ad.ones(1, 1, 2, dtype=ad.float64).requires_grad_(), ad.ones(1, 1, 3, dtype=ad.float64)
    nn.grad.conv1d_input((1, 1, 4), w, g).sum().backward()
    assert w.grad.tolist() == [[[3, 3]]]


def test_functional_has_them_too() -> None:
    assert nn.functional.grad.conv2d_weight is nn.grad.conv2d_weight  # type: ignore[attr-defined]
