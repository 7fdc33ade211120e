"""Averaged models are PyTorch's."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.optim import swa_utils

WAYS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "plain": lambda swa: {},
    "average": lambda swa: {"avg_fn": swa.get_swa_avg_fn()},
    "many": lambda swa: {"multi_avg_fn": swa.get_swa_multi_avg_fn()},
    "exponential": lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.9)},
    "many exponential": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9)},
    "own": lambda swa: {"avg_fn": lambda averaged, current, n: averaged + current * n},
    "buffers": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.7), "use_buffers": True},
}


def network(library: Any) -> Any:
    layers = library.nn
    model = layers.Sequential(layers.Linear(3, 4), layers.BatchNorm1d(4), layers.Linear(4, 2)).double()
    rng = np.random.default_rng(0)
    with library.no_grad():
        for p in model.parameters():
            p.copy_(library.tensor(rng.normal(size=tuple(p.shape))))
    return model


def trained(library: Any, swa: Any, options: dict[str, Any], steps: int = 6) -> dict[str, Any]:
    model = network(library)
    average = swa.AveragedModel(model, **options)
    optimizer = library.optim.SGD(model.parameters(), lr=0.1)
    rng = np.random.default_rng(1)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(library.tensor(rng.normal(size=(5, 3)))) ** 2).mean().backward()
        optimizer.step()
        average.update_parameters(model)
    x = library.tensor(rng.normal(size=(2, 3)))
    swa.update_bn([[library.tensor(rng.normal(size=(5, 3)))] for _ in range(3)], average)
    state = {name: value.detach().numpy() for name, value in average.state_dict().items()}
    return {**state, "output": average.eval()(x).detach().numpy(), "momentum": average.module[1].momentum}


@pytest.mark.parametrize("way", WAYS)
def test_averages_are_pytorchs(way: str) -> None:
    torch = pytest.importorskip("torch")
    ours = trained(ad, swa_utils, WAYS[way](swa_utils))
    theirs = trained(torch, torch.optim.swa_utils, WAYS[way](torch.optim.swa_utils))
    assert list(ours) == list(theirs)
    tolerance = 1e-7 if way == "many" else 1e-12  # there PyTorch rounds 1 / (n + 1) to float32
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


def test_the_model_itself_is_left_alone() -> None:
    model = network(ad)
    average = swa_utils.AveragedModel(model)
    average.update_parameters(model)
    before = copy.deepcopy(average.state_dict())
    with ad.no_grad():
        for p in model.parameters():
            p.add_(1.0)
    for name, value in average.state_dict().items():
        assert ad.equal(value, before[name])
    assert average.n_averaged.item() == 1


def test_only_one_function() -> None:
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(network(ad), avg_fn=lambda a, b, n: a, multi_avg_fn=lambda a, b, n: None)


@pytest.mark.parametrize("make", [swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn])
def test_decay_out_of_range(make: Callable[[float], Any]) -> None:
    with pytest.raises(ValueError, match=r"Invalid decay value 1\.5 provided"):
        make(1.5)


def test_integers_are_averaged_too() -> None:
    average, current = ad.tensor([10, 20]), ad.tensor([20, 40])
    swa_utils.get_ema_multi_avg_fn(0.5)([average], [current], ad.tensor(1))
    assert average.tolist() == [15, 30]


def test_a_model_without_batch_normalization_is_not_called() -> None:
    swa_utils.update_bn([ad.ones(1, 7)], nn.Linear(3, 2))


def test_the_package_knows_it() -> None:
    assert optim.swa_utils is swa_utils
