"""Averages of a model's parameters over its training, and their learning rate schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from math import cos, pi
from typing import Any

from adjoint.autograd.grad_mode import no_grad
from adjoint.core.dtype.dtype import int64
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, Function
from adjoint.functions.creation.creation import tensor
from adjoint.nn.layers.normalization import BatchNorm
from adjoint.nn.module.module import Module
from adjoint.optim.lr.scheduler import LRScheduler, PerGroup, check_anneal_strategy, expand_to_groups
from adjoint.optim.step.optimizer import Optimizer

__all__ = ["AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn"]
__all__ += ["update_bn"]
PARAM_LIST = tuple[Tensor, ...] | list[Tensor]


class AveragedModel(Module):
    """Copy of a model whose parameters are averages over the training.

    A call runs the copy. `update_parameters` adds the model's current parameters to the average.

    Args:
        model: module to copy.
        device: placement of the copy, "cpu". Default: None, that of the model.
        avg_fn: function (averaged, current, n_averaged) of tensors that returns the new average. Default: the mean.
        multi_avg_fn: function like it that writes into a list of tensors. Default: None.
        use_buffers: True to average the buffers too, instead of copying them. Default: False.

    Raises: AssertionError for both functions.

    Source: Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization, 2018.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> average = optim.swa_utils.AveragedModel(model)
        >>> for value in (1.0, 3.0):
        ...     _ = nn.init.constant_(model.weight, value)
        ...     average.update_parameters(model)
        >>> average.module.weight.tolist()
        [[2.0]]
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: DeviceLike = None,
        avg_fn: Function | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model) if device is None else deepcopy(model).to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: object, **kwargs: object) -> Tensor:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Add the parameters of `model` to the average; the first call copies them.

        Args:
            model: module with the parameters of the averaged one.

        Example:
            >>> model = nn.Linear(1, 1)
            >>> average = optim.swa_utils.AveragedModel(model)
            >>> average.update_parameters(model)
            >>> int(average.n_averaged)
            1
        """
        ours: list[Tensor] = [*self.module.parameters()]
        theirs: list[Tensor] = [*model.parameters()]
        if self.use_buffers:
            ours, theirs = [*ours, *self.module.buffers()], [*theirs, *model.buffers()]
        pairs = [(a.detach(), b.detach()) for a, b in zip(ours, theirs, strict=False)]
        if self.n_averaged == 0:
            for average, current in pairs:
                average.copy_(current)
        elif self.multi_avg_fn is not None:
            for dtype in dict.fromkeys(average.dtype for average, _ in pairs):
                alike = [pair for pair in pairs if pair[0].dtype is dtype]
                self.multi_avg_fn([a for a, _ in alike], [b for _, b in alike], self.n_averaged)
        else:
            blend = get_swa_avg_fn() if self.avg_fn is None else self.avg_fn
            for average, current in pairs:
                average.copy_(blend(average, current, self.n_averaged))
        if not self.use_buffers:
            for mine, given in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(given.detach())
        self.n_averaged += 1


def get_ema_avg_fn(decay: float = 0.999) -> Function:
    """Return the function decay · averaged + (1 - decay) · current. Raises ValueError for a decay outside [0, 1]."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Tensor) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """Return a `multi_avg_fn` of `AveragedModel` for exponential averages: decay · averaged + (1 - decay) · current.

    Args:
        decay: weight of the average so far, in [0, 1]. Default: 0.999.

    Raises: ValueError for a decay outside [0, 1].

    Example:
        >>> average = optim.swa_utils.get_ema_multi_avg_fn(0.75)
        >>> x = ad.tensor([0.0])
        >>> average([x], [ad.tensor([4.0])], 1)
        >>> x
        tensor([1.])
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: PARAM_LIST, current_param_list: PARAM_LIST, _: Tensor) -> None:
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_avg_fn() -> Function:
    """Return the function of the plain average: averaged + (current - averaged) / (num_averaged + 1)."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Tensor) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """Return `get_swa_avg_fn` for lists of tensors, in place."""
    blend = get_swa_avg_fn()

    @no_grad()
    def swa_update(averaged_param_list: PARAM_LIST, current_param_list: PARAM_LIST, num_averaged: Tensor) -> None:
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            average.copy_(blend(average, current, num_averaged))

    return swa_update


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: DeviceLike = None) -> None:
    """Recompute the running statistics of a model's batch normalizations as averages over a loader.

    Averaged parameters need it: no batch has passed through them. The model's mode stays as it is.

    Args:
        loader: iterable of batches: inputs, or tuples or lists that start with the input.
        model: module to call.
        device: placement of the inputs. Default: None, as they are.

    Example:
        >>> model = nn.BatchNorm1d(1)
        >>> optim.swa_utils.update_bn([ad.tensor([[1.0], [3.0]])], model)
        >>> model.running_mean
        tensor([2.])
    """
    norms = [m for m in model.modules() if isinstance(m, BatchNorm)]
    if not norms:
        return
    momenta, was_training = [m.momentum for m in norms], model.training
    model.train()
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
    for batch in loader:
        inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(inputs if device is None else inputs.to(device))
    for m, momentum in zip(norms, momenta, strict=True):
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Learning rate schedule from the current rate to a constant one, for averaged models.

    Args:
        optimizer: Optimizer whose groups' learning rates to set.
        swa_lr: final rate, a number or a list with one per parameter group.
        anneal_epochs: number of epochs of the change. Default: 10.
        anneal_strategy: "cos" or "linear". Default: "cos".
        last_epoch: epoch to resume after. Default: -1, a new schedule.

    Raises: ValueError for another strategy, and for a negative number of epochs.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=1.0)
        >>> schedule = optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: PerGroup,
        anneal_epochs: Any = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        final = expand_to_groups("swa_lr", optimizer, swa_lr)
        check_anneal_strategy(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for group, lr in zip(optimizer.param_groups, final, strict=True):
            group["swa_lr"] = lr
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._check_called_by_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._annealing_fraction(step - 1), self._annealing_fraction(step)
        lrs = []
        for group in self.optimizer.param_groups:
            final = group["swa_lr"]
            start = final if before == 1 else (group["lr"] - before * final) / (1 - before)
            lrs.append(final * now + start * (1 - now))
        return lrs

    def _annealing_fraction(self, step: int) -> float:
        done = max(0, min(1, step / max(1, self.anneal_epochs)))
        return (1 - cos(pi * done)) / 2 if self._anneal_strategy == "cos" else done


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")
