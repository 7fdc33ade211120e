"""Adadelta optimizer: steps scaled by the moving averages of squared steps and squared gradients."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.optim.step.hyperparameters import Number, OptionReader, declare_hyperparameters, require
from adjoint.optim.step.optimizer import Optimizer, ParamsT
from adjoint.optim.step.param_groups import Group, params_with_grad
from adjoint.optim.step.update_rule import UpdateKernel, add_penalty, apply_update, increment_step, init_param_state


class Adadelta(Optimizer):
    """Adadelta optimizer: p ← p - lr d, with d = g √(u + eps) / √(v + eps).

    Here v and u are moving averages of g² and of d², with the decay rate `rho`. The gradient g includes weight_decay p.
    `maximize` ascends along it. `foreach` and `capturable` have no effect on the result; `differentiable` records the
    step itself.

    Raises: ValueError for negative numbers and for rho outside [0, 1].

    Source: Zeiler, ADADELTA, 2012.
    """

    like_parameter = ("square_avg", "acc_delta")
    single_numbers = ("step",)
    hyperparameters = declare_hyperparameters(
        "lr rho eps weight_decay maximize capturable foreach differentiable",
        rho=require(lambda rho: 0 <= rho <= 1, "Invalid rho value: {}"),
    )

    def __init__(
        self, params: ParamsT, lr: Number = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, self.collect_defaults(locals()))

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        maximize, (weight_decay, decays) = options.flag("maximize"), options.optional("weight_decay")
        rho = options.number("rho")
        numbers = (weight_decay, rho, 1 - rho, options.number("eps"), -options.number("lr"))
        for p in params_with_grad(group):
            state = init_param_state(self.state[p], p, self.like_parameter, group)
            increment_step(state)
            tensors = (p, p.grad, state["square_avg"], state["acc_delta"])
            apply_update(UPDATE_KERNEL, tensors, numbers, (maximize, decays))


def _update_parameter(
    p: Tensor, g: Tensor, mean_square: Tensor, steps: Tensor, weight_decay: Number, rho: Number, one_minus_rho: Number,
    eps: Number, neg_step_size: Number, maximize: bool, decays: bool,
) -> None:  # fmt: skip
    """One parameter's update, in place."""
    g = add_penalty(p, g, weight_decay, maximize, decays)
    mean_square.mul_(rho).addcmul_(g, g, value=one_minus_rho)
    step = (steps + eps).sqrt() / (mean_square + eps).sqrt() * g
    steps.mul_(rho).addcmul_(step, step, value=one_minus_rho)
    p.add_(step, alpha=neg_step_size)


UPDATE_KERNEL = UpdateKernel("adadelta", _update_parameter, 4e-8, written=(0, 2, 3))
