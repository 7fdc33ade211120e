"""Base class of learning rate schedules, and the options of parameter groups that they set."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from adjoint.core.runtime.mode import call_on_values, defer_to_step_end
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, StateDict
from adjoint.optim.step.hyperparameters import Number
from adjoint.optim.step.optimizer import Optimizer
from adjoint.optim.step.param_groups import Group

PerGroup = Number | Sequence[Number]  # one value for all parameter groups, or one for each

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` is deprecated: call `scheduler.step()` once for each epoch."
)
DOCS_HINT = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


class LRScheduler:
    """Base class of learning rate schedules; the first rate applies from the constructor on.

    A subclass defines `get_lr`, which returns the rates of epoch `last_epoch`, one per parameter group. Call `step`
    after the optimizer's own step, once per epoch.

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        last_epoch: epoch to resume after. Default: -1, a new schedule.

    Attributes:
        base_lrs: list of the initial rates lr₀.
        last_epoch: current epoch.

    Raises: TypeError for anything but an optimizer, KeyError for a resumed schedule of an optimizer without loaded
    state.

    Example:
        >>> class Halving(optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [lr / 2**self.last_epoch for lr in self.base_lrs]
        >>> Halving(optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)).get_last_lr()
        [1.0]
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copy_if_tensor(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0: load the optimizer's state first"
                )
        self.base_lrs: list[Number] = copy_group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._get_lr_called_within_step = False
        self._is_initial = False
        self._last_lr: list[Number] = []
        vars(optimizer).setdefault("_step_when_scheduled", vars(optimizer).get("step"))
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> Sequence[Number]:
        """Return the rate of each group for the epoch `last_epoch`, given those before it."""
        raise NotImplementedError(f"{type(self).__name__} has no get_lr()")

    def get_last_lr(self) -> list[Number]:
        """Return the current rates, one per parameter group.

        Example:
            >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=0.5)
            >>> optim.lr_scheduler.StepLR(optimizer, step_size=2).get_last_lr()
            [0.5]
        """
        return call_on_values(attrgetter("_last_lr"), self)

    def step(self, epoch: int | None = None) -> None:
        """Advance to the next epoch and set its rates, after the optimizer's own step.

        In a compiled function the change takes effect at the end of the call.

        Args:
            epoch: deprecated, epoch to go to. Default: None, the next one.

        Example:
            >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)
            >>> schedule = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
            >>> optimizer.step()
            >>> schedule.step()
            >>> optimizer.param_groups[0]["lr"]
            0.5
        """
        if defer_to_step_end(self.step, epoch):
            return
        if self._step_count == 1:
            _check_step_order(self.optimizer)
        if epoch is not None:
            warn_epoch_deprecated()
        self._step_count += 1
        try:
            self._update_lr(epoch)
        except BaseException:
            self._step_count -= 1
            raise

    def _update_lr(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch, or of `epoch`."""
        before = self.last_epoch
        self.last_epoch = before + 1 if epoch is None else epoch
        try:
            self._set_group_lrs(None if epoch is None else getattr(self, "_get_closed_form_lr", None))
        except BaseException:
            self.last_epoch = before
            raise

    def _set_group_lrs(self, compute_lrs: Callable[[], Sequence[Number]] | None = None) -> None:
        """Set the rates that `get_lr`, or `compute_lrs`, gives for the current epoch."""
        self._get_lr_called_within_step = True
        try:
            values = self.get_lr() if compute_lrs is None else compute_lrs()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            set_lr(group, lr)
        self._last_lr = copy_group_values(self.optimizer)

    def state_dict(self) -> StateDict:
        """Return the attributes of the schedule, except its optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Continue from what `state_dict()` gave."""
        self.__dict__.update(state_dict)

    def _current_lrs(self) -> list[Number]:
        """Return the rates before this epoch, for `get_lr`."""
        self._check_called_by_step(depth=4)
        return copy_group_values(self.optimizer)

    def _check_called_by_step(self, depth: int = 3) -> None:
        """Warn the caller of `get_lr`, `depth` frames above, if it is not `step`."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=depth,
            )


def check_optimizer(optimizer: object) -> None:
    """Raise TypeError for anything but an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _check_step_order(optimizer: Optimizer) -> None:
    """Warn, at the second call of a schedule's step, if the optimizer's has not been called before it."""
    if vars(optimizer).get("step") is not vars(optimizer).get("_step_when_scheduled"):
        message = (
            "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, "
            "make sure to call `optimizer.step()` before `lr_scheduler.step()`. "
        )
    elif not optimizer._opt_called:
        message = (
            "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite order: "
            "the first value of the learning rate schedule is skipped otherwise. "
        )
    else:
        return
    warnings.warn(message + DOCS_HINT, UserWarning, stacklevel=3)


def warn_epoch_deprecated() -> None:
    """Warn the caller of a schedule's step that the schedule counts for itself."""
    warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=3)


def set_lr(group: Group, lr: Number) -> None:
    """Set a group's rate; one kept in a tensor, in that tensor."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(lr)
    else:
        group["lr"] = lr


def has_first_beta(optimizer: Optimizer) -> bool:
    """True for betas, False for momentum. Raises ValueError for an optimizer with neither."""
    if not {"momentum", "betas"} & optimizer.defaults.keys():
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    return "betas" in optimizer.defaults


def check_anneal_strategy(strategy: str) -> None:
    """Raise ValueError for a strategy other than "cos" or "linear"."""
    if strategy not in ("cos", "linear"):
        raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {strategy}")


def function_attributes(function: Function | None) -> dict[str, Any] | None:
    """Return the attributes of a callable object, for a state dict; None for a plain function, which has no state."""
    return None if function is None or isinstance(function, types.FunctionType) else dict(vars(function))


def set_momentum(group: Group, momentum: Number) -> None:
    """Set a group's momentum, or the first of its betas."""
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def start_momentum(group: Group, base: Number, highest: Number) -> None:
    """Start a cycle of a group's momentum at the highest value, and note both bounds in the group."""
    set_momentum(group, highest)
    group.update(max_momentum=highest, base_momentum=base)


def copy_group_values(optimizer: Optimizer, key: str = "lr") -> list[Number]:
    """Return the option `key` of each group; of a tensor, a copy."""
    return [copy_if_tensor(group[key]) for group in optimizer.param_groups]


def copy_if_tensor(value: Number) -> Number:
    """Return a number, or a copy of a tensor."""
    return value.clone() if isinstance(value, Tensor) else value


def expand_to_groups(name: str, optimizer: Optimizer, value: PerGroup) -> list[Number]:
    """Return one value for each group. Raises ValueError for a list of another length."""
    groups = optimizer.param_groups
    values: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value] * len(groups)
    if len(values) != len(groups):
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(values)} values, param_groups has {len(groups)}."
        )
    return [copy_if_tensor(v) for v in values]
