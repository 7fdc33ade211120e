"""Fifty steps of training with every optimizer under every schedule: eager, compiled and PyTorch's agree.

ADJOINT_NIGHTLY=1 runs the whole product; a run of every day takes each optimizer and each schedule once.
"""

import os
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

NIGHTLY = os.environ.get("ADJOINT_NIGHTLY") == "1"
STEPS = 50
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-3},
    "Adam": {"lr": 0.01, "amsgrad": True}, "AdamW": {"lr": 0.01, "weight_decay": 0.05}, "Adamax": {"lr": 0.01},
    "NAdam": {"lr": 0.01, "momentum_decay": 0.01}, "RAdam": {"lr": 0.01},
    "RMSprop": {"lr": 0.005, "momentum": 0.5, "centered": True}, "Adagrad": {"lr": 0.05, "lr_decay": 0.01},
    "Adadelta": {"lr": 0.5}, "Adafactor": {"lr": 0.01}, "Rprop": {"lr": 0.01}, "ASGD": {"lr": 0.05},
    "LBFGS": {"lr": 0.05, "max_iter": 3, "history_size": 5, "line_search_fn": "strong_wolfe"}, "Muon": {"lr": 0.01},
}  # fmt: skip
Maker = Callable[[Any, Any], Any]  # (lr_scheduler of a library, optimizer) → schedule
SCHEDULES: dict[str, Maker] = {
    "none": lambda lib, o: None,
    "LambdaLR": lambda lib, o: lib.LambdaLR(o, lambda epoch: 1 / (1 + 0.1 * epoch)),
    "MultiplicativeLR": lambda lib, o: lib.MultiplicativeLR(o, lambda epoch: 0.97),
    "StepLR": lambda lib, o: lib.StepLR(o, 7, 0.7),
    "MultiStepLR": lambda lib, o: lib.MultiStepLR(o, [5, 20, 21], 0.5),
    "ConstantLR": lambda lib, o: lib.ConstantLR(o, 0.25, 10),
    "LinearLR": lambda lib, o: lib.LinearLR(o, 0.1, 1.0, 15),
    "ExponentialLR": lambda lib, o: lib.ExponentialLR(o, 0.95),
    "PolynomialLR": lambda lib, o: lib.PolynomialLR(o, STEPS + 10, 2.0),
    "CosineAnnealingLR": lambda lib, o: lib.CosineAnnealingLR(o, 20, 1e-4),
    "CosineAnnealingWarmRestarts": lambda lib, o: lib.CosineAnnealingWarmRestarts(o, 8, 2),
    "CyclicLR": lambda lib, o: lib.CyclicLR(o, 0.001, 0.02, 6, cycle_momentum=_has_momentum(o)),
    "OneCycleLR": lambda lib, o: lib.OneCycleLR(o, 0.03, STEPS + 1, cycle_momentum=_has_momentum(o)),
    "ReduceLROnPlateau": lambda lib, o: lib.ReduceLROnPlateau(o, factor=0.5, patience=2, threshold=0.05),
    "SequentialLR": lambda lib, o: lib.SequentialLR(o, [lib.LinearLR(o, 0.1, 1.0, 5), lib.ExponentialLR(o, 0.9)], [5]),
    "ChainedScheduler": lambda lib, o: lib.ChainedScheduler([lib.ConstantLR(o, 0.5, 4), lib.StepLR(o, 9)]),
}
TOLERANCE = {"Muon": 5e-3, "LBFGS": 1e-7}  # matrices of bfloat16; a line search that magnifies how sums are rounded
ALL = [*product(OPTIMIZERS, SCHEDULES)]
SOME = [(name, [*SCHEDULES][(7 * i + 3) % len(SCHEDULES)]) for i, name in enumerate(OPTIMIZERS)]
SOME += [("SGD", name) for name in SCHEDULES if name not in {s for _, s in SOME}]


def _has_momentum(optimizer: Any) -> bool:
    return "momentum" in optimizer.param_groups[0] or "betas" in optimizer.param_groups[0]


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 6))
    return x, np.sin(x[:, :3] * 2) + 0.1 * rng.normal(size=(16, 3))


def trained(
    library: Any, name: str, schedule: str, compiled: bool = False
) -> tuple[list[float], list[Any], list[float]]:
    """The losses, the parameters at the end and the learning rates of a training in float64."""
    layers = [
        library.nn.Linear(6, 8, bias=name != "Muon"), library.nn.Tanh(), library.nn.Linear(8, 3, bias=name != "Muon"),
    ]  # fmt: skip
    model = library.nn.Sequential(*layers).double()
    rng = np.random.default_rng(1)
    with library.no_grad():
        for p in model.parameters():
            p.copy_(library.tensor(rng.normal(size=tuple(p.shape)) / 3))
    optimizer = getattr(library.optim, name)(model.parameters(), **OPTIMIZERS[name])
    schedules = SCHEDULES[schedule](library.optim.lr_scheduler, optimizer)
    x, y = (library.tensor(a) for a in data())

    def forward() -> Any:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        return loss

    def step() -> Any:
        loss = forward()
        optimizer.step()
        return loss

    calls_closure = name == "LBFGS"  # as often as it likes: its step is no part of a compiled one, the closure is
    run = (forward if calls_closure else step) if not compiled else ad.compile(forward if calls_closure else step)
    losses, rates = [], []
    for _ in range(STEPS):
        losses.append(float(optimizer.step(run) if calls_closure else run()))
        rates.append(float(optimizer.param_groups[0]["lr"]))
        if schedules is not None:
            schedules.step(losses[-1]) if schedule == "ReduceLROnPlateau" else schedules.step()
    return losses, [p.detach().numpy().copy() for p in model.parameters()], rates


@pytest.mark.parametrize(("name", "schedule"), ALL if NIGHTLY else SOME)
def test_fifty_steps(name: str, schedule: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's of its own code
        expected = trained(torch, name, schedule)
    tolerance = TOLERANCE.get(name, 1e-9)
    for compiled in (False, True):
        losses, parameters, rates = trained(ad, name, schedule, compiled)
        np.testing.assert_allclose(rates, expected[2], rtol=1e-12)
        np.testing.assert_allclose(losses, expected[0], rtol=tolerance, err_msg=f"losses, compiled={compiled}")
        for found, wanted in zip(parameters, expected[1], strict=True):
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=f"compiled={compiled}")
    assert losses[-1] < losses[0]


def test_every_optimizer_and_schedule_is_there() -> None:
    missing = {"Optimizer", "SparseAdam"}
    names = {n for n in ad.optim.__all__ if isinstance(getattr(ad.optim, n), type)} - missing
    assert names == set(OPTIMIZERS)
    assert set(ad.optim.lr_scheduler.__all__) - {"LRScheduler"} == set(SCHEDULES) - {"none"}
    assert {name for name, _ in SOME} == set(OPTIMIZERS)
    assert {schedule for _, schedule in SOME} == set(SCHEDULES)
