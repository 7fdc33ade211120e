"""Schedules of the learning rate by closed formulas of the epoch; lr₀ is the rate at the start."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import cos, pi
from typing import Any

from adjoint.core.typing import StateDict
from adjoint.optim.lr import scheduler
from adjoint.optim.lr.chained import ChainedScheduler, SequentialLR
from adjoint.optim.lr.cosine_restarts import CosineAnnealingWarmRestarts
from adjoint.optim.lr.cyclic import CyclicLR
from adjoint.optim.lr.one_cycle import OneCycleLR
from adjoint.optim.lr.reduce_on_plateau import ReduceLROnPlateau
from adjoint.optim.lr.scheduler import LRScheduler, check_optimizer, function_attributes
from adjoint.optim.step.hyperparameters import Number
from adjoint.optim.step.optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip
LRLambda = Callable[[int], float] | Sequence[Callable[[int], float]]  # for all groups, or for each
_LRScheduler = LRScheduler  # its name in programs written before PyTorch 2.0
EPOCH_DEPRECATION_WARNING = scheduler.EPOCH_DEPRECATION_WARNING


class LambdaLR(LRScheduler):
    """Learning rate schedule by a function: lr₀ · lr_lambda(epoch).

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        lr_lambda: function of the epoch, or a list with one per parameter group.
        last_epoch: epoch to resume after. Default: -1, a new schedule.

    Raises: ValueError for a list of another length.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     schedule.step()
        >>> schedule.get_last_lr()
        [0.25]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: LRLambda, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        count = len(optimizer.param_groups)
        lambdas: list[Any] = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lambdas)}")
        self.lr_lambdas: list[Callable[[int], float]] = lambdas
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Number]:
        self._check_called_by_step()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self.base_lrs, strict=True)]

    def state_dict(self) -> StateDict:
        """Return the attributes except the optimizer and plain functions; of callable objects, their own attributes."""
        state = super().state_dict()
        del state["lr_lambdas"]  # which comes last
        return {**state, "lr_lambdas": [function_attributes(f) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict: StateDict) -> None:
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for f, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                f.__dict__.update(attributes)


class MultiplicativeLR(LambdaLR):
    """Learning rate schedule by factors: the rate before · lr_lambda(epoch), one function for all groups or for each.

    Raises: ValueError for another count of functions, TypeError for objects that cannot be called.
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: LRLambda, last_epoch: int = -1) -> None:
        for f in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(f):
                raise TypeError(f"lr_lambda should be a function, but got {type(f).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Number]:
        now = self._current_lrs()
        if self._is_initial:
            return now
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, now, strict=True)]


class StepLR(LRScheduler):
    """Learning rate schedule by steps: lr₀ · gamma^⌊epoch / step_size⌋.

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        step_size: number of epochs per step.
        gamma: factor at each step. Default: 0.1.
        last_epoch: epoch to resume after. Default: -1, a new schedule.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     schedule.step()
        >>> schedule.get_last_lr()
        [0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Number]:
        now = self._current_lrs()
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return [lr * self.gamma for lr in now] if due else now

    def _get_closed_form_lr(self) -> list[Number]:
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Learning rate schedule by milestones: lr₀ · gamma^(number of milestones reached).

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        milestones: iterable of epochs.
        gamma: factor at each milestone. Default: 0.1.
        last_epoch: epoch to resume after. Default: -1, a new schedule.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Number]:
        now = self._current_lrs()
        times = self.milestones.get(self.last_epoch)
        return [lr * self.gamma**times for lr in now] if times else now

    def _get_closed_form_lr(self) -> list[Number]:
        reached = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [lr * self.gamma**reached for lr in self.base_lrs]


class ConstantLR(LRScheduler):
    """Constant learning rate schedule: lr₀ · factor for `total_iters` epochs, and then lr₀.

    Raises: ValueError unless 0 ≤ factor ≤ 1.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Number]:
        now = self._current_lrs()
        if self.last_epoch == 0:
            return [lr * self.factor for lr in now]
        return [lr * (1.0 / self.factor) for lr in now] if self.last_epoch == self.total_iters else now

    def _get_closed_form_lr(self) -> list[Number]:
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [lr * factor for lr in self.base_lrs]


class LinearLR(LRScheduler):
    """Linear warm-up of the learning rate: lr₀ times a factor from `start_factor` to `end_factor`.

    The factor changes in equal steps over `total_iters` epochs and then stays.

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        start_factor: factor at the start, in (0, 1]. Default: 1/3.
        end_factor: factor at the end, in [0, 1]. Default: 1.
        total_iters: number of epochs of the change. Default: 5.
        last_epoch: epoch to resume after. Default: -1, a new schedule.

    Raises: ValueError for factors out of range.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
        >>> for _ in range(1):
        ...     optimizer.step()
        ...     schedule.step()
        >>> schedule.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Number]:
        now = self._current_lrs()
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in now]
        if self._is_initial or self.last_epoch > self.total_iters:
            return now
        rise = self.end_factor - self.start_factor
        growth = 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)
        return [lr * growth for lr in now]

    def _get_closed_form_lr(self) -> list[Number]:
        done = min(self.total_iters, self.last_epoch)
        factor = self.start_factor + (self.end_factor - self.start_factor) * done / self.total_iters
        return [lr * factor for lr in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Exponential learning rate schedule: lr₀ · gamma^epoch.

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        gamma: factor per epoch.
        last_epoch: epoch to resume after. Default: -1, a new schedule.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     schedule.step()
        >>> schedule.get_last_lr()
        [0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Number]:
        now = self._current_lrs()
        return now if self._is_initial else [lr * self.gamma for lr in now]

    def _get_closed_form_lr(self) -> list[Number]:
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Polynomial learning rate schedule: lr₀ · (1 - epoch / total_iters)^power, and 0 from `total_iters` on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Number]:
        now = self._current_lrs()
        if self._is_initial or self.last_epoch > self.total_iters:
            return now
        left, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return [lr * (left / before) ** self.power for lr in now]

    def _get_closed_form_lr(self) -> list[Number]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * left**self.power for lr in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Cosine learning rate schedule: eta_min + (lr₀ - eta_min) (1 + cos(π epoch / T_max)) / 2.

    Each rate follows from the one before, so changes by others persist.

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        T_max: number of epochs of the descent from lr₀ to `eta_min`.
        eta_min: lowest rate. Default: 0.
        last_epoch: epoch to resume after. Default: -1, a new schedule.

    Source: Loshchilov and Hutter, SGDR, 2016.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Number]:
        now = self._current_lrs()
        if self._is_initial:
            return now
        low, epoch, period = self.eta_min, self.last_epoch, self.T_max
        if self._step_count == 1 and epoch > 0:  # the rate before is not of this schedule
            return self._get_closed_form_lr()
        if (epoch - 1 - period) % (2 * period) == 0:  # up again from the lowest point
            rise = (1 - cos(pi / period)) / 2
            return [lr + (base - low) * rise for base, lr in zip(self.base_lrs, now, strict=True)]
        ratio = (1 + cos(pi * epoch / period)) / (1 + cos(pi * (epoch - 1) / period))
        return [ratio * (lr - low) + low for lr in now]

    def _get_closed_form_lr(self) -> list[Number]:
        low = self.eta_min
        return [low + (base - low) * (1 + cos(pi * self.last_epoch / self.T_max)) / 2 for base in self.base_lrs]
