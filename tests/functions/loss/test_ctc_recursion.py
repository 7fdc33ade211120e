"""The recursion of CTC on arrays, beside the same in recorded ops."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from adjoint.functions.loss.ctc import _run_recursion
from adjoint.functions.loss.ctc_recursion import CtcRecursion

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("width", [1, 3, 7])
def test_values_and_gradients_are_those_of_recorded_ops(width: int) -> None:
    spoken = RANDOM.normal(size=(6, 2, width)) - 1
    skips = ad.tensor(RANDOM.random((2, width)) > 0.5) if width > 2 else None
    spans, last = ad.tensor([6, 4]), ad.tensor([[width - 1], [0]])
    results = []
    for function in (lambda *x: CtcRecursion.apply(_run_recursion, *x), _run_recursion):
        x = ad.tensor(spoken, requires_grad=True)
        final, before = function(x, skips, spans, last)
        (2 * final + before).sum().backward()
        results.append((final.detach().numpy(), before.detach().numpy(), x.grad.numpy()))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_gradients_of_gradients() -> None:
    x = ad.tensor(RANDOM.normal(size=(5, 1, 4)), requires_grad=True)

    def loss(x: ad.Tensor) -> ad.Tensor:
        return ad.nn.functional.ctc_loss(x.log_softmax(-1), ad.tensor([[1, 2]]), ad.tensor([5]), ad.tensor([2]))

    assert ad.autograd.gradcheck(loss, x)
    assert ad.autograd.gradgradcheck(loss, x)
