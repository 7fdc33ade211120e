"""One cycle of the learning rate, up and down again, while the momentum goes down and up."""

from __future__ import annotations

from math import cos, pi
from typing import Any

from adjoint.optim.lr.scheduler import (
    LRScheduler,
    PerGroup,
    check_anneal_strategy,
    check_optimizer,
    expand_to_groups,
    has_first_beta,
    set_momentum,
    start_momentum,
)
from adjoint.optim.step.optimizer import Optimizer


class OneCycleLR(LRScheduler):
    """One-cycle learning rate schedule: max_lr / div_factor → max_lr → max_lr / (div_factor · final_div_factor).

    Call `step` after each batch. The momentum, or β₁, moves the other way.

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        max_lr: highest rate, a number or a list with one per parameter group.
        total_steps: number of batches. Default: epochs · steps_per_epoch.
        epochs, steps_per_epoch: numbers whose product is `total_steps`. Default: None.
        pct_start: share of the steps with a rising rate. Default: 0.3.
        anneal_strategy: "cos" or "linear". Default: "cos".
        cycle_momentum: False to leave the momentum as it is. Default: True.
        base_momentum: lowest momentum, a number or a list. Default: 0.85.
        max_momentum: highest momentum, a number or a list. Default: 0.95.
        div_factor: `max_lr` over the first rate. Default: 25.
        final_div_factor: first rate over the last. Default: 1e4.
        three_phase: True for a fall to the first rate, and then one to the last. Default: False.
        last_epoch: epoch to resume after. Default: -1, a new schedule.

    Raises: ValueError for options out of range, an optimizer without momentum, and a step too many.

    Source: Smith and Topin, Super-Convergence, 2017.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0, momentum=0.9)
        >>> schedule = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=5, pct_start=0.4)
        >>> for _ in range(1):
        ...     optimizer.step()
        ...     schedule.step()
        >>> schedule.get_last_lr()
        [1.0]
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: PerGroup, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: PerGroup = 0.85, max_momentum: PerGroup = 0.95,
        div_factor: float = 25.0, final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        check_optimizer(optimizer)
        self.total_steps = _count_total_steps(total_steps, epochs, steps_per_epoch)
        _check_fraction(pct_start)
        check_anneal_strategy(anneal_strategy)
        if cycle_momentum:
            self.use_beta1 = has_first_beta(optimizer)
        max_lrs = expand_to_groups("max_lr", optimizer, max_lr)
        highest = expand_to_groups("max_momentum", optimizer, max_momentum)
        lowest = expand_to_groups("base_momentum", optimizer, base_momentum)
        self._schedule_phases = _make_phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, peak, high, low in zip(optimizer.param_groups, max_lrs, highest, lowest, strict=True):
                start = peak / div_factor
                group.update(initial_lr=start, max_lr=peak, min_lr=start / final_div_factor)
                if cycle_momentum:
                    start_momentum(group, low, high)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._check_called_by_step()
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}"
            )
        phase, start = self._current_phase()
        length = phase["end_step"] - start
        done = (self.last_epoch - start) / length if length else 1.0

        def anneal(start: float, end: float) -> float:
            if self._anneal_func_type == "cos":
                return end + (start - end) / 2.0 * (cos(pi * done) + 1)
            return (end - start) * done + start

        for group in self.optimizer.param_groups if self.cycle_momentum else ():
            set_momentum(group, anneal(group[phase["start_momentum"]], group[phase["end_momentum"]]))
        return [anneal(group[phase["start_lr"]], group[phase["end_lr"]]) for group in self.optimizer.param_groups]

    def _current_phase(self) -> tuple[dict[str, Any], float]:
        """Return the phase to which the step belongs, and the step at which it starts."""
        start = 0.0
        for phase in self._schedule_phases[:-1]:
            if self.last_epoch <= phase["end_step"]:
                return phase, start
            start = phase["end_step"]
        return self._schedule_phases[-1], start


def _count_total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        return _check_positive_int("total_steps", total_steps)
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    return _check_positive_int("epochs", epochs) * _check_positive_int("steps_per_epoch", steps_per_epoch)


def _check_positive_int(name: str, count: object) -> int:
    if not isinstance(count, int) or count <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {count}")
    return count


def _check_fraction(pct_start: object) -> None:
    if not (isinstance(pct_start, float) and 0 <= pct_start <= 1):
        raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")


def _make_phases(steps: int, rise: float, three_phase: bool) -> list[dict[str, Any]]:
    """Return each phase: its last step, and the options of a group that its rate and its momentum run between."""
    keys = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    up = (float(rise * steps) - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if three_phase:
        down = (float(2 * rise * steps) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum")
        phases = [up, down, (steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
    else:
        phases = [up, (steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    return [dict(zip(keys, phase, strict=True)) for phase in phases]
