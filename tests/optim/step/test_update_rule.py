"""The kernel that takes a parameter through a whole step does what the ops do."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from tests.optim.test_every_optimizer import CASES

import adjoint as ad
from adjoint.core.op.eager_kernels import eager_kernels, kernel_provider
from adjoint.optim.step.update_rule import UpdateKernel

pytest.importorskip("llvmlite")
WITH_KERNELS = [(name, options) for name, options in CASES if name != "Adafactor"]
LARGE, SMALL = (160, 130), (5, 67)


def walked(name: str, options: dict[str, Any], dtype: Any, shape: tuple[int, ...], kernels: bool) -> list[Any]:
    rng = np.random.default_rng(0)
    p = ad.tensor(rng.normal(size=shape), dtype=dtype, requires_grad=True)
    optimizer = getattr(ad.optim, name)([p], lr=0.05, **options)
    with eager_kernels(kernels):
        for _ in range(7):  # RAdam rectifies from the sixth on
            p.grad = ad.tensor(rng.normal(size=shape), dtype=dtype)
            optimizer.step()
    return [p.detach().numpy(), *(value.numpy() for value in optimizer.state[p].values())]


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64], ids=str)
@pytest.mark.parametrize(("name", "options"), WITH_KERNELS)
def test_kernels_and_ops_agree(name: str, options: dict[str, Any], dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_provider, "strict", True)
    monkeypatch.setattr(kernel_provider, "min_seconds", 0.0)
    native = _kernel_of(name)
    monkeypatch.setattr(native, "kernels", {})
    tolerance = 2e-5 if dtype is ad.float32 else 1e-12
    pairs = zip(walked(name, options, dtype, LARGE, True), walked(name, options, dtype, LARGE, False), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance / 20)
    assert any(kernel is not None for kernel in native.kernels.values())


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64], ids=str)
@pytest.mark.parametrize(("name", "options"), WITH_KERNELS)
def test_small_parameters_take_one_kernel_of_elements(
    name: str, options: dict[str, Any], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_provider, "strict", True)
    native, answers = _kernel_of(name), []
    find_small = native.find_small

    def spy(*arguments: Any) -> Any:
        kernel = find_small(*arguments)

        def call(*operands: Any) -> Any:
            answers.append(kernel(*operands))
            return answers[-1]

        return call

    monkeypatch.setattr(UpdateKernel, "find_small", lambda self, *arguments: spy(*arguments))
    monkeypatch.setattr(native, "kernels", {})
    found = walked(name, options, dtype, SMALL, True)
    assert len(answers) == 7
    assert all(answer is not None for answer in answers)
    tolerance = 4e-6 if dtype is ad.float32 else 1e-14
    for a, b in zip(found, walked(name, options, dtype, SMALL, False), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance / 10)


def _kernel_of(name: str) -> Any:
    return import_module("adjoint.optim." + name.lower().replace("adamw", "adam")).UPDATE_KERNEL


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
