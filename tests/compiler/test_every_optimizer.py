"""Every optimizer with every schedule of its learning rate: a hundred compiled steps leave what eager ones leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.compiler.steps import batches, facts, mlp, same_facts, training

import adjoint as ad
from adjoint import nn, optim
from adjoint.optim import lr_scheduler

pytest.importorskip("llvmlite")
Maker = Callable[[Any], Any]
OPTIMIZERS: dict[str, Maker] = {
    "SGD": lambda p: optim.SGD(p, lr=0.05),
    "SGD momentum": lambda p: optim.SGD(p, lr=0.02, momentum=0.9),
    "SGD nesterov decay": lambda p: optim.SGD(p, lr=0.02, momentum=0.8, nesterov=True, weight_decay=1e-2),
    "SGD dampening maximize": lambda p: optim.SGD(p, lr=1e-3, momentum=0.5, dampening=0.3, maximize=True),
    "Adam": lambda p: optim.Adam(p, lr=1e-3, betas=(0.8, 0.99), eps=1e-4),
    "Adam amsgrad decay": lambda p: optim.Adam(p, lr=1e-3, eps=1e-4, amsgrad=True, weight_decay=1e-2),
    "Adam maximize": lambda p: optim.Adam(p, lr=1e-4, eps=1e-4, maximize=True),
    "Adam decoupled": lambda p: optim.Adam(p, lr=1e-3, eps=1e-4, decoupled_weight_decay=True, weight_decay=0.1),
    "AdamW": lambda p: optim.AdamW(p, lr=1e-3, eps=1e-4),
    "AdamW amsgrad maximize": lambda p: optim.AdamW(p, lr=1e-4, eps=1e-4, amsgrad=True, maximize=True),
}
SCHEDULES: dict[str, Maker] = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, 7, 0.7),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [3, 5, 40], 0.5),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.98),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.25, total_iters=20),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 30, 1e-5),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step % 9)),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.01, total_steps=101, cycle_momentum=_cycles(o)),
}
STEPS = 100


def _cycles(optimizer: Any) -> bool:
    return isinstance(optimizer, optim.Adam) or optimizer.defaults["momentum"] > 0


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_hundred_steps(name: str, schedule: str) -> None:
    agree(OPTIMIZERS[name], SCHEDULES[schedule], STEPS, 2 if "dampening" in name else 1)


def test_U2_one_cycle_for_a_thousand_steps_is_one_compilation() -> None:
    def cycle(optimizer: Any) -> Any:
        return lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=1001)

    agree(OPTIMIZERS["SGD momentum"], cycle, 1000, 1)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_groups_with_options_of_their_own(name: str) -> None:
    def in_groups(parameters: Any) -> Any:
        first, *rest = parameters
        groups = [{"params": [first], "lr": 5e-3, "weight_decay": 0.05}, {"params": rest, "maximize": True}]
        return OPTIMIZERS[name](groups)

    agree(in_groups, SCHEDULES["StepLR"], 12, 2 if "dampening" in name else 1)


@pytest.mark.parametrize("floating", [ad.float32, ad.float64], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_of_every_kind_of_shape(name: str, floating: Any) -> None:
    """0-d, empty, longer than a vector; one is frozen, one gets no gradient."""

    class Shapes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.empty = nn.Parameter(ad.tensor(0.5)), nn.Parameter(ad.zeros(0, 3))
            self.long, self.idle = nn.Parameter(ad.linspace(-1, 1, 67)), nn.Parameter(ad.ones(2))
            self.frozen = nn.Parameter(ad.ones(67), requires_grad=False)

        def forward(self, x: Any) -> Any:
            return (x * self.long + self.frozen).sin() * self.scale + self.empty.sum()

    def make(compiles: Callable[..., Any]) -> Any:
        model = Shapes().to(floating)
        optimizer = OPTIMIZERS[name](model.parameters())

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return compiles(step), (model, optimizer)

    (compiled, ours), (eager, theirs) = make(ad.compile), make(lambda f: f)
    for k in range(4):
        x = ad.linspace(0, k, 67, dtype=floating)
        got = facts(compiled(x), x, *ours)
        same_facts(got, facts(eager(x), x, *theirs))


def agree(make: Maker, schedule: Maker, steps: int, compilations: int) -> None:
    """Train one network compiled and its twins eagerly, in float32 and float64, and compare them now and at the end."""
    runs = []
    for compiles, dtype in ((ad.compile, ad.float32), (lambda f: f, ad.float32), (lambda f: f, ad.float64)):
        model = mlp().to(dtype)
        optimizer = make(model.parameters())
        runs.append((compiles(training(model, optimizer)), dtype, schedule(optimizer), (model, optimizer)))
    for k, (x, y) in enumerate(batches(steps, 8, 12)):
        losses = [step(x.to(dtype), y) for step, dtype, _, _ in runs]
        for _, _, scheduler, _ in runs:
            scheduler.step()
        if k < 5 or k == steps - 1:
            seen = [facts(loss, (), *state) for loss, (_, _, _, state) in zip(losses, runs, strict=True)]
            same_facts(*seen)
    assert runs[0][0].compilations == compilations


def test_the_tables_name_every_optimizer_and_schedule() -> None:
    optimizers = {n for n in optim.__all__ if isinstance(getattr(optim, n), type)} - {"Optimizer"}
    assert optimizers == {name.split()[0] for name in OPTIMIZERS}
    schedules = {
        n for n, c in vars(lr_scheduler).items() if isinstance(c, type) and issubclass(c, lr_scheduler.LRScheduler)
    }
    assert schedules - {"LRScheduler"} == set(SCHEDULES)
