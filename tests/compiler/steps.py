"""Models and steps that the compiler's tests run twice: once eagerly, once compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

Step = Callable[..., Any]
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.05),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "dampening": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    "adam": lambda p: optim.Adam(p, lr=1e-3),
    "adamw": lambda p: optim.AdamW(p, lr=1e-3, amsgrad=True),
}


def mlp() -> Any:
    """12 features, 3 classes."""
    ad.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 3))


def cnn() -> Any:
    """(1, 8, 8), 3 classes; with running statistics and random masks."""
    ad.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.25),
        nn.Linear(64, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3),
    )  # fmt: skip


def batches(count: int, *shape: int, classes: int = 3) -> list[tuple[Any, Any]]:
    """Inputs and targets."""
    numbers = np.random.default_rng(1)
    return [
        (
            ad.from_numpy(numbers.normal(size=shape).astype(np.float32)),
            ad.from_numpy(numbers.integers(0, classes, shape[0])),
        )
        for _ in range(count)
    ]


def training(model: Any, optimizer: Any) -> Step:
    """The usual step."""

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def close(a: Any, b: Any, rough: float = 2e-6) -> None:
    """Assert that two tensors agree, to the rounding of float32."""
    x, y = a.detach().numpy(), b.detach().numpy()
    assert x.shape == y.shape
    assert x.dtype == y.dtype
    np.testing.assert_allclose(x, y, rtol=20 * rough, atol=rough * max(1.0, float(np.abs(y).max(initial=0))))


def same_state(ours: Any, theirs: Any, rough: float = 2e-6) -> None:
    """Assert that two models have the same parameters, buffers and gradients."""
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        try:
            close(a, b, rough)
        except AssertionError as error:
            error.add_note(name)
            raise
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            close(a.grad, b.grad, rough)
