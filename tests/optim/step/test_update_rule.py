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
