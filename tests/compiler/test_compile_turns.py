"""Programs that take turns, whatever state they share: none is bound anew at a switch, and numbers are eager ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pytest

pytest.importorskip("llvmlite")
from tests.support.checks import collector_off

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.compiler.program.program import Program

Turn = Callable[[int], Any]
ROUNDS = 10
SETTLED = 6  # rounds after which nothing may be looked at in full any more


class Net(nn.Module):
    def __init__(self, *further: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 5), *further, nn.Linear(5, 2))
        self.seen = 0

    def forward(self, x: Any) -> Any:
        return self.layers(x)


def batch(n: int) -> tuple[Any, Any]:
    x = ad.linspace(-1.0, 1.0, 3 * n).reshape(n, 3)
    return x, ad.arange(n) % 2


def training(net: Net, optimizer: Any, schedule: Any = None, **zeroing: Any) -> Callable[..., Any]:
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad(**zeroing)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        return loss

    return step


def sizes(wrap: Any, make: Any, count: int, further: tuple[nn.Module, ...] = (), **zeroing: Any) -> tuple[Net, Turn]:
    net = Net(*further)
    optimizer = make(net.parameters())
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9) if zeroing.pop("schedule", False) else None
    step = wrap(training(net, optimizer, schedule, **zeroing))
    batches = [batch(4 + n) for n in range(count)]
    return net, lambda n: step(*batches[n % count])


def adam(parameters: Any) -> Any:
    return optim.Adam(parameters, lr=0.01, eps=0.01)  # a gradient that is 0 but for rounding counts for nothing


def momentum(parameters: Any) -> Any:
    return optim.SGD(parameters, lr=0.1, momentum=0.9)


def modes(wrap: Any) -> tuple[Net, Turn]:
    net = Net(nn.BatchNorm1d(5), nn.Dropout(0.3))
    step = wrap(lambda x: net(x).sum(1).detach())
    x, _ = batch(6)
    return net, lambda n: step(x) if net.train(n % 2 == 0) else None


def training_and_evaluation(wrap: Any) -> tuple[Net, Turn]:
    net = Net(nn.BatchNorm1d(5))
    step, evaluate = wrap(training(net, adam(net.parameters()))), wrap(lambda x: net(x).argmax(1))
    x, y = batch(6)

    def turn(n: int) -> Any:
        net.train(n % 2 == 0)
        return evaluate(x) if n % 2 else step(x, y)

    return net, turn


def accumulation(wrap: Any, replaces: bool = False) -> tuple[Net, Turn]:
    net = Net()
    optimizer = adam(net.parameters())

    def step(x: Any, y: Any) -> Any:
        net.seen += 1
        loss = F.cross_entropy(net(x), y) / 3
        loss.backward()
        if net.seen % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    step = wrap(step)
    batches = batch(4), batch(7)

    def turn(n: int) -> Any:
        if replaces:
            for p in net.parameters():
                p.grad = None if p.grad is None else p.grad.clone()
        return step(*batches[n % 2])

    return net, turn


def two_functions(wrap: Any) -> tuple[Net, Turn]:
    net = Net()
    steps = [wrap(training(net, optimizer)) for optimizer in (adam(net.parameters()), momentum(net.parameters()))]
    x, y = batch(5)
    return net, lambda n: steps[n % 2](x, y)


def keywords(wrap: Any) -> tuple[Net, Turn]:
    net = Net()
    step = wrap(training(net, adam(net.parameters())))
    batches = batch(4), batch(7)
    return net, lambda n: step(batches[n % 2][0], y=batches[n % 2][1])


def average(wrap: Any) -> tuple[Net, Turn]:
    net = Net()
    net.register_buffer("average", ad.zeros(2))

    def step(x: Any, y: Any) -> Any:
        net.average = net.average * 0.9 + net(x).detach().mean(0) * 0.1
        return net.average.clone()

    step = wrap(step)
    batches = [batch(4 + n) for n in range(2)]
    return net, lambda n: step(*batches[n % 2])


CASES: dict[str, Callable[[Any], tuple[Net, Turn]]] = {
    **{f"{n} sizes": (lambda wrap, n=n: sizes(wrap, adam, n)) for n in (2, 3, 8)},
    "momentum": lambda wrap: sizes(wrap, momentum, 2),
    "gradients set to zero": lambda wrap: sizes(wrap, adam, 2, set_to_none=False),
    "running statistics": lambda wrap: sizes(wrap, adam, 2, (nn.BatchNorm1d(5),)),
    "random numbers": lambda wrap: sizes(wrap, adam, 2, (nn.Dropout(0.5),)),
    "schedule": lambda wrap: sizes(wrap, momentum, 2, schedule=True),
    "modes": modes,
    "training and evaluation": training_and_evaluation,
    "accumulation": accumulation,
    "accumulation into gradients that are replaced": lambda wrap: accumulation(wrap, replaces=True),
    "two functions": two_functions,
    "keywords": keywords,
    "state that both replace": average,
}


@pytest.mark.parametrize("case", CASES)
def test_programs_in_turn(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed: list[int] = []
    original = Program.holds
    monkeypatch.setattr(Program, "holds", lambda self: renewed.append(1) or original(self))

    def run(wrap: Any) -> list[Any]:
        ad.manual_seed(0)
        net, turn = CASES[case](wrap)
        found: list[Any] = []
        with np.errstate(all="ignore"):
            for n in range(8 * ROUNDS):
                if n == 8 * SETTLED:
                    renewed.clear()
                found += [turn(n).clone(), *(t.detach().clone() for t in (*net.parameters(), *net.buffers()))]
                found += [p.grad.clone() for p in net.parameters() if p.grad is not None]
        return found

    compiled = run(ad.compile)
    count = len(renewed)
    eager = run(lambda f: f)
    assert len(compiled) == len(eager)
    for a, b in zip(compiled, eager, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-3, atol=1e-4)
    assert count == 0


def test_programs_that_are_dropped_are_led_to_by_none() -> None:
    scale = {"by": "a"}
    step = ad.compile(lambda x: x * len(scale["by"]))
    x = ad.ones(2)
    for n in range(12):
        scale["by"] = "a" * (n + 1)
        assert step(x).tolist() == [n + 1.0] * 2
    (signature,) = step._programs.values()
    followers = [e.follower() for e in signature.entries if e.follower is not None]
    assert all(follower in (None, *signature.entries) for follower in followers)


def test_an_argument_that_is_written_and_shares_memory_with_what_is_read() -> None:
    w = ad.ones(3)
    step = ad.compile(lambda x: (x.add_(1.0), w * x)[1])
    for x in (ad.ones(3), w.view(3), ad.ones(3), w.detach(), ad.from_numpy(w.numpy())):
        before = w.clone()
        expected = (x + 1.0) * (x + 1.0) if np.shares_memory(x.numpy(), w.numpy()) else before * (x + 1.0)
        assert step(x).tolist() == expected.tolist()


def test_programs_that_take_turns_are_gone_with_their_function() -> None:
    step = ad.compile(lambda x: x.exp().sum())
    for n in range(16 * ROUNDS):
        step(ad.ones(2 + n % 2))
    programs = [ref(e.program) for signature in step._programs.values() for e in signature.entries]
    assert any(e.follower for signature in step._programs.values() for e in signature.entries)
    with collector_off():
        del step
        assert [program() for program in programs] == [None] * 2


def test_a_function_of_a_program_that_another_replaced_gives_its_calls_up() -> None:
    held = {"h": ad.ones(3)}

    def call(x: Any) -> Any:
        held["h"] = (held["h"] * x).detach()
        return held["h"].sum()

    step = ad.compile(call)
    step(ad.ones(3))
    program = step._latest.program
    first = program.run
    for _ in range(8):
        step(ad.ones(3))
    assert step._latest.program is program
    assert program.run is not first
    assert program.relocated
    assert first.__globals__["turn"].is_running
    assert type(first(ad.ones(3))) is not tuple
    assert type(program.run(ad.ones(3))) is tuple
