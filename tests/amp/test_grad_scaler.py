"""GradScaler against PyTorch's on the CPU, iteration by iteration."""

import copy
import pickle
from typing import Any

import pytest
from tests.support.errors import assert_raises

import adjoint as ad


def iterate(t: Any, gradients: list[float], unscale: bool) -> list[Any]:
    scaler = t.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    w = t.ones(2, requires_grad=True)
    optimizer = t.optim.SGD([w], lr=0.5)
    told: list[Any] = []
    for gradient in gradients:
        optimizer.zero_grad()
        scaler.scale((w * gradient).sum()).backward()
        if unscale:
            scaler.unscale_(optimizer)
            told.append(w.grad.tolist())
        scaler.step(optimizer)
        scaler.update()
        told.append((w.tolist(), scaler.get_scale(), scaler.state_dict()))
    return told


@pytest.mark.parametrize("unscale", [False, True])
def test_iterations(unscale: bool) -> None:
    torch = pytest.importorskip("torch")
    gradients = [0.5, 1.0, float("inf"), 0.25, 1e38, 0.125, 0.5, 1.0]
    assert repr(iterate(ad, gradients, unscale)) == repr(iterate(torch, gradients, unscale))


def test_order_of_calls() -> None:
    w = ad.ones(2, requires_grad=True)
    optimizer = ad.optim.SGD([w], lr=0.5)
    scaler = ad.amp.GradScaler("cpu")
    assert_raises(AssertionError, "Attempted step but _scale is None", scaler.step, optimizer)
    a, (b,) = scaler.scale([w.sum(), (w.sum(),)])
    assert a.item() == b.item() == 2.0 * 2**16
    assert_raises(ValueError, "must be a Tensor or an iterable", scaler.scale, 3)
    assert_raises(AssertionError, "No inf checks", scaler.step, optimizer)
    scaler.update(4.0)
    assert scaler.get_scale() == 4.0
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    assert_raises(RuntimeError, "already been called on this optimizer", scaler.unscale_, optimizer)
    scaler.step(optimizer)
    assert_raises(RuntimeError, "called after step", scaler.unscale_, optimizer)
    assert_raises(RuntimeError, "already been called since", scaler.step, optimizer)
    assert_raises(RuntimeError, "Closure", lambda: scaler.step(optimizer, closure=lambda: None))
    scaler.update()
    assert w.tolist() == [0.5, 0.5]


def test_settings_and_state() -> None:
    scaler = ad.amp.GradScaler("cpu", init_scale=8.0)
    scaler.set_growth_factor(4.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(3)
    other = ad.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert (other.get_growth_factor(), other.get_backoff_factor(), other.get_growth_interval()) == (4.0, 0.25, 3)
    assert pickle.loads(pickle.dumps(scaler)).get_scale() == copy.deepcopy(scaler).get_scale() == 8.0
    assert_raises(RuntimeError, "empty", other.load_state_dict, {})
    assert_raises(AssertionError, "growth factor", ad.amp.GradScaler, "cpu", growth_factor=1.0)
    assert_raises(AssertionError, "backoff factor", ad.amp.GradScaler, "cpu", backoff_factor=1.0)


def test_a_scaler_that_is_off_does_nothing() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = ad.amp.GradScaler()
    w = ad.ones(2, requires_grad=True)
    optimizer = ad.optim.SGD([w], lr=0.5)
    assert not scaler.is_enabled()
    assert scaler.scale(w) is w
    w.sum().backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert (w.tolist(), scaler.get_scale(), scaler.state_dict()) == ([0.5, 0.5], 1.0, {})
    with pytest.warns(FutureWarning, match="deprecated"):
        assert ad.cpu.amp.GradScaler().is_enabled()


def test_gradients_of_float16_are_refused() -> None:
    w = ad.ones(2, dtype=ad.float16, requires_grad=True)
    scaler, optimizer = ad.amp.GradScaler("cpu", init_scale=4.0), ad.optim.SGD([w], lr=0.5)
    scaler.scale(w.sum()).backward()
    assert_raises(ValueError, "FP16", scaler.unscale_, optimizer)


def test_compiled_step_serves_all_learning_rates() -> None:
    pytest.importorskip("llvmlite")
    w = ad.nn.Parameter(ad.ones(3))
    optimizer, scaler = ad.optim.SGD([w], lr=0.1), ad.amp.GradScaler("cpu")

    @ad.compile
    def step():
        scaler.scale(w.square().sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    for call in range(12):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + call)
        step()
    assert step.compilations <= 3
