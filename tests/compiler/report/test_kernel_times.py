"""`explain(profile=True)`: the times of a step's kernels and calls, measured without changing anything."""

import os
import re
from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="measured in a copy of the process")


def training_step() -> tuple[Callable[..., ad.Tensor], nn.Module, ad.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 3))
    optimizer = ad.optim.Adam(model.parameters(), lr=1e-2)

    @ad.compile
    def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, model, optimizer


def state_bytes(model: nn.Module, optimizer: ad.optim.Optimizer) -> list[bytes]:
    tensors = [*model.parameters(), *model.buffers(), *(p.grad for p in model.parameters())]
    tensors += [x for held in optimizer.state.values() for x in held.values() if isinstance(x, ad.Tensor)]
    return [x.detach().numpy().tobytes() for x in tensors] + [ad.get_rng_state().numpy().tobytes()]


@pytest.mark.parametrize("threads", [1, 2])
def test_every_entry_has_a_time_or_a_reason_and_nothing_changes(threads: int) -> None:
    before_threads = ad.get_num_threads()
    ad.set_num_threads(threads)
    try:
        step, model, optimizer = training_step()
        x, y = ad.randn(16, 6), ad.randint(0, 3, (16,))
        for _ in range(3):
            step(x, y)
        before, compilations = state_bytes(model, optimizer), step.compilations
        told = step.explain(profile=True)
        assert state_bytes(model, optimizer) == before
        assert step.compilations == compilations
        assert told.times.seconds.keys() | told.times.reasons.keys() == {entry.number for entry in told.entries}
        assert all(told.times.seconds[e.number] >= 0 for e in told.entries if e.kind == "kernel")
        assert told.call.entries_total == pytest.approx(sum(told.times.seconds.values()))
        assert told.call.threads == threads
        twin, other_model, other_optimizer = training_step()
        other_model.load_state_dict(model.state_dict())
        other_optimizer.load_state_dict(optimizer.state_dict())
        generator = ad.get_rng_state()
        after = step(x, y)
        ad.set_rng_state(generator)
        assert float(twin(x, y).detach()) == float(after.detach())
    finally:
        ad.set_num_threads(before_threads)


def test_the_table_has_microseconds_and_shares_and_the_call() -> None:
    step, _, _ = training_step()
    x, y = ad.randn(16, 6), ad.randint(0, 3, (16,))
    step(x, y)
    text = str(step.explain(profile=True))
    assert re.search(r"kind +µs +share +read", text)
    assert re.search(r"a call takes [\d.,]+ µs with \d+ threads?, the median of \d+ calls", text)
    assert "µs" not in str(step.explain())


def test_arguments_may_be_given() -> None:
    step, _, _ = training_step()
    step(ad.randn(16, 6), ad.randint(0, 3, (16,)))
    x, y = ad.randn(16, 6), ad.randint(0, 3, (16,))
    assert "the arguments given" in str(step.explain(x, y, profile=True))


def test_arguments_without_a_program_raise_and_make_none() -> None:
    step, _, _ = training_step()
    step(ad.randn(16, 6), ad.randint(0, 3, (16,)))
    with pytest.raises(RuntimeError, match="no program for these arguments"):
        step.explain(ad.randn(7, 6), ad.randint(0, 3, (7,)), profile=True)
    assert step.compilations == 1


def test_arguments_without_profile_raise() -> None:
    step, _, _ = training_step()
    with pytest.raises(TypeError, match="only with profile=True"):
        step.explain(ad.randn(16, 6))


def test_numpy_calls_and_the_backward_half_are_measured() -> None:
    w = ad.randn(5, 5, requires_grad=True)

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        return ad.linalg.qr(x @ w + 9 * ad.eye(5))[1].tanh().sum()

    x = ad.ones(5, 5)
    step(x).backward()
    before = w.grad.numpy().copy()
    told = step.explain(profile=True)
    assert [e.number for e in told.entries if e.kind == "call" and told.times.seconds[e.number] > 0]
    assert told.backward is not None
    assert told.backward.times.seconds
    np.testing.assert_array_equal(w.grad.numpy(), before)


def test_code_between_programs_is_measured_and_has_its_line() -> None:
    seen: list[float] = []

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        y = (x * 2).sum()
        seen.append(float(y.item()))
        return x * y

    x = ad.ones(64)
    for _ in range(3):
        step(x)
    count = len(seen)
    told = step.explain(profile=True)
    assert all(taken > 0 for taken in told.call.python_parts.values())
    assert len(seen) == count


def test_a_function_that_was_not_called_raises() -> None:
    step, _, _ = training_step()
    with pytest.raises(RuntimeError, match="was not called yet"):
        step.explain(profile=True)


def test_a_notebook_shows_the_times_too() -> None:
    step, _, _ = training_step()
    x, y = ad.randn(16, 6), ad.randint(0, 3, (16,))
    step(x, y)
    plain, told = step.explain(), step.explain(profile=True)
    heads = [re.findall("<th[^>]*>([^<]*)</th>", each._repr_html_()) for each in (plain, told)]
    assert heads[1] == [*heads[0][:2], "µs", "share", *heads[0][2:]]
    assert "a call takes" in told._repr_html_()
    assert "a call takes" not in plain._repr_html_()


def test_program_for_all_sizes_is_timed_in_the_modes_of_its_call() -> None:
    step = ad.compile(lambda x: (2 * x).exp().sum(1))
    with ad.no_grad():
        for n in 40, 50, 60, 70:
            step(ad.randn(n, 3))
    assert step.graph.symbols
    told = step.explain(profile=True)
    assert all(told.times.seconds[e.number] >= 0 for e in told.entries)
    assert told.times.seconds
