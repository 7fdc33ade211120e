"""Modules of the library that are observed: hooks that set a weight before each call, in steps between eager ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn, optim

pytest.importorskip("llvmlite")


def pruned(layer: Any) -> Any:
    """A layer without half of its weights."""
    nn.utils.prune.l1_unstructured(layer, "weight", amount=0.5)
    return layer


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "weight_norm": nn.utils.weight_norm, "spectral_norm": nn.utils.spectral_norm, "prune": pruned,
}  # fmt: skip


def make_training(wrapper: Callable[[Any], Any]) -> tuple[Any, Callable[[Any], Any]]:
    """A layer, and a training step of the model that it is a part of."""
    ad.manual_seed(0)
    layer = wrapper(nn.Linear(4, 3))
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), layer)
    optimizer = optim.Adam(model.parameters(), lr=0.05)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return layer, step


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize("name", WRAPPERS)
def test_a_weight_that_a_hook_sets_is_there_after_each_call_and_forces_no_new_trace(name: str) -> None:
    layer, step = make_training(WRAPPERS[name])
    other, eager = make_training(WRAPPERS[name])
    compiled = ad.compile(step)
    for i in range(8):
        x = ad.randn(5, 4)
        (step if i in {0, 3, 5} else compiled)(x)  # as programs do that are measured both ways
        eager(x)
        assert layer.weight.requires_grad
        np.testing.assert_allclose(layer.weight.detach().numpy(), other.weight.detach().numpy(), rtol=1e-4, atol=1e-6)
    assert compiled.compilations == 1


def test_a_module_with_hooks_that_is_changed_and_changed_back_needs_no_new_trace() -> None:
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda module, inputs, output: output * 2)
    compiled = ad.compile(lambda x: layer(x).sum())
    x = ad.ones(1, 2)
    for i in range(4):
        compiled(x)
        layer.name = str(i)  # a change that counts,
        del layer.name  # taken back
        handle = layer.register_forward_hook(lambda module, inputs, output: output + 1)
        handle.remove()
    assert compiled.compilations == 1
