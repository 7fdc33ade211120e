"""Loops with random bodies, compiled and eager: the same numbers, however much of the plan comes of a few turns."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.utils.checkpoint import checkpoint

pytest.importorskip("llvmlite")

SIZE, ROWS = 5, 6
MANY_TURNS = (70, 81, 96)


class RandomLoop(nn.Module):
    """A loop whose turns are random statements about what is carried, given, kept and written."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        choice = random.Random(seed)
        self.turns = choice.choice(MANY_TURNS)
        self.linear, self.norm = nn.Linear(SIZE, SIZE), nn.LayerNorm(SIZE)
        self.net = nn.Sequential(nn.Linear(SIZE, 9), nn.Tanh(), nn.Linear(9, SIZE))
        self.weight = nn.Parameter(ad.randn(SIZE, SIZE) * 0.2)
        self.count = 0
        names = [name for name in vars(RandomLoop) if name.startswith("do_")]
        self.statements: list[Callable[[Any], None]] = [
            getattr(self, choice.choice(names)) for _ in range(choice.randint(2, 6))
        ]
        self.odd_turn = choice.choice((None, None, None, 0, 1, self.turns // 2, self.turns - 1))

    def do_step(self, s: Any) -> None:
        s.x = s.x + 0.05 * self.linear(s.x).tanh()

    def do_net(self, s: Any) -> None:
        s.x = s.x + 0.05 * self.net(s.x + 0.1 * s.h)

    def do_norm(self, s: Any) -> None:
        s.x = self.norm(s.x)

    def do_swap(self, s: Any) -> None:
        s.x, s.h = s.x + 0.01 * s.h, s.x

    def do_input(self, s: Any) -> None:
        s.x = 0.9 * s.x + 0.1 * s.xs[s.t]

    def do_column(self, s: Any) -> None:
        s.h = s.h * 0.5 + s.rows[:, s.t]

    def do_keep(self, s: Any) -> None:
        s.found.append(s.x)

    def do_write(self, s: Any) -> None:
        s.out[:, s.t] = s.x

    def do_total(self, s: Any) -> None:
        s.total = s.total + (s.x - s.xs[s.t]).square().mean()

    def do_in_place(self, s: Any) -> None:
        s.sums.add_(s.x.detach(), alpha=0.1)

    def do_dropout(self, s: Any) -> None:
        s.x = F.dropout(s.x, 0.1)

    def do_draw(self, s: Any) -> None:
        s.x = s.x + 0.01 * ad.randn(ROWS, SIZE)

    def do_checkpoint(self, s: Any) -> None:
        s.x = checkpoint(lambda y: y + 0.05 * (y @ self.weight).sin(), s.x, use_reentrant=False)

    def do_inner_loop(self, s: Any) -> None:
        for _ in range(2):
            s.h = s.h - 0.1 * (s.h @ self.weight).tanh()

    def do_gradient(self, s: Any) -> None:
        (slope,) = ad.autograd.grad((s.x @ self.weight).square().mean(), s.x, create_graph=True)
        s.x = s.x - 0.1 * slope

    def do_softmax(self, s: Any) -> None:
        s.h = F.softmax(s.x @ self.weight, -1) * s.h

    def do_join(self, s: Any) -> None:
        s.h = ad.cat([s.x[:, :2], s.h[:, 2:]], 1)

    def do_count(self, s: Any) -> None:
        self.count += 1

    def forward(self, x: Any, xs: Any) -> Any:
        x = x + x @ self.weight
        s = SimpleNamespace(x=x, h=x * 0.5, xs=xs, rows=xs.transpose(0, 1).contiguous(), found=[])
        s.out, s.sums, s.total = ad.zeros(ROWS, self.turns, SIZE), ad.zeros(ROWS, SIZE), ad.zeros(())
        for s.t in range(self.turns):
            for statement in self.statements:
                statement(s)
            if s.t == self.odd_turn:
                s.x = s.x * s.h.cos()
        loss = s.x.square().mean() + s.h.mean() + s.total / self.turns + (s.out * s.rows).mean()
        if s.found:
            loss = loss + ad.stack(s.found).square().mean()
        return loss + s.sums.mean(), s.sums


def train(seed: int, compiled: bool) -> list[np.ndarray]:
    """Return what two steps of training leave."""
    ad.manual_seed(seed)
    loop = RandomLoop(seed)
    optimizer = optim.SGD(loop.parameters(), lr=0.05)

    def step(x: Any, xs: Any) -> Any:
        optimizer.zero_grad()
        loss, sums = loop(x, xs)
        loss.backward()
        nn.utils.clip_grad_norm_(loop.parameters(), 0.1)  # or a loop of many turns is chaos in the second call
        optimizer.step()
        return loss, sums

    run = ad.compile(step) if compiled else step
    results = []
    for _ in range(2):
        x, xs = ad.randn(ROWS, SIZE), ad.randn(loop.turns, ROWS, SIZE)
        results += run(x, xs)
    return [v.detach().numpy().copy() for v in (*results, *loop.parameters())]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.nightly] if n >= 8 else []) for n in range(60)])
def test_a_random_loop_leaves_what_the_eager_one_leaves(seed: int) -> None:
    for found, expected in zip(train(seed, compiled=True), train(seed, compiled=False), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-5)
