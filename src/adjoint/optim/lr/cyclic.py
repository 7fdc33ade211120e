"""Cycles of the learning rate between two bounds, while the momentum goes the other way."""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from typing import TYPE_CHECKING

from adjoint.core.typing import StateDict
from adjoint.optim.lr.scheduler import (
    LRScheduler,
    PerGroup,
    check_optimizer,
    expand_to_groups,
    function_attributes,
    has_first_beta,
    set_lr,
    set_momentum,
    start_momentum,
)
from adjoint.optim.step.hyperparameters import Number
from adjoint.optim.step.optimizer import Optimizer

if TYPE_CHECKING:
    pass

MODES = ("triangular", "triangular2", "exp_range")


class CyclicLR(LRScheduler):
    """Cyclic learning rate schedule: base_lr + (max_lr - base_lr) h s.

    The height h rises from 0 to 1 in `step_size_up` steps and falls in `step_size_down`. The scale s is 1
    ("triangular"), 1/2ᶜ⁻¹ in cycle c ("triangular2"), gammaᵗ in step t ("exp_range"), or `scale_fn` of c or t;
    `scale_mode` says which of them, "cycle" or "iterations". With `cycle_momentum` the momentum, or the first of betas,
    is max_momentum - (max_momentum - base_momentum) h s.

    Raises: ValueError for another mode, lists that do not fit the groups, and an optimizer without momentum.

    Source: Smith, Cyclical Learning Rates for Training Neural Networks, 2015.
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: PerGroup, max_lr: PerGroup, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", cycle_momentum: bool = True,
        base_momentum: PerGroup = 0.8, max_momentum: PerGroup = 0.9, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        check_optimizer(optimizer)
        base_lrs = expand_to_groups("base_lr", optimizer, base_lr)
        self.max_lrs = expand_to_groups("max_lr", optimizer, max_lr)
        if mode not in MODES and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        own = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = scale_mode if scale_fn is not None else own
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = has_first_beta(optimizer)
            self.base_momentums = expand_to_groups("base_momentum", optimizer, base_momentum)
            self.max_momentums = expand_to_groups("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for i, group in enumerate(optimizer.param_groups):
                set_lr(group, base_lrs[i])
                if cycle_momentum:
                    start_momentum(group, self.base_momentums[i], self.max_momentums[i])
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the height of a cycle, or of a step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Number]:
        self._check_called_by_step()
        cycle = floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rise = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in bounds:
                set_momentum(group, high - (high - low) * rise * scale)
        return [low + (high - low) * rise * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> StateDict:
        """Return the attributes except the optimizer and a plain function; of a callable object, its own attributes."""
        return {**super().state_dict(), "_scale_fn_custom": function_attributes(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: StateDict) -> None:
        attributes = state_dict["_scale_fn_custom"]
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if attributes is not None:
            vars(self._scale_fn_custom).update(attributes)
