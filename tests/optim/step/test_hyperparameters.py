"""Options that are tensors: a compiled step computes with them as the eager one does."""

from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
from adjoint import optim

WITH_DECAY = [
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ASGD",
    "Muon",
    "NAdam",
    "RAdam",
    "RMSprop",
    "SGD",
]


@pytest.mark.parametrize("kind", [ad.float32, ad.float64])
@pytest.mark.parametrize("name", WITH_DECAY)
def test_a_learning_rate_that_is_a_tensor_is_rounded_once(name: str, kind: ad.dtype) -> None:
    def train(compile: Callable[..., Callable[[], None]], lr: ad.Tensor | float) -> np.ndarray:
        w = ad.nn.Parameter(ad.arange(16, dtype=kind).reshape(4, 4).cos())
        optimizer = getattr(optim, name)([w], lr=lr, weight_decay=0.1)

        def step() -> None:
            optimizer.zero_grad()
            (w**2).sum().backward()
            optimizer.step()

        run = compile(step)
        for _ in range(5):
            run()
        assert w.dtype is kind
        return w.detach().numpy()

    if name == "Muon":
        pytest.importorskip("ml_dtypes")  # it computes in bfloat16
    lr = ad.tensor(0.001)
    eager = train(lambda step: step, lr)
    number = train(lambda step: step, lr.item())
    tolerance = 2e-6 if kind is ad.float32 else 1e-12
    np.testing.assert_allclose(eager, number, rtol=tolerance)
    pytest.importorskip("llvmlite")
    np.testing.assert_allclose(train(ad.compile, lr), eager, rtol=tolerance)
