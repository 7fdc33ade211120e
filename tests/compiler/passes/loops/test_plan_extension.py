"""Unrolled loops planned by a few of their turns: they leave what the eager loop leaves, whatever a turn does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.utils.checkpoint import checkpoint

pytest.importorskip("llvmlite")

from adjoint.compiler import build
from adjoint.compiler.passes.loops import plan_extension

TURNS = 93
SIZE, ROWS = 6, 8


class Loops(nn.Module):
    """A step's parameters, and loops over them; each gives a number whose gradient is taken."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.turns = turns
        self.net = nn.Sequential(nn.Linear(SIZE, 16), nn.Tanh(), nn.Linear(16, SIZE))
        self.cell, self.gru = nn.LSTMCell(SIZE, SIZE), nn.GRUCell(SIZE, SIZE)
        self.wide = nn.Sequential(nn.Linear(SIZE, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, SIZE))
        self.weight = nn.Parameter(ad.randn(SIZE, SIZE) * 0.3)
        self.norm = nn.LayerNorm(SIZE)
        self.layers = nn.ModuleList([nn.Linear(SIZE, SIZE) for _ in range(turns)])
        self.shifts = [ad.randn(ROWS, SIZE) for _ in range(turns)]
        self.table = [[[0.01 * ((t + i * j) % 7) for i in range(SIZE)] for j in range(ROWS)] for t in range(turns)]
        self.log: list[Any] = []

    def carried(self, x: Any, xs: Any) -> Any:
        for _ in range(self.turns):
            slope = self.net(x)
            x = x + 0.02 * (slope + self.net(x + 0.1 * slope))
        return x.square().mean()

    def loss_in_each_turn(self, x: Any, xs: Any) -> Any:
        loss = ad.zeros(())
        for t in range(self.turns):
            x = x + 0.02 * self.net(x)
            loss = loss + (x - xs[t]).square().mean()
        return loss / self.turns

    def two_carried(self, x: Any, xs: Any) -> Any:
        h, c = x, x * 0
        for t in range(self.turns):
            h, c = self.cell(xs[t], (h, c))
        return (h * c).sum()

    def inputs_by_column(self, x: Any, xs: Any) -> Any:
        rows = xs.transpose(0, 1).contiguous()
        for t in range(self.turns):
            x = self.gru(rows[:, t], x)
        return x.square().sum()

    def stacked(self, x: Any, xs: Any) -> Any:
        found = []
        for t in range(self.turns):
            x = x + 0.1 * (x @ self.weight + xs[t]).tanh()
            found.append(x)
        return (ad.stack(found) - xs).square().mean()

    def joined(self, x: Any, xs: Any) -> Any:
        found = []
        for _ in range(self.turns):
            x = x + 0.1 * (x @ self.weight).tanh()
            found.append(x.sin())
        return ad.cat(found, 1).square().mean()

    def written(self, x: Any, xs: Any) -> Any:
        out = ad.zeros(ROWS, self.turns, SIZE)
        for t in range(self.turns):
            x = x + 0.1 * (x @ self.weight).tanh()
            out[:, t] = x
        return (out - xs.transpose(0, 1)).square().mean()

    def added_in_place(self, x: Any, xs: Any) -> Any:
        total = ad.zeros(ROWS, SIZE)
        for t in range(self.turns):
            x = (x @ self.weight + xs[t]).tanh()
            total.add_(x, alpha=0.5)
            total.mul_(0.99)
        return total.square().mean()

    def dropped_out(self, x: Any, xs: Any) -> Any:
        for t in range(self.turns):
            x = x + 0.1 * F.dropout((x @ self.weight + xs[t]).tanh(), 0.3)
        return x.square().mean()

    def drawn(self, x: Any, xs: Any) -> Any:
        for _ in range(self.turns):
            x = x + 0.1 * (x @ self.weight).tanh() + 0.01 * ad.randn(ROWS, SIZE)
        return x.square().mean()

    def normed(self, x: Any, xs: Any) -> Any:
        for _ in range(self.turns):
            x = x + 0.1 * F.gelu(self.norm(x) @ self.weight)
        return x.square().mean()

    def nested(self, x: Any, xs: Any) -> Any:
        for t in range(self.turns // 3):
            y = x
            for _ in range(3):
                y = y - 0.1 * (y @ self.weight + xs[t]).tanh()
            x = x + 0.5 * y
        return x.square().mean()

    def another_turn_in_the_middle(self, x: Any, xs: Any) -> Any:
        for t in range(self.turns):
            x = x + 0.02 * self.net(x)
            if t == self.turns // 2:
                x = x * 0.5 + xs[t]
        return x.square().mean()

    def one_turn_read_in_the_middle(self, x: Any, xs: Any) -> Any:
        early = x
        for t in range(self.turns):
            x = x + 0.02 * self.net(x)
            if t == 37:
                early = x
        return (x * early).mean()

    def another_number_in_each_turn(self, x: Any, xs: Any) -> Any:
        for t in range(self.turns):
            x = x + 0.02 / (t + 1) * self.net(x)
        return x.square().mean()

    def gradient_in_each_turn(self, x: Any, xs: Any) -> Any:
        weight = self.weight
        for t in range(self.turns):
            (slope,) = ad.autograd.grad((xs[t] @ weight).tanh().square().mean(), weight, create_graph=True)
            weight = weight - 0.1 * slope
        return (x @ weight).square().mean()

    def checkpointed(self, x: Any, xs: Any) -> Any:
        for _ in range(self.turns):
            x = checkpoint(lambda y: y + 0.02 * self.net(y), x, use_reentrant=False)
        return x.square().mean()

    def kept_in_a_list(self, x: Any, xs: Any) -> Any:
        self.log.clear()
        for t in range(self.turns):
            x = x + 0.02 * self.net(x)
            if t % 30 == 0:
                self.log.append(x.detach())
        return x.square().mean()

    def two_loops(self, x: Any, xs: Any) -> Any:
        found = []
        for t in range(self.turns):
            x = x + 0.1 * (x @ self.weight + xs[t]).tanh()
            found.append(x)
        for t in reversed(range(self.turns)):
            x = x + 0.1 * (found[t] @ self.weight + x).sin()
        return x.square().mean()

    def scalars(self, x: Any, xs: Any) -> Any:
        total = self.weight.sum()
        for t in range(self.turns):
            total = total * 0.99 + xs[t, 0, 0] * total.sin()
        return total

    def one_product_for_all_turns(self, x: Any, xs: Any) -> Any:
        for _ in range(self.turns):
            x = x + 0.02 * self.wide(x)
        return x.square().mean()

    def another_constant_in_each_turn(self, x: Any, xs: Any) -> Any:
        for t in range(self.turns):
            x = x + 0.1 * (x @ self.weight).tanh() + ad.tensor(self.table[t])
        return x.square().mean()

    def another_state_in_each_turn(self, x: Any, xs: Any) -> Any:
        for shift in self.shifts:
            x = x + 0.1 * (x @ self.weight + shift).tanh()
        return x.square().mean()

    def another_layer_in_each_turn(self, x: Any, xs: Any) -> Any:
        for layer in self.layers:
            x = x + 0.1 * layer(x).tanh()
        return x.square().mean()

    def far_before(self, x: Any, xs: Any) -> Any:
        before = x
        for _ in range(self.turns):
            x, before = x + 0.05 * (before @ self.weight).tanh() + 0.01 * self.net(x), x
        return (x * before).mean()


LOOPS = [name for name in vars(Loops) if not name.startswith("_")]
BY_FEW_TURNS = {
    "carried", "loss_in_each_turn", "two_carried", "inputs_by_column", "stacked", "written", "dropped_out", "drawn",
    "normed", "gradient_in_each_turn", "far_before", "checkpointed", "nested", "one_product_for_all_turns",
    "another_constant_in_each_turn", "another_state_in_each_turn",
}  # fmt: skip

TURNS_OF_OTHERS = {"normed": 150, "nested": 120}  # whose kernels come again after more turns


def train(name: str, turns: int, compiled: bool, calls: int = 3, given: int = 0) -> list[np.ndarray]:
    """Return all that some steps of training on a loop leave: losses, parameters, and what the loop kept.

    `given`: the rows of the inputs, if not one for each turn.
    """
    ad.manual_seed(3)
    loops = Loops(turns)
    loop: Callable[[Any, Any], Any] = getattr(loops, name)
    optimizer = optim.Adam(loops.parameters(), lr=1e-2)

    def step(x: Any, xs: Any) -> Any:
        optimizer.zero_grad()
        loss = loop(x, xs)
        loss.backward()
        optimizer.step()
        return loss

    run = ad.compile(step) if compiled else step
    x, xs = ad.randn(ROWS, SIZE), ad.randn(given or turns, ROWS, SIZE)
    losses = [run(x, xs) for _ in range(calls)]
    return [v.detach().numpy().copy() for v in (*losses, *loops.parameters(), *loops.log)]


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each plan that was made since is that of a few turns."""
    found: list[bool] = []

    def note(graph: Any, plan: Any) -> Any:
        made = plan_extension.plan_by_loop(graph, plan)
        found.append(made is not None)
        if made is not None:
            made.graph.verify()
        return made

    monkeypatch.setattr(build, "plan_by_loop", note)
    return found


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_leaves_what_the_eager_one_leaves(name: str, plans: list[bool]) -> None:
    turns = TURNS_OF_OTHERS.get(name, TURNS)
    expected, found = train(name, turns, compiled=False), train(name, turns, compiled=True)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    if name in BY_FEW_TURNS:
        assert any(plans)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", sorted({*LOOPS} - {"gradient_in_each_turn"}))
def test_a_loop_without_gradients_gives_what_the_eager_one_gives(name: str) -> None:
    results = []
    for compiled in (False, True):
        ad.manual_seed(5)
        loops = Loops(TURNS)
        loop = getattr(loops, name)
        x, xs = ad.randn(ROWS, SIZE), ad.randn(TURNS, ROWS, SIZE)
        run = ad.compile(loop) if compiled else loop
        with ad.no_grad():
            results.append([run(x, xs).item() for _ in range(2)])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4)


@pytest.mark.parametrize("name", ["carried", "stacked", "two_carried", "checkpointed"])
def test_a_loop_whose_backward_is_outside_has_the_eager_gradients(name: str) -> None:
    gradients = []
    for compiled in (False, True):
        ad.manual_seed(6)
        loops = Loops(TURNS)
        loop = getattr(loops, name)
        x, xs = ad.randn(ROWS, SIZE), ad.randn(TURNS, ROWS, SIZE)
        for _ in range(2):
            (ad.compile(loop) if compiled else loop)(x, xs).backward()
        gradients.append([p.grad.numpy() for p in loops.parameters() if p.grad is not None])
    for found, expected in zip(gradients[1], gradients[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("turns", [*range(45, 55)])
def test_every_number_of_turns_leaves_what_the_eager_loop_leaves(turns: int) -> None:
    for name in ("loss_in_each_turn", "stacked"):
        for a, b in zip(
            train(name, turns, compiled=True, calls=1), train(name, turns, compiled=False, calls=1), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_another_length_finds_the_plans_of_the_few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = build._run_pipeline
    monkeypatch.setattr(
        build, "_run_pipeline", lambda graph, *given: made.append(len(graph.equations)) or make(graph, *given)
    )
    train("carried", 70, compiled=True, calls=1, given=1)
    first = len(made)
    train("carried", 90, compiled=True, calls=1, given=1)
    assert len(made) == first
    assert max(made) < 1500


def test_a_plan_that_does_not_go_on_is_made_of_the_whole_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    make = plan_extension.PlanRows
    calls: list[object] = []

    def other_row(*given: Any) -> Any:
        rows = make(*given)
        calls.append(rows)
        if len(calls) % 2:
            rows.rows[-3] = rows.rows[-3]._replace(kind="another")
        return rows

    monkeypatch.setattr(plan_extension, "PlanRows", other_row)
    expected, found = train("carried", TURNS, compiled=False, calls=1), train("carried", TURNS, compiled=True, calls=1)
    assert calls
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
