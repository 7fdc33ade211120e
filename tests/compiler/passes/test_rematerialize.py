"""What backward makes again instead of having it kept: less memory, the same bits, and nobody's gradient touched."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.compiler import pipeline
from adjoint.compiler.cache import plan_cache
from adjoint.compiler.report.memory_report import report_memory

LAYERS, ROWS, WIDTH = 6, 512, 256
MATRIX = ROWS * WIDTH * 4  # bytes of an activation


class Block(nn.Module):
    """x + narrow(gelu(widen(norm(x))))."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.widen, self.narrow = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 2 * WIDTH),
            nn.Linear(2 * WIDTH, WIDTH),
        )

    def forward(self, x: Any) -> Any:
        return x + self.narrow(F.gelu(self.widen(self.norm(x))))


def training(compiled: bool, layers: int = LAYERS) -> tuple[Any, nn.Module]:
    ad.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(layers)))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return ad.compile(step) if compiled else step, model


def inputs() -> Any:
    return ad.from_numpy(np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32))


def states(model: nn.Module) -> list[Any]:
    return [array.copy() for p in model.parameters() for array in (p.detach().numpy(), p.grad.numpy())]


@pytest.fixture
def kept_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "rematerialize", lambda graph, written: graph)
    monkeypatch.setattr(plan_cache, "MIN_EQUATIONS_TO_CACHE", sys.maxsize)  # none is read, or kept for others


def needed(layers: int) -> int:
    """The bytes that a program has besides parameters, momentum and gradients."""
    step, _ = training(compiled=True, layers=layers)
    step(inputs())
    plan = step._program().binding.plan
    return int(plan.size + sum(v.nbytes for v in plan.lent))


def test_a_layer_keeps_its_input_and_what_gelu_reads() -> None:
    each = (needed(12) - needed(6)) / 6
    assert each == pytest.approx(3 * MATRIX, rel=0.1), "the normalised input of width 1, and 2 before gelu"


def test_without_it_a_layer_keeps_activations_too(kept_all: None) -> None:
    each = (needed(12) - needed(6)) / 6
    assert each == pytest.approx(6 * MATRIX, rel=0.1), "the layer's input, the normalised one, gelu and its derivative"


def test_the_bits_are_those_of_a_program_that_keeps_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    monkeypatch.setattr(plan_cache, "MIN_EQUATIONS_TO_CACHE", sys.maxsize)
    for pass_ in (pipeline.rematerialize, lambda graph, written: graph):
        monkeypatch.setattr(pipeline, "rematerialize", pass_)
        step, model = training(compiled=True)
        losses = [step(inputs()).item() for _ in range(3)]
        found.append((losses, states(model)))
    assert found[0][0] == found[1][0]
    for a, b in zip(found[0][1], found[1][1], strict=True):
        assert a.tobytes() == b.tobytes()


def test_the_numbers_are_those_of_eager() -> None:
    (step, model), (eager, other) = training(compiled=True), training(compiled=False)
    for _ in range(3):
        np.testing.assert_allclose(step(inputs()).item(), eager(inputs()).item(), rtol=1e-5)
    for a, b in zip(states(model), states(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-6)


def test_the_report_says_what_is_computed_again() -> None:
    step, _ = training(compiled=True)
    step(inputs())
    report = report_memory(step._program())
    assert report.rematerialized
    assert all(line.endswith("· again") for line in report.rematerialized)
    assert f"; {sum(report.rematerialized.values())} equations are computed again for it" in str(report)
    assert "· again" in str(step.explain())
    saved = sum(value.nbytes for value in report.saved if value.kind in ("arena", "lent"))
    assert saved < 4 * LAYERS * MATRIX


def test_a_small_step_keeps_what_it_has() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64))

    def step(x: Any) -> Any:
        model.zero_grad()
        loss = model(x).sum()
        loss.backward()
        return loss

    compiled = ad.compile(step)
    compiled(ad.ones(8, 64))
    assert not report_memory(compiled._program()).rematerialized


def test_activations_lie_where_gradients_will() -> None:
    step, model = training(compiled=True)
    for _ in range(2):
        step(inputs())
    binding = step._program().binding
    lent = [value for value in report_memory(step._program()).values if value.kind == "lent"]
    assert sum(value.nbytes for value in lent) > LAYERS * MATRIX
    assert len(lent) == len(binding.plan.lent)
    eager, other = training(compiled=False)
    for _ in range(2):
        eager(inputs())
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=2e-3, atol=1e-6)


HOLDERS = {
    "tensor": lambda gradient: gradient,
    "view": lambda gradient: gradient[1:],
    "array": lambda gradient: gradient.numpy(),
    "slice of the array": lambda gradient: gradient.numpy()[1:],
}


@pytest.mark.parametrize("held", HOLDERS)
def test_a_gradient_that_somebody_keeps_stays_as_it_was(held: str) -> None:
    step, model = training(compiled=True)
    for _ in range(3):
        step(inputs())
    seen = HOLDERS[held](next(iter(model.parameters())).grad)
    was = np.array(seen)
    for _ in range(2):
        step(inputs())
        np.testing.assert_array_equal(np.array(seen), was)
    _, again = same_steps(5)
    for a, b in zip(states(model), states(again), strict=True):
        assert a.tobytes() == b.tobytes()


def same_steps(count: int) -> tuple[Any, nn.Module]:
    step, model = training(compiled=True)
    for _ in range(count):
        step(inputs())
    return step, model


def test_gradients_of_a_block_have_memory_that_is_their_own() -> None:
    _, model = same_steps(2)
    gradients = [p.grad for p in model.parameters()]
    for g in gradients:
        assert g.untyped_storage().nbytes() == g.nbytes
        g.zero_()
    assert all(g.sum().item() == 0 for g in gradients)


def test_a_failing_check_leaves_gradients_as_they_were() -> None:
    table, layers = nn.Embedding(64, 512), nn.Sequential(*(Block() for _ in range(2)), nn.Linear(WIDTH, 2048))

    @ad.compile
    def step(at: Any) -> Any:
        rows = table(at)
        table.zero_grad()
        layers.zero_grad()
        loss = layers(rows.reshape(-1, WIDTH)).square().mean()
        loss.backward()
        return loss

    step(ad.zeros(256, dtype=ad.int64))
    step(ad.ones(256, dtype=ad.int64))
    assert step._program().binding.plan.lent
    before = [p.grad.numpy().copy() for p in layers.parameters()]
    with pytest.raises(IndexError):
        step(ad.full((256,), 64, dtype=ad.int64))
    for p, was in zip(layers.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), was)


def test_gradients_that_a_step_adds_to_are_not_lent() -> None:
    model = nn.Sequential(*(Block() for _ in range(2)))

    @ad.compile
    def step(x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    once = None
    for i in range(1, 4):
        step(inputs())
        total = [p.grad.numpy().copy() for p in model.parameters()]
        once = total if once is None else once
        for a, b in zip(total, once, strict=True):
            np.testing.assert_allclose(a, i * b, rtol=1e-4, atol=1e-6)
