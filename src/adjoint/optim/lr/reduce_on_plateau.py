"""Schedule of the learning rate by a metric that stops improving."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

from adjoint.core.runtime.mode import defer_to_step_end
from adjoint.optim.lr.scheduler import (
    LRScheduler,
    PerGroup,
    check_optimizer,
    copy_group_values,
    set_lr,
    warn_epoch_deprecated,
)
from adjoint.optim.step.hyperparameters import Number
from adjoint.optim.step.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Learning rate schedule by a metric: lr ← max(lr · factor, min_lr) once the metric stops improving.

    `step(metric)` takes the metric of an epoch. The rate falls after more than `patience` epochs without a new best.

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        mode: "min" if lower metrics are better, or "max". Default: "min".
        factor: factor of the rate, below 1. Default: 0.1.
        patience: number of epochs without improvement that leave the rate as it is. Default: 10.
        threshold: smallest improvement that counts. Default: 1e-4.
        threshold_mode: "rel" for a threshold relative to the best metric, or "abs". Default: "rel".
        cooldown: number of epochs after a change that do not count. Default: 0.
        min_lr: lowest rate, a number or a list with one per parameter group. Default: 0.
        eps: largest change of the rate that is left out. Default: 1e-8.

    Raises: ValueError for a factor of 1 or more, another mode, and a list of another length.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
        >>> for loss in (3.0, 2.0, 2.0, 2.0):
        ...     schedule.step(loss)
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: PerGroup = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        check_optimizer(optimizer)
        least: Any = min_lr
        count, several = len(optimizer.param_groups), isinstance(least, (list, tuple))
        if several and len(least) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(least)}")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.factor = factor
        self.optimizer = optimizer
        self.default_min_lr = None if several else least
        self.min_lrs = list(least) if several else [least] * count
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = copy_group_values(optimizer)
        self.mode_worse = inf if mode == "min" else -inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self) -> None:
        """Forget the measurements."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Number, epoch: int | None = None) -> None:  # type: ignore[override]
        """Record a metric, a number or a tensor of one element, and lower the rate if due.

        In a compiled step this takes place at the end of each call.
        """
        if defer_to_step_end(partial(self.step, epoch=epoch), metrics):
            return
        value = float(metrics)
        if epoch is not None:
            warn_epoch_deprecated()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value, self.best):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = copy_group_values(self.optimizer)

    @property
    def in_cooldown(self) -> bool:
        """True while steps do not count."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float, best: float) -> bool:
        sign = 1.0 if self.mode == "max" else -1.0
        bound = best * (1.0 + sign * self.threshold) if self.threshold_mode == "rel" else best + sign * self.threshold
        return value > bound if self.mode == "max" else value < bound

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            after = max(before * self.factor, least)
            if before - after > self.eps:
                set_lr(group, after)
