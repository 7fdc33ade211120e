"""Every optimizer with every schedule of its learning rate: a hundred compiled steps leave what eager ones leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.steps import batches, close, facts, mlp, same_facts, same_state, training

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.optim import lr_scheduler
from adjoint.optim.swa_utils import SWALR

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
    "Adafactor": lambda p: optim.Adafactor(p, lr=1e-3, eps=(1e-3, 1e-3), weight_decay=1e-2),
    "Adafactor eps maximize": lambda p: optim.Adafactor(p, lr=1e-3, eps=(1e-3, 1e-2), d=2.0, maximize=True),
    "Adadelta": lambda p: optim.Adadelta(p, lr=0.5, eps=1e-4, weight_decay=1e-2),
    "Adadelta maximize": lambda p: optim.Adadelta(p, lr=0.1, rho=0.4, eps=1e-4, maximize=True),
    "Adagrad": lambda p: optim.Adagrad(p, lr=1e-2, lr_decay=1e-2, eps=1e-4, initial_accumulator_value=0.1),
    "Adagrad decay maximize": lambda p: optim.Adagrad(p, lr=1e-3, eps=1e-4, weight_decay=1e-2, maximize=True),
    "Adamax": lambda p: optim.Adamax(p, lr=1e-3, eps=1e-4, weight_decay=1e-2),
    "Adamax maximize": lambda p: optim.Adamax(p, lr=1e-4, betas=(0.3, 0.9), eps=1e-4, maximize=True),
    "ASGD": lambda p: optim.ASGD(p, lr=1e-2, lambd=1e-2, weight_decay=1e-2),
    "ASGD averaging": lambda p: optim.ASGD(p, lr=1e-3, t0=5, alpha=0.5, maximize=True),
    "NAdam": lambda p: optim.NAdam(p, lr=1e-3, eps=1e-4),
    "NAdam decay": lambda p: optim.NAdam(p, lr=1e-3, eps=1e-4, weight_decay=1e-2, momentum_decay=1e-2),
    "NAdam decoupled": lambda p: optim.NAdam(
        p, lr=1e-4, eps=1e-4, weight_decay=1e-2, decoupled_weight_decay=True, maximize=True
    ),
    "RAdam": lambda p: optim.RAdam(p, lr=1e-3, betas=(0.8, 0.99), eps=1e-4, weight_decay=1e-2),
    "RAdam decoupled": lambda p: optim.RAdam(
        p, lr=1e-4, eps=1e-4, weight_decay=1e-2, decoupled_weight_decay=True, maximize=True
    ),
    "RMSprop": lambda p: optim.RMSprop(p, lr=1e-3, eps=1e-4, weight_decay=1e-2),
    "RMSprop centered": lambda p: optim.RMSprop(p, lr=1e-4, eps=1e-2, centered=True, momentum=0.5, maximize=True),
    "Rprop": lambda p: optim.Rprop(p, lr=1e-3),
    "Rprop maximize": lambda p: optim.Rprop(p, lr=1e-4, etas=(0.4, 1.1), step_sizes=(1e-6, 1e-2), maximize=True),
    "AdamW amsgrad maximize": lambda p: optim.AdamW(p, lr=1e-4, eps=1e-4, amsgrad=True, maximize=True),
}
SCHEDULES: dict[str, Maker] = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, 7, 0.7),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [3, 5, 40], 0.5),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.98),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.25, total_iters=20),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 30, 1e-5),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step % 9)),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 0.97 if step % 2 else 1.01),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, 9),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 60, 1.5),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 7, 2, 1e-5),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 1e-4, 1e-3, 8, cycle_momentum=_cycles(o)),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.LinearLR(o, 0.25, total_iters=20), lr_scheduler.ExponentialLR(o, 0.98)]
    ),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.25, total_iters=9), lr_scheduler.CosineAnnealingLR(o, 40, 1e-5)], [10]
    ),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=3),
    "SWALR": lambda o: SWALR(o, 1e-4, 30),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.01, total_steps=101, cycle_momentum=_cycles(o)),
}
STEPS = 100
FEW = ("StepLR", "OneCycleLR")
# each optimizer as it is by default with every schedule, most of them nightly; its variants with two of them
PAIRS = [
    pytest.param(o, s, marks=[] if s in FEW or o in ("SGD", "Adam") else [pytest.mark.nightly])
    for o in OPTIMIZERS
    for s in SCHEDULES
    if " " not in o or s in FEW
]
MUONS = [pytest.param(s, marks=[] if s in FEW else [pytest.mark.nightly]) for s in SCHEDULES]
ELSEWHERE = {"Muon", "LBFGS", "SparseAdam"}  # a test of its own; the others read values or refuse: no compiled step


def _cycles(optimizer: Any) -> bool:
    return "betas" in optimizer.defaults or optimizer.defaults.get("momentum", 0) > 0


@pytest.mark.sweep(6)
@pytest.mark.parametrize(("name", "schedule"), PAIRS)
def test_a_hundred_steps(name: str, schedule: str) -> None:
    agree(OPTIMIZERS[name], SCHEDULES[schedule], STEPS, 2 if "dampening" in name else 1)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("options", [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 2}])
@pytest.mark.parametrize("schedule", MUONS)
def test_matrices_by_muon(schedule: str, options: dict[str, Any]) -> None:
    """Its products are bfloat16: what rounds to the other side in one of them shows in all that follow."""
    runs = []
    for compiles in (ad.compile, lambda f: f):
        model = mlp()
        for bias in (model[0].bias, model[2].bias):
            bias.requires_grad_(False)
        optimizer = optim.Muon([model[0].weight, model[2].weight], lr=1e-3, **options)
        runs.append((compiles(training(model, optimizer)), SCHEDULES[schedule](optimizer), model))
    for x, y in batches(STEPS, 8, 12):
        losses = [step(x, y) for step, _, _ in runs]
        for _, scheduler, _ in runs:
            advance(scheduler, losses[-1])
        close(*losses, rough=1e-3)
    same_state(
        runs[0][2], runs[1][2], rough=1e-2 if schedule == "OneCycleLR" else 1e-3
    )  # whose rate is ten times as high
    assert runs[0][0].compilations == 1


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if "Adafactor" not in name])
def test_complex_parameters(name: str) -> None:
    def train(compiles: Callable[..., Any]) -> Any:
        p = ad.tensor([1 + 2j, 3 - 1j, -0.5j], dtype=ad.complex128, requires_grad=True)
        optimizer = OPTIMIZERS[name]([p])

        @compiles
        def step() -> Any:
            optimizer.zero_grad()
            loss = (abs(p) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        return [step().item() for _ in range(5)], p

    (losses, ours), (expected, theirs) = train(ad.compile), train(lambda f: f)
    assert losses == pytest.approx(expected, rel=1e-12)
    assert abs(ours - theirs).max().item() < 1e-12


@pytest.mark.claim("U2")
def test_one_cycle_for_a_thousand_steps_is_one_compilation() -> None:
    def cycle(optimizer: Any) -> Any:
        return lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=1001)

    agree(OPTIMIZERS["SGD momentum"], cycle, 1000, 1)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_groups_with_options_of_their_own(name: str) -> None:
    def in_groups(parameters: Any) -> Any:
        first, *rest = parameters
        groups = [{"params": [first], "lr": 5e-3, "weight_decay": 0.05}, {"params": rest, "maximize": True}]
        return OPTIMIZERS[name](groups)

    agree(in_groups, SCHEDULES["StepLR"], 12, 2 if "dampening" in name else 1)


@pytest.mark.sweep(2)
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
            advance(scheduler, losses[-1])
        if k < 5 or k == steps - 1:
            seen = [facts(loss, (), *state) for loss, (_, _, _, state) in zip(losses, runs, strict=True)]
            same_facts(*seen)
    assert runs[0][0].compilations == compilations


def advance(scheduler: Any, loss: Any) -> None:
    """One epoch on, for a schedule that follows the loss too."""
    if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
        scheduler.step(loss.item())
    else:
        scheduler.step()


@pytest.mark.parametrize("told", ["loss", "number", "elsewhere"])
def test_a_schedule_that_follows_the_loss_is_part_of_the_step(told: str) -> None:
    def train(compiles: Any) -> tuple[Any, ...]:
        model = mlp()
        optimizer = optim.SGD(model.parameters(), lr=0.5)
        scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step({"loss": loss, "number": loss.item(), "elsewhere": 2.0}[told])
            return loss

        step = compiles(step)
        seen = [(float(step(x, y)), optimizer.param_groups[0]["lr"]) for x, y in batches(12, 8, 12)]
        return seen, scheduler.num_bad_epochs, scheduler.last_epoch, step

    (seen, *counts, step), (expected, *expected_counts, _) = train(ad.compile), train(lambda function: function)
    assert [lr for _, lr in seen] == [lr for _, lr in expected]
    assert seen[-1][1] < 0.5
    assert np.allclose([loss for loss, _ in seen], [loss for loss, _ in expected], rtol=1e-5)
    assert (counts, step.compilations) == (expected_counts, 1)


def test_the_tables_name_every_optimizer_and_schedule() -> None:
    optimizers = {n for n in optim.__all__ if isinstance(getattr(optim, n), type)} - {"Optimizer"}
    assert optimizers - ELSEWHERE == {name.split()[0] for name in OPTIMIZERS}
    schedules = {
        n for n, c in vars(lr_scheduler).items() if isinstance(c, type) and issubclass(c, lr_scheduler.LRScheduler)
    }
    assert schedules - {"LRScheduler", "_LRScheduler"} == set(SCHEDULES) - {"SWALR"}
