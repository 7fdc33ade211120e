"""Schedules made of schedules: one after the other, or all together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from adjoint.core.runtime.mode import defer_to_step_end
from adjoint.core.typing import StateDict
from adjoint.optim.lr.reduce_on_plateau import ReduceLROnPlateau
from adjoint.optim.lr.scheduler import LRScheduler, copy_group_values, set_lr
from adjoint.optim.step.optimizer import Optimizer


class _CompositeScheduler(LRScheduler):
    """Schedule of other schedules, whose states are part of its own."""

    _schedulers: Sequence[LRScheduler]

    def state_dict(self) -> StateDict:
        """Return the attributes except the optimizer, and the states of the schedules."""
        state = super().state_dict()
        del state["_schedulers"]  # which comes last
        return {**state, "_schedulers": [schedule.state_dict() for schedule in self._schedulers]}

    def load_state_dict(self, state_dict: StateDict) -> None:
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for schedule, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            schedule.load_state_dict(state)

    def _check(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> None:
        """Raise TypeError or ValueError for schedules that cannot be combined."""
        kind = type(self).__name__
        for i, schedule in enumerate(schedulers):
            if not hasattr(schedule, "optimizer"):
                raise TypeError(f"{kind} at index {i} should have `optimizer` as its attribute.")
            if isinstance(schedule, ReduceLROnPlateau):
                raise ValueError(
                    f"{kind} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
                )
            if schedule.optimizer is not optimizer:
                raise ValueError(
                    f"{kind} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(schedule).__name__} at index {i} has {schedule.optimizer}, which is different from "
                    f"{type(optimizer).__name__}."
                )


class SequentialLR(_CompositeScheduler):
    """Sequence of learning rate schedules: each takes over at a milestone, with its epoch 0.

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        schedulers: list of schedules of this optimizer, made in advance.
        milestones: list of epochs, one fewer than schedules.
        last_epoch: epoch to resume after. Default: -1, a new schedule.

    Raises: ValueError for no schedules, for those of another optimizer, for `ReduceLROnPlateau`, and for another number
    of milestones.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)
        >>> warmup = optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
        >>> decay = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> schedule = optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[2])
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:  # each schedule set its own first rates when it was made
            set_lr(group, group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Take every schedule in `sched`, or in this one, an epoch back."""
        schedule = self if sched is None else sched
        if hasattr(schedule, "_schedulers"):
            for each in schedule._schedulers:
                self.recursive_undo(each)
        elif hasattr(schedule, "last_epoch"):
            schedule.last_epoch -= 1

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, after the optimizer's own step. In a compiled step each call ends with this."""
        if defer_to_step_end(self.step):
            return
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        schedule = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            schedule._update_lr(0)
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()


class ChainedScheduler(_CompositeScheduler):
    """Product of learning rate schedules: at each step all of `schedulers` change the rate, one after the other.

    Raises: ValueError for no schedules, schedules of other optimizers, and `ReduceLROnPlateau`.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or getattr(schedulers[0], "optimizer", None)
        self._check(optimizer, schedulers)
        assert optimizer is not None
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = copy_group_values(optimizer)

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, after the optimizer's own step. In a compiled step each call ends with this."""
        if defer_to_step_end(self.step):
            return
        for schedule in self._schedulers:
            schedule.step()
        self._last_lr = copy_group_values(self.optimizer)
