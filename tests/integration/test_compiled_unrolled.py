"""Loops that Python unrolls into a step: eager's numbers, and code that does not grow with the loop's length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

pytest.importorskip("llvmlite")

SHORT, LONG = 20, 50
MAX_GROWTH = 1.25  # of the code, where a loop's length is no multiple of what one kernel takes in
GROWTH_OF_OTHERS = {"newton": 2.5}  # kernels of up to 128 equations end at another equation of a turn each


class Loops(nn.Module):
    """Parameters, and loops of `count` turns over them; each gives a number, of which a gradient is taken."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))
        self.cell, self.gru = nn.LSTMCell(4, 16), nn.GRUCell(4, 16)
        self.norm = nn.LayerNorm(4)
        self.weight = nn.Parameter(ad.randn(4, 4) * 0.3)

    def heun(self, x: Any, xs: Any) -> Any:
        loss = ad.zeros(())
        for t in range(self.count):
            slope = self.net(x)
            x = x + 0.05 * (slope + self.net(x + 0.1 * slope))
            loss = loss + (x - xs[t]).square().mean()
        return loss

    def runge_kutta(self, x: Any, xs: Any) -> Any:
        for _ in range(self.count):
            a = self.net(x)
            b = self.net(x + 0.05 * a)
            c = self.net(x + 0.05 * b)
            x = x + 0.1 / 6 * (a + 2 * b + 2 * c + self.net(x + 0.1 * c))
        return x.square().mean()

    def lstm(self, x: Any, xs: Any) -> Any:
        h = c = ad.zeros(8, 16)
        for t in range(self.count):
            h, c = self.cell(xs[t], (h, c))
        return h.sum()

    def stacked_gru(self, x: Any, xs: Any) -> Any:
        h, found = ad.zeros(8, 16), []
        for t in range(self.count):
            h = self.gru(xs[t], h)
            found.append(h)
        return ad.stack(found).square().mean()

    def stacked_steps(self, x: Any, xs: Any) -> Any:
        rows, found = xs.transpose(0, 1).contiguous(), []
        for t in range(self.count):
            x = x + 0.1 * (x @ self.weight + rows[:, t]).tanh()
            found.append(x)
        return (ad.stack(found, 1) - rows).square().mean()

    def written_states(self, x: Any, xs: Any) -> Any:
        out = ad.zeros(8, self.count, 4)
        for t in range(self.count):
            x = x + 0.1 * (x @ self.weight).tanh()
            out[:, t] = x
        return (out - xs.transpose(0, 1)).square().mean()

    def newton(self, x: Any, xs: Any) -> Any:
        target = self.weight.exp()[0]
        for _ in range(self.count):
            x = x - (x * x - target) / (2 * x.abs() + 1)
        return x.mean()

    def inner_descent(self, x: Any, xs: Any) -> Any:
        weight = self.weight
        for _ in range(self.count):
            (slope,) = ad.autograd.grad((x @ weight).tanh().square().mean(), weight, create_graph=True)
            weight = weight - 0.1 * slope
        return (x @ weight).square().mean()

    def residual(self, x: Any, xs: Any) -> Any:
        for _ in range(self.count):
            x = x + F.gelu(self.norm(x) @ self.weight)
        return x.square().mean()

    def recursion(self, x: Any, xs: Any) -> Any:
        def descend(depth: int) -> Any:
            return x if depth == 0 else (descend(depth - 1) @ self.weight).sin()

        return descend(self.count).sum()

    def sum_of_losses(self, x: Any, xs: Any) -> Any:
        return ad.stack([(xs[t] @ self.weight - x).square().mean() for t in range(self.count)]).sum()


LOOPS = [name for name in vars(Loops) if not name.startswith("_")]


def run(name: str, count: int) -> int:
    """Compare a compiled loop with the eager one, twice; the length of the different kernels' texts."""
    ad.manual_seed(0)
    loops = Loops(count)
    loop: Callable[[Any, Any], Any] = getattr(loops, name)

    def step(x: Any, xs: Any) -> Any:
        loops.zero_grad()
        loss = loop(x, xs)
        loss.backward()
        return loss

    compiled = ad.compile(step)
    for _ in range(2):
        x, xs = ad.randn(8, 4), ad.randn(count, 8, 4)
        want = step(x, xs).item()
        gradients = {key: p.grad.numpy().copy() for key, p in loops.named_parameters() if p.grad is not None}
        assert compiled(x, xs).item() == pytest.approx(want, rel=2e-4, abs=1e-6)
        for key, p in loops.named_parameters():
            if key in gradients:
                scale = np.abs(gradients[key]).max()
                np.testing.assert_allclose(p.grad.numpy(), gradients[key], rtol=1e-3, atol=2e-4 * max(scale, 1e-6))
    assert compiled.compilations == 1
    return sum(len(text) for text in {kernel.text for kernel in compiled._program().kernels.values()})


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", LOOPS)
def test_longer_loops_take_no_more_code(name: str) -> None:
    assert run(name, LONG) <= GROWTH_OF_OTHERS.get(name, MAX_GROWTH) * run(name, SHORT)
