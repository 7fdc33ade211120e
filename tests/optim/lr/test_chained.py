"""Schedules made of schedules, those that follow a measured value, and the one for averaged models."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.optim.lr.test_schedules import optimizer, sequence
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint.optim import lr_scheduler, swa_utils

Maker = Callable[[Any, Any], Any]
COMBINED: dict[str, Maker] = {
    "sequence": lambda lr, o: lr.SequentialLR(
        o, [lr.ConstantLR(o, 0.1, 2), lr.ExponentialLR(o, 0.9), lr.CosineAnnealingLR(o, 5)], [3, 8]
    ),
    "warm up": lambda lr, o: lr.SequentialLR(
        o, [lr.LinearLR(o, 0.1, total_iters=4), lr.CosineAnnealingWarmRestarts(o, 3)], milestones=[4]
    ),
    "sequence of one": lambda lr, o: lr.SequentialLR(o, [lr.StepLR(o, 2)], []),
    "starts late": lambda lr, o: lr.SequentialLR(o, [lr.StepLR(o, 2), lr.ExponentialLR(o, 0.5)], [0]),
    "chain": lambda lr, o: lr.ChainedScheduler([lr.ConstantLR(o, 0.1, 2), lr.ExponentialLR(o, 0.9)]),
    "chain of three": lambda lr, o: lr.ChainedScheduler(
        [lr.MultiStepLR(o, [2, 5]), lr.PolynomialLR(o, 12), lr.MultiplicativeLR(o, lambda _: 1.1)], optimizer=o
    ),
    "chain of a sequence": lambda lr, o: lr.ChainedScheduler(
        [lr.SequentialLR(o, [lr.ConstantLR(o, 0.1, 2), lr.ExponentialLR(o, 0.9)], [4]), lr.StepLR(o, 2)]
    ),
}
each = pytest.mark.parametrize("name", COMBINED)
PLATEAUS: list[dict[str, Any]] = [
    {"patience": 2},
    {"patience": 0, "factor": 0.5, "cooldown": 2},
    {"patience": 1, "mode": "max"},
    {"patience": 1, "mode": "max", "threshold_mode": "abs", "threshold": 0.05},
    {"patience": 1, "threshold_mode": "abs", "threshold": 0.05, "min_lr": [0.01, 0.02]},
    {"patience": 0, "min_lr": 0.001, "eps": 1e-3},
]
VALUES = [1.0, 0.9, 0.91, 0.89, 0.9, 0.9, 0.9, float("nan"), 0.5, 0.6, 0.49, 0.49, 0.48, 0.48, 0.7, 0.7, 0.7, 0.7]


@each
def test_same_sequence_as_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = optimizer(ad), optimizer(torch)
    schedule, reference = COMBINED[name](lr_scheduler, ours), COMBINED[name](torch.optim.lr_scheduler, theirs)
    assert sequence(ours, schedule, 20) == sequence(theirs, reference, 20)


@each
def test_state_goes_both_ways(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs, fresh = optimizer(ad), optimizer(torch), optimizer(ad)
    schedule, reference = COMBINED[name](lr_scheduler, ours), COMBINED[name](torch.optim.lr_scheduler, theirs)
    expected = sequence(ours, schedule, 16)[8:]
    sequence(theirs, reference, 8)
    loaded = COMBINED[name](lr_scheduler, fresh)
    state = reference.state_dict()
    loaded.load_state_dict(copy.deepcopy(state))
    fresh.load_state_dict(theirs.state_dict())
    assert loaded.state_dict() == state
    assert sequence(fresh, loaded, 8) == expected


@pytest.mark.parametrize("kind", ["SequentialLR", "ChainedScheduler"])
def test_what_cannot_be_combined(kind: str) -> None:
    ours, other = optimizer(ad), optimizer(ad)
    step = lr_scheduler.StepLR(ours, 2)

    def make(schedules: list[Any]) -> Any:
        if kind == "ChainedScheduler":
            return lr_scheduler.ChainedScheduler(schedules)
        return lr_scheduler.SequentialLR(ours, schedules, [1] * (len(schedules) - 1))

    assert_raises(ValueError, f"{kind} expects at least one scheduler", make, [])
    with pytest.raises(ValueError, match=f"{kind} expects all schedulers to belong to the same optimizer.*index 1"):
        make([step, lr_scheduler.StepLR(other, 2)])
    with pytest.raises(ValueError, match=f"{kind} does not support `ReduceLROnPlateau`.*index 1"):
        make([step, lr_scheduler.ReduceLROnPlateau(ours)])
    assert_raises(TypeError, f"{kind} at index 1 should have `optimizer`", make, [step, 3])


def test_milestones_must_fit() -> None:
    ours = optimizer(ad)
    with pytest.raises(ValueError, match="one more than the number of milestone points"):
        lr_scheduler.SequentialLR(ours, [lr_scheduler.StepLR(ours, 2)], [1])


@pytest.mark.parametrize("options", PLATEAUS)
def test_plateaus_are_pytorchs(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    seen = []
    for library in (ad, torch):
        o = optimizer(library)
        schedule = library.optim.lr_scheduler.ReduceLROnPlateau(o, **copy.deepcopy(options))
        path = []
        for value in VALUES:
            schedule.step(library.tensor(value, dtype=library.float64))
            path.append((schedule.get_last_lr(), schedule.num_bad_epochs, schedule.in_cooldown))
        state = schedule.state_dict()
        twin = lr_scheduler.ReduceLROnPlateau(optimizer(ad))
        twin.load_state_dict(copy.deepcopy(state))
        assert twin.state_dict() == state
        seen.append((path, state))
    assert seen[0] == seen[1]


def test_plateaus_and_new_groups() -> None:
    ours = optimizer(ad)
    loose, strict = (lr_scheduler.ReduceLROnPlateau(ours, min_lr=m, patience=0) for m in (0.01, [0.01, 0.01]))
    ours.add_param_group({"params": [ad.ones(1, requires_grad=True)], "lr": 1.0})
    loose.step(1.0)
    loose.step(2.0)
    assert ours.param_groups[2]["lr"] == pytest.approx(0.1)
    strict.step(1.0)
    assert_raises(RuntimeError, r"param groups in the `optimizer` \(3\) differs.*\(2\)", strict.step, 2.0)


def test_a_plateau_wants_no_order() -> None:
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer(ad))
    schedule.step(1.0)
    with pytest.warns(UserWarning, match="epoch parameter"):
        schedule.step(1.0, 7)
    assert schedule.last_epoch == 7


@pytest.mark.parametrize("options", [
    {}, {"anneal_epochs": 4, "anneal_strategy": "linear"}, {"anneal_epochs": 0}, {"swa_lr": [0.1, 0.2]},
])  # fmt: skip
def test_swa_rates_are_pytorchs(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    given = {"swa_lr": 0.01, **options}
    ours, theirs = optimizer(ad), optimizer(torch)
    schedule, reference = swa_utils.SWALR(ours, **given), torch.optim.swa_utils.SWALR(theirs, **given)
    assert sequence(ours, schedule, 15) == sequence(theirs, reference, 15)
    assert schedule.state_dict() == reference.state_dict()


def test_swa_rates_refused() -> None:
    with pytest.raises(ValueError, match="anneal_strategy must be one of"):
        swa_utils.SWALR(optimizer(ad), 0.1, anneal_strategy="step")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0, got -1"):
        swa_utils.SWALR(optimizer(ad), 0.1, anneal_epochs=-1)
    assert_raises(ValueError, "swa_lr has 1 values", lambda: swa_utils.SWALR(optimizer(ad), [0.1]))
