"""The kernel that takes a large parameter through a whole step does what the ops do."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from tests.optim.test_every_optimizer import CASES

import adjoint as ad
from adjoint.core.op.eager_kernels import eager_kernels, kernel_provider

pytest.importorskip("llvmlite")
LARGE = [(name, options) for name, options in CASES if name != "Adafactor"]  # which has no kernel of its own
SHAPE = (160, 130)


def walked(name: str, options: dict[str, Any], dtype: Any, kernels: bool) -> list[Any]:
    rng = np.random.default_rng(0)
    p = ad.tensor(rng.normal(size=SHAPE), dtype=dtype, requires_grad=True)
    optimizer = getattr(ad.optim, name)([p], lr=0.05, **options)
    with eager_kernels(kernels):
        for _ in range(4):
            p.grad = ad.tensor(rng.normal(size=SHAPE), dtype=dtype)
            optimizer.step()
    return [p.detach().numpy(), *(value.numpy() for value in optimizer.state[p].values())]


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64], ids=str)
@pytest.mark.parametrize(("name", "options"), LARGE)
def test_kernels_and_ops_agree(name: str, options: dict[str, Any], dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_provider, "strict", True)
    monkeypatch.setattr(kernel_provider, "min_seconds", 0.0)
    native = import_module("adjoint.optim." + name.lower().replace("adamw", "adam")).UPDATE_KERNEL
    monkeypatch.setattr(native, "kernels", {})
    tolerance = 2e-5 if dtype is ad.float32 else 1e-12
    for a, b in zip(walked(name, options, dtype, True), walked(name, options, dtype, False), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance / 20)
    assert any(kernel is not None for kernel in native.kernels.values())


@pytest.mark.parametrize("through_numpy", [False, True])
def test_a_gradient_in_the_memory_of_the_parameter_is_read_before_that_is_written(through_numpy: bool) -> None:
    memory = np.arange(16.0, dtype=np.float32)
    if through_numpy:
        p, g = ad.from_numpy(memory[:15]).requires_grad_(), ad.from_numpy(memory[1:])
    else:
        held = ad.tensor(memory)
        p, g = held[:15].detach().requires_grad_(), held[1:]
    p.grad = g
    expected = memory[:15] - 0.5 * memory[1:]
    ad.optim.SGD([p], lr=0.5).step()
    np.testing.assert_allclose(p.detach().numpy(), expected)


def test_steps_of_a_small_parameter_are_counted_as_those_of_a_traced_one() -> None:
    p = ad.ones(3, requires_grad=True)
    optimizer = ad.optim.Adam([p])
    for count in range(1, 4):
        p.grad = ad.ones(3)
        version = optimizer.state[p]["step"]._version if count > 1 else 0
        optimizer.step()
        step = optimizer.state[p]["step"]
        assert step.item() == count
        assert step._version > version
