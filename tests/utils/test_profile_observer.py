"""The observer of a profile: which ops it sees, that results are those without it, and that it leaves no trace."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.utils.profile_observer import LiveBytes


class Doubled(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, g: ad.Tensor) -> ad.Tensor:
        return g * 2.0


def names(profile: Any) -> list[str]:
    return [event.name for event in profile.events()]


def test_ops_their_backward_and_functions_are_seen() -> None:
    x = ad.ones(3, requires_grad=True)
    with ad.profiler.profile() as profile:
        Doubled.apply(x).exp().sum().backward()
    assert names(profile) == [
        "Doubled", "mul", "exp", "sum", "SumBackward0", "expand", "ExpBackward0", "DoubledBackward", "mul",
    ]  # fmt: skip
    events = {event.name: event for event in profile.events()}
    assert events["Doubled"].taken >= events["mul"].taken
    assert all(event.site.file == __file__ for event in profile.events() if event.site is not None)


def test_nothing_is_seen_before_and_after_and_modes_are_restored() -> None:
    count = nondefault.count
    x = ad.ones(3)
    x + x
    with ad.profiler.profile() as profile:
        pass
    x * x
    assert names(profile) == []
    assert (nondefault.count, mode.anomaly_detector) == (count, None)
    with pytest.raises(ZeroDivisionError), ad.profiler.profile():
        raise ZeroDivisionError
    assert (nondefault.count, mode.anomaly_detector) == (count, None)


def test_a_profile_within_another_and_one_that_ends_first() -> None:
    x = ad.ones(3)
    outer, inner = ad.profiler.profile(), ad.profiler.profile()
    outer.start()
    x + x
    inner.start()
    x * x
    outer.stop()
    x - x
    inner.stop()
    assert (names(inner), mode.anomaly_detector) == (["mul", "sub"], outer._observer)
    x / x
    assert names(outer)[0] == "add"
    assert "div" not in names(outer)
    outer._observer.stop()
    assert mode.anomaly_detector is None


def test_only_recorded_steps_are_observed() -> None:
    plan = ad.profiler.schedule(wait=1, warmup=0, active=1, repeat=1)
    seen = []
    with ad.profiler.profile(schedule=plan, on_trace_ready=lambda p: seen.extend(names(p))) as profile:
        for i in range(4):
            ad.ones(2) + float(i)
            profile.step()
    assert seen == ["ProfilerStep#1", "add"]


def test_an_op_that_raises_does_not_shift_others() -> None:
    with ad.profiler.profile() as profile:
        with pytest.raises(RuntimeError):
            ad.ones(2, 3) @ ad.ones(2, 3)
        ad.ones(2) + 1.0
    assert names(profile) == ["add"]


def train(profiled: bool) -> list[np.ndarray]:
    ad.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
    optimizer = optim.Adam(model.parameters())
    images, labels = ad.randn(5, 3, 8, 8), ad.randint(0, 3, (5,))
    step = ad.compile(lambda x: F.gelu(x).sum() * 2.0) if profiled is not None else None
    with ad.profiler.profile(enabled=profiled, profile_memory=True) as profile:
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
    assert step is not None
    assert bool(profile.events()) is profiled
    assert "batch_norm" not in names(profile) or "Optimizer.step#Adam.step" in names(profile)
    return [p.detach().numpy().copy() for p in model.parameters()]


def test_a_profile_changes_no_bit() -> None:
    for plain, profiled in zip(train(False), train(True), strict=True):
        assert plain.tobytes() == profiled.tobytes()


def test_ops_of_a_closure_are_seen_and_those_of_the_optimizer_are_its_own() -> None:
    p = nn.Parameter(ad.ones(2))
    optimizer = optim.SGD([p], lr=0.1)

    def closure() -> ad.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with ad.profiler.profile() as profile:
        optimizer.step(closure)
        optimizer.step()
    assert names(profile)[:3] == ["Optimizer.step#SGD.step", "mul", "sum"]
    assert names(profile)[-1] == "Optimizer.step#SGD.step"


def test_live_bytes_count_arrays_while_they_are_alive_and_views_not() -> None:
    live = LiveBytes()
    array = np.zeros(10)
    for value in (array, array, array[2:], ad.tensor([1.0]).view(1), 3, None, np.zeros(0)):
        live.add(value)
    assert live.total == 80
    del array, value
    gc.collect()
    assert live.total == 0
    assert [total for _, total in live.samples] == [80, 0]
