"""Cosine schedule of the learning rate with warm restarts."""

from __future__ import annotations

from math import cos, floor, log, pi
from typing import TYPE_CHECKING, Any

from adjoint.core.runtime.mode import defer_to_step_end
from adjoint.optim.lr.scheduler import LRScheduler
from adjoint.optim.step.hyperparameters import Number
from adjoint.optim.step.optimizer import Optimizer

if TYPE_CHECKING:
    pass


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine learning rate schedule with restarts: eta_min + (lr₀ - eta_min) (1 + cos(π T_cur / T_i)) / 2.

    T_cur counts the epochs since the last restart, and T_i is the length of the current cycle. `step(epoch)` accepts a
    fraction of an epoch.

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        T_0: number of epochs of the first cycle.
        T_mult: factor between the lengths of consecutive cycles. Default: 1.
        eta_min: lowest rate. Default: 0.
        last_epoch: epoch to resume after. Default: -1, a new schedule.

    Raises: ValueError unless `T_0` and `T_mult` are positive integers.

    Source: Loshchilov and Hutter, SGDR, 2016.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     schedule.step()
        >>> schedule.get_last_lr()
        [1.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: Any, T_mult: Any = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Number]:
        self._check_called_by_step()
        low, height = self.eta_min, (1 + cos(pi * self.T_cur / self.T_i)) / 2
        return [low + (base - low) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on to the next epoch, or to `epoch`, which may lie between two. In a compiled step, at the call's end."""
        if defer_to_step_end(self.step, epoch):
            return
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._set_epoch(epoch)
        self.last_epoch = floor(epoch)
        self._set_group_lrs()

    def _set_epoch(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        first, growth = self.T_0, self.T_mult
        if epoch < first:
            self.T_i, self.T_cur = first, epoch
        elif growth == 1:
            self.T_cur = epoch % first
        else:
            restarts = int(log(epoch / first * (growth - 1) + 1, growth))
            self.T_cur = epoch - first * (growth**restarts - 1) / (growth - 1)
            self.T_i = first * growth**restarts
