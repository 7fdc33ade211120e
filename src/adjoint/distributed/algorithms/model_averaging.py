"""Local SGD: ranks train apart for some steps, and then average their parameters.

Source: T. Lin et al., "Don't Use Large Mini-Batches, Use Local SGD" (ICLR 2020).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import cast

from adjoint.autograd.grad_mode import no_grad
from adjoint.core.runtime.mode import refuse_while_tracing
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import StateDict
from adjoint.distributed.algorithms.comm_hooks import Averaged, average, complete
from adjoint.distributed.collectives import Group, all_reduce
from adjoint.distributed.default_group import is_non_member, new_subgroups, resolve_group
from adjoint.distributed.gradients.gradient_bucket import GradBucket
from adjoint.distributed.process_group import ProcessGroup
from adjoint.functions.shape.join import cat
from adjoint.optim.step.optimizer import Optimizer
from adjoint.optim.step.param_groups import Group as ParamGroup

Parameters = Iterable[Tensor] | Iterable[ParamGroup]


def average_parameters(params: Iterable[Tensor], process_group: Group) -> None:
    """Replace the parameters by their means over the ranks of the group, in one exchange; other ranks do nothing."""
    averaged = list(params)
    if is_non_member(process_group) or not averaged:
        return
    group = resolve_group(process_group)
    with no_grad():
        flat = cat([p.detach().reshape(-1) for p in averaged]).div_(group.size())
        all_reduce(flat, group=group)
        for p, part in zip(averaged, flat.split([p.numel() for p in averaged]), strict=True):
            p.copy_(part.view(p.shape))


def get_params_to_average(params: Parameters) -> list[Tensor]:
    """Return the parameters, or those of an optimizer's groups, that have a gradient."""
    groups = [each["params"] if isinstance(each, dict) else [each] for each in params]
    return [p for group in groups for p in group if p.grad is not None]


def average_parameters_or_parameter_groups(params: Parameters, process_group: Group) -> None:
    """Average the parameters, or those of an optimizer's groups, that have a gradient."""
    average_parameters(get_params_to_average(params), process_group)


class ModelAverager(ABC):
    """Base class of what averages parameters after an optimizer's step."""

    def __init__(self, process_group: Group = None) -> None:
        self.process_group = resolve_group(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Parameters) -> None:
        """Average the parameters, if this step is one to do so."""


class PeriodicModelAverager(ModelAverager):
    """Average parameters in each `period`-th step after `warmup_steps`.

    Raises: ValueError for a period below 1, or negative steps.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Group = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(
                "a period of 1 averages parameters in each step: DistributedDataParallel alone does no more",
                stacklevel=2,
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Parameters) -> None:
        """Average the parameters, if this step is one to do so."""
        refuse_while_tracing("average_parameters()")
        since = self.step - self.warmup_steps
        if since >= 0 and since % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1


class PostLocalSGDState:
    """State of `post_local_sgd_hook`, which averages gradients over all ranks in the first steps, then over neighbours.

    Args:
        process_group: the ranks. Default: all.
        subgroup: neighbours. Default: the ranks of one machine.
        start_localSGD_iter: the number of first steps.
        post_local_gradient_allreduce: False to average nothing afterwards.
    """

    def __init__(
        self,
        process_group: Group,
        subgroup: Group,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group, self.subgroup, self.start_localSGD_iter = process_group, subgroup, start_localSGD_iter
        self.post_local_gradient_allreduce, self.iter = post_local_gradient_allreduce, 0


def post_local_sgd_hook(state: PostLocalSGDState, bucket: GradBucket) -> Averaged:
    """Average the gradients over all ranks in the first steps, and then over neighbours."""
    step = state.iter
    if step < state.start_localSGD_iter:
        state.iter += bucket.is_last()
        return average(bucket.buffer(), state.process_group)
    if not state.post_local_gradient_allreduce:
        return complete(bucket.buffer())
    if state.subgroup is None:
        state.subgroup = cast("ProcessGroup", new_subgroups()[0])
    return average(bucket.buffer(), state.subgroup)


class PostLocalSGDOptimizer(Optimizer):
    """Optimizer whose steps the averager follows."""

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        super().__init__(optim.param_groups, {})
        self.optim, self.averager = optim, averager
        self.param_groups, self.state = optim.param_groups, optim.state

    def step(self, closure: Callable[[], object] | None = None) -> object:
        """Make the optimizer's step, and average the parameters if it is one to do so."""
        loss: object = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def add_param_group(self, param_group: ParamGroup) -> None:
        if "optim" in vars(self):  # else its own groups are on their way
            self.optim.add_param_group(param_group)

    def state_dict(self) -> StateDict:
        """Return the optimizer's, with the averager's step."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the optimizer, and the averager's step, with a warning where there is none."""
        self.optim.load_state_dict({key: value for key, value in state_dict.items() if key != "step"})
        if "step" not in state_dict:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
                stacklevel=2,
            )
        self.averager.step, self.state = state_dict.get("step", 0), self.optim.state
