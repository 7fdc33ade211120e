import copy
import warnings
from typing import Any

import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint.optim import lr_scheduler

CASES: list[tuple[str, dict[str, Any]]] = [
    ("StepLR", {"step_size": 4}),
    ("StepLR", {"step_size": 1, "gamma": 0.9}),
    ("MultiStepLR", {"milestones": [3, 7, 7, 11], "gamma": 0.5}),
    ("ExponentialLR", {"gamma": 0.93}),
    ("CosineAnnealingLR", {"T_max": 6}),
    ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.01}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 1 / (1 + epoch)}),
    ("LambdaLR", {"lr_lambda": [lambda epoch: 0.9**epoch, lambda epoch: epoch + 1]}),
    ("LinearLR", {}),
    ("LinearLR", {"start_factor": 0.1, "end_factor": 0.7, "total_iters": 9}),
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.95}),
    ("MultiplicativeLR", {"lr_lambda": [lambda epoch: 0.9, lambda epoch: 1 + epoch % 3]}),
    ("ConstantLR", {}),
    ("ConstantLR", {"factor": 0.5, "total_iters": 3}),
    ("PolynomialLR", {"total_iters": 12, "power": 2.5}),
    ("PolynomialLR", {}),
    ("CosineAnnealingWarmRestarts", {"T_0": 4}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.001}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 4}),
    ("CyclicLR", {"base_lr": [0.01, 0.02], "max_lr": 0.1, "step_size_up": 3, "step_size_down": 5}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "cycle_momentum": False}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.2, "step_size_up": 3, "scale_fn": lambda x: 1 / (x + 1), "gamma": 2}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20}),
    ("OneCycleLR", {"max_lr": [0.5, 0.1], "epochs": 4, "steps_per_epoch": 5, "anneal_strategy": "linear"}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20, "three_phase": True, "pct_start": 0.25}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20, "base_momentum": [0.7, 0.8], "max_momentum": 0.9}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20, "cycle_momentum": False, "div_factor": 5}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20, "final_div_factor": 50, "pct_start": 0.6}),
]
each = pytest.mark.parametrize(("name", "options"), CASES)
MOVED = ("lr", "momentum", "betas")


def optimizer(library: Any, kind: str = "SGD") -> Any:
    p, q = (library.tensor([1.0], requires_grad=True) for _ in range(2))
    return getattr(library.optim, kind)([{"params": [p]}, {"params": [q], "lr": 0.3}], lr=0.1)


def sequence(optimizer: Any, schedule: Any, steps: int) -> list[Any]:
    """The options which schedules move, before and after each step."""
    seen = []
    for _ in range(steps):
        options = [{k: g[k] for k in MOVED if k in g} for g in optimizer.param_groups]
        seen.append((options, list(schedule.get_last_lr())))
        optimizer.step()
        schedule.step()
    return seen


@each
@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_same_sequence_as_pytorch(name: str, options: dict[str, Any], kind: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = optimizer(ad, kind), optimizer(torch, kind)
    schedule = getattr(lr_scheduler, name)(ours, **copy.copy(options))
    reference = getattr(torch.optim.lr_scheduler, name)(theirs, **copy.copy(options))
    assert sequence(ours, schedule, 20) == sequence(theirs, reference, 20)


@each
def test_state_goes_both_ways(name: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = optimizer(ad), optimizer(torch)
    schedule = getattr(lr_scheduler, name)(ours, **copy.copy(options))
    reference = getattr(torch.optim.lr_scheduler, name)(theirs, **copy.copy(options))
    expected = sequence(ours, schedule, 16)[8:]
    sequence(theirs, reference, 8)
    fresh = optimizer(ad)
    loaded = getattr(lr_scheduler, name)(fresh, **copy.copy(options))
    state = reference.state_dict()
    loaded.load_state_dict(copy.deepcopy(state))
    fresh.load_state_dict(theirs.state_dict())
    assert loaded.state_dict() == state
    assert sequence(fresh, loaded, 8) == expected


@each
def test_closed_form(name: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = optimizer(ad), optimizer(torch)
    schedule = getattr(lr_scheduler, name)(ours, **copy.copy(options))
    reference = getattr(torch.optim.lr_scheduler, name)(theirs, **copy.copy(options))
    for o, s in ((ours, schedule), (theirs, reference)):
        o.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            s.step(7)
    assert schedule.get_last_lr() == pytest.approx(reference.get_last_lr(), rel=1e-14)


def test_resuming_needs_the_initial_rate() -> None:
    ours = optimizer(ad)
    with pytest.raises(KeyError, match=r"'initial_lr' is not specified in param_groups\[0\]"):
        lr_scheduler.StepLR(ours, 3, last_epoch=2)
    first = lr_scheduler.StepLR(ours, 3)
    sequence(ours, first, 2)
    again = lr_scheduler.StepLR(ours, 3, last_epoch=first.last_epoch)
    assert (again.last_epoch, again.base_lrs) == (3, [0.1, 0.3])


def test_warnings() -> None:
    ours = optimizer(ad)
    schedule = lr_scheduler.ExponentialLR(ours, 0.5)
    with pytest.warns(UserWarning, match="before `optimizer.step\\(\\)`.*how-to-adjust-learning-rate"):
        schedule.step()
    for asked in (schedule, lr_scheduler.LambdaLR(ours, lambda _: 1.0)):
        with pytest.warns(UserWarning, match="please use `get_last_lr\\(\\)`") as warned:
            asked.get_lr()
        assert warned[0].filename == __file__
    ours.step()
    with pytest.warns(UserWarning, match="epoch parameter") as told:
        schedule.step(3)
    assert str(told[0].message) == lr_scheduler.EPOCH_DEPRECATION_WARNING


def test_an_optimizer_that_wraps_another_counts_its_steps() -> None:
    class Wrapper(ad.optim.Optimizer):
        def __init__(self, wrapped: ad.optim.Optimizer) -> None:
            self.wrapped = wrapped

        param_groups = property(lambda self: self.wrapped.param_groups)

        def step(self, closure: Any = None) -> None:
            self.wrapped.step()

    wrapper = Wrapper(optimizer(ad))
    schedule = lr_scheduler.ExponentialLR(wrapper, 0.5)
    for _ in range(2):  # a warning would be an error
        wrapper.step()
        schedule.step()


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("LambdaLR", {"lr_lambda": [lambda _: 1]}, ValueError, "Expected 2 lr_lambdas, but got 1"),
        ("LinearLR", {"start_factor": 0}, ValueError, "Starting multiplicative factor"),
        ("LinearLR", {"end_factor": 1.5}, ValueError, "Ending multiplicative factor"),
        ("MultiplicativeLR", {"lr_lambda": [lambda _: 1]}, ValueError, "Expected 2 lr_lambdas, but got 1"),
        ("MultiplicativeLR", {"lr_lambda": 3}, TypeError, "lr_lambda should be a function, but got int"),
        ("ConstantLR", {"factor": 1.1}, ValueError, "Constant multiplicative factor expected to be between 0 and 1"),
        ("CosineAnnealingWarmRestarts", {"T_0": 0}, ValueError, "Expected positive integer T_0, but got 0"),
        ("CosineAnnealingWarmRestarts", {"T_0": 1, "T_mult": 0.5}, ValueError, "Expected integer T_mult >= 1"),
        ("CosineAnnealingWarmRestarts", {"T_0": 1, "eta_min": "0"}, ValueError, "Expected float or int eta_min"),
        ("CyclicLR", {"base_lr": [1], "max_lr": 2}, ValueError, "base_lr has 1 values, param_groups has 2"),
        ("CyclicLR", {"base_lr": 1, "max_lr": 2, "mode": "square"}, ValueError, "mode is invalid and scale_fn is None"),
        ("ReduceLROnPlateau", {"factor": 1.0}, ValueError, "Factor should be < 1.0"),
        ("ReduceLROnPlateau", {"mode": "mean"}, ValueError, "mode mean is unknown!"),
        ("ReduceLROnPlateau", {"threshold_mode": "both"}, ValueError, "threshold mode both is unknown!"),
        ("ReduceLROnPlateau", {"min_lr": [0.1]}, ValueError, "expected 2 min_lrs, got 1"),
        ("OneCycleLR", {"max_lr": 1}, ValueError, "You must define either total_steps OR"),
        ("OneCycleLR", {"max_lr": 1, "total_steps": 0}, ValueError, "Expected positive integer total_steps, but got 0"),
        ("OneCycleLR", {"max_lr": 1, "epochs": 2, "steps_per_epoch": 1.5}, ValueError, "integer steps_per_epoch"),
        ("OneCycleLR", {"max_lr": [1], "total_steps": 5}, ValueError, "max_lr has 1 values, param_groups has 2"),
        ("OneCycleLR", {"max_lr": 1, "total_steps": 5, "pct_start": 2}, ValueError, "Expected float between 0 and 1"),
        ("OneCycleLR", {"max_lr": 1, "total_steps": 5, "anneal_strategy": "x"}, ValueError, "'cos' or 'linear'"),
    ],
)
def test_refusals_change_nothing(name: str, options: dict[str, Any], error: type[Exception], message: str) -> None:
    ours = optimizer(ad)
    before = [dict(group) for group in ours.param_groups]
    assert_raises(error, message, lambda: getattr(lr_scheduler, name)(ours, **options))
    assert [dict(group) for group in ours.param_groups] == before


def test_only_for_optimizers() -> None:
    makers: list[Any] = [lr_scheduler.StepLR, lr_scheduler.LambdaLR, lr_scheduler.OneCycleLR]
    for make in makers:
        assert_raises(TypeError, "str is not an Optimizer", make, "optimizer", 3)
    assert_raises(TypeError, "str is not an Optimizer", lr_scheduler.ReduceLROnPlateau, "optimizer")
    assert_raises(TypeError, "str is not an Optimizer", lr_scheduler.CyclicLR, "optimizer", 1, 2)


def test_one_cycle_ends() -> None:
    ours = optimizer(ad)
    schedule = lr_scheduler.OneCycleLR(ours, 1.0, total_steps=3)
    sequence(ours, schedule, 3)
    before = [dict(group) for group in ours.param_groups]
    for _ in range(2):
        assert_raises(ValueError, r"Tried to step 4 times\. The specified number of total steps is 3", schedule.step)
    assert schedule.last_epoch == 3
    assert [dict(group) for group in ours.param_groups] == before


def test_one_cycle_needs_momentum() -> None:
    class Plain(ad.optim.Optimizer):
        pass

    plain = Plain([ad.ones(1, requires_grad=True)], {"lr": 0.1})
    assert_raises(ValueError, "must support momentum or beta1", lr_scheduler.OneCycleLR, plain, 1.0, total_steps=3)
    schedule = lr_scheduler.OneCycleLR(plain, 1.0, total_steps=30, cycle_momentum=False)
    assert schedule.get_last_lr() == [pytest.approx(0.04)]


@each
def test_rates_kept_in_tensors_follow_too(name: str, options: dict[str, Any]) -> None:
    plain, held = optimizer(ad), optimizer(ad)
    tensors = [ad.tensor(group["lr"], dtype=ad.float64) for group in held.param_groups]
    for group, rate in zip(held.param_groups, tensors, strict=True):
        group["lr"] = rate
    schedules = [getattr(lr_scheduler, name)(o, **copy.copy(options)) for o in (plain, held)]
    for _ in range(12):
        for o, schedule in zip((plain, held), schedules, strict=True):
            o.step()
            schedule.step()
        assert [group["lr"] for group in held.param_groups] == tensors
        for group, rate in zip(plain.param_groups, tensors, strict=True):
            assert rate.item() == pytest.approx(group["lr"], rel=1e-12)


def test_a_step_that_was_replaced() -> None:
    ours = optimizer(ad)
    schedule = lr_scheduler.StepLR(ours, 3)
    original = ours.step
    ours.step = lambda: original()
    ours.step()
    with pytest.warns(UserWarning, match=r"`optimizer.step\(\)` has been overridden"):
        schedule.step()


def test_the_old_name() -> None:
    from adjoint.optim.lr_scheduler import _LRScheduler

    class Halving(_LRScheduler):
        def get_lr(self) -> list[Any]:
            return [base * 0.5**self.last_epoch for base in self.base_lrs]

    ours = optimizer(ad)
    schedule = Halving(ours)
    sequence(ours, schedule, 2)
    assert schedule.get_last_lr() == [0.025, 0.075]


def test_rate_kept_in_a_tensor() -> None:
    rate = ad.tensor(0.5, dtype=ad.float64)
    ours = ad.optim.SGD([ad.ones(1, requires_grad=True)], lr=rate)
    schedule = lr_scheduler.ExponentialLR(ours, 0.5)
    last = schedule.get_last_lr()
    ours.step()
    schedule.step()
    assert ours.param_groups[0]["lr"] is rate
    assert rate.item() == 0.25
    assert last[0].item() == 0.5
    assert schedule.base_lrs[0].item() == 0.5


def test_lambda_objects_keep_their_attributes() -> None:
    class Factor:
        def __init__(self, base: float) -> None:
            self.base = base

        def __call__(self, epoch: int) -> float:
            return self.base**epoch

    schedule = lr_scheduler.LambdaLR(optimizer(ad), [Factor(0.5), lambda epoch: 1.0])
    state = schedule.state_dict()
    assert state["lr_lambdas"] == [{"base": 0.5}, None]
    other = lr_scheduler.LambdaLR(optimizer(ad), [Factor(0.9), lambda epoch: 1.0])
    other.load_state_dict(state)
    assert other.lr_lambdas[0].base == 0.5  # type: ignore[attr-defined]
