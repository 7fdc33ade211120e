"""Compiled steps under a profile: they stay compiled, give the same, and their programs are as they were."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn, optim

pytest.importorskip("llvmlite")


def make_step() -> tuple[Any, nn.Module, ad.Tensor]:
    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    return step, model, ad.randn(5, 4)


def test_a_profiled_step_is_compiled_and_gives_the_same_bits() -> None:
    (plain, _, x), (profiled, _, _) = make_step(), make_step()
    expected = [plain(x).item() for _ in range(4)]
    found = [profiled(x).item()]
    with ad.profiler.profile() as profile:
        found += [profiled(x).item() for _ in range(2)]
    found.append(profiled(x).item())
    assert found == expected
    assert profiled.compilations == 1
    counts = {event.key: event.count for event in profile.key_averages()}
    assert counts["step"] == 2
    kinds = [event.span.kind for event in profile.events() if event.span is not None]
    assert kinds.count("kernel") == 2 * sum(entry["kind"] == "kernel" for entry in profiled.kernels)
    assert "op" not in kinds


def test_programs_are_as_they_were_also_after_an_error() -> None:
    @ad.compile
    def inverse(x: ad.Tensor) -> ad.Tensor:
        return ad.linalg.inv(x).exp()

    inverse(ad.eye(3))
    before = dict(inverse._latest.program.names)
    with ad.profiler.profile() as profile, pytest.raises(RuntimeError, match="singular"):
        inverse(ad.zeros(3, 3))
    after = inverse._latest.program.names
    calls = [*inverse._latest.program.native_calls, *inverse._latest.program.numpy_calls]
    assert calls
    assert all(after[name] is before[name] for name in inverse._latest.program.native_calls)
    assert all("KernelClock" not in repr(after[name]) for name in calls)
    assert "inv" in {event.key for event in profile.events()}, "the call of NumPy that raised was timed"


def test_advice_observes_between_profiled_calls_and_not_in_them() -> None:
    @ad.compile
    def inverse(x: ad.Tensor) -> ad.Tensor:
        return ad.linalg.inv(x).exp()

    for i in range(240):
        if i % 2:
            inverse(ad.eye(3))
        else:
            with ad.profiler.profile() as profile:
                inverse(ad.eye(3))
            assert i == 0 or [event.key for event in profile.events()].count("inv") == 1
    program = inverse._latest.program
    assert inverse._latest.observed is None, "it has observed the calls that it wanted"
    assert all("partial" not in repr(program.names[name]) for name in program.numpy_calls), "nobody observes any more"


def test_the_first_call_is_told_as_a_whole() -> None:
    step, _, x = make_step()
    with ad.profiler.profile() as profile:
        step(x)
        step(x)
    steps = [event for event in profile.events() if event.span is not None and event.span.kind == "step"]
    assert [dict(event.span.facts) for event in steps if event.span] == [{"compiled in this call": True}, {}]


def test_the_gradient_of_a_compiled_forward_stays_compiled() -> None:
    model = nn.Linear(3, 2)
    forward, x = ad.compile(model), ad.randn(4, 3)
    forward(x).sum().backward()
    expected = model.weight.grad.tolist()
    model.zero_grad()
    with ad.profiler.profile() as profile:
        forward(x).sum().backward()
    assert model.weight.grad.tolist() == expected
    assert [event.key for event in profile.events()].count("CompiledBackward") == 1
    assert "AddmmBackward0" not in {event.key for event in profile.events()}


def test_other_observers_see_the_ops_of_a_step_as_before() -> None:
    step, _, x = make_step()
    step(x)
    with ad.profiler.profile() as profile, pytest.warns(UserWarning, match="slows"), ad.autograd.detect_anomaly():
        step(x)
    assert "kernel" not in {event.span.kind for event in profile.events() if event.span is not None}


def test_threads_profile_a_step_at_once() -> None:
    step = ad.compile(lambda x: (x * 2.0).exp().sum())
    x = ad.ones(50)
    expected = step(x).item()
    wrong: list[object] = []

    def work() -> None:
        for _ in range(20):
            with ad.profiler.profile() as profile:
                result = step(x).item()
            kinds = [event.span.kind for event in profile.events() if event.span is not None]
            if result != expected or kinds.count("step") != 1:
                wrong.append((result, kinds))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    program = step._latest.program
    assert step(x).item() == expected
    assert all("KernelClock" not in repr(program.names[name]) for name in program.native_calls)
