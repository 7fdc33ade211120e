"""Adamax optimizer: Adam with a decaying maximum in place of the root mean square."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.elementwise.pointwise import maximum
from adjoint.optim.step.hyperparameters import Number, OptionReader, declare_hyperparameters
from adjoint.optim.step.optimizer import Optimizer, ParamsT
from adjoint.optim.step.param_groups import Group, params_with_grad
from adjoint.optim.step.update_rule import (
    UpdateKernel,
    add_penalty,
    apply_update,
    increment_step,
    init_param_state,
    update_moving_average,
)


class Adamax(Optimizer):
    """Adamax optimizer: p ← p - lr m̂ / u, with u ← max(β₂ u, |g| + eps).

    Here m̂ is the moving average of g over 1 - β₁ᵗ. The gradient g includes weight_decay p. `maximize` ascends along it.
    `foreach` and `capturable` have no effect on the result; `differentiable` records the step itself.

    Raises: ValueError for negative numbers and for betas outside [0, 1).

    Source: Kingma and Ba, Adam, 2014.
    """

    like_parameter = ("exp_avg", "exp_inf")
    single_numbers = ("step",)
    hyperparameters = declare_hyperparameters("lr betas eps weight_decay foreach maximize differentiable capturable")

    def __init__(
        self, params: ParamsT, lr: Number = 2e-3, betas: tuple[Number, Number] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, self.collect_defaults(locals()))

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        maximize, slow = options.flag("maximize"), options.is_slow("betas", 0)
        weight_decay, decays = options.optional("weight_decay")
        lr, (beta1, beta2) = options.number("lr"), options.betas()
        numbers = (weight_decay, 1 - beta1, beta2, options.number("eps"))
        for p in params_with_grad(group):
            state = init_param_state(self.state[p], p, self.like_parameter, group)
            descent = lr / (beta1 ** increment_step(state) - 1)
            tensors = (p, p.grad, state["exp_avg"], state["exp_inf"])
            apply_update(UPDATE_KERNEL, tensors, (*numbers, descent), (maximize, decays, slow))


def _update_parameter(
    p: Tensor, g: Tensor, mean: Tensor, largest: Tensor, weight_decay: Number, one_minus_beta1: Number, beta2: Number,
    eps: Number, neg_step_size: Number, maximize: bool, decays: bool, slow: bool,
) -> None:  # fmt: skip
    """One parameter's update, in place."""
    g = add_penalty(p, g, weight_decay, maximize, decays)
    update_moving_average(mean, g, one_minus_beta1, slow)
    largest.copy_(maximum(largest * beta2, g.abs().add_(eps)))
    p.addcdiv_(mean, largest, value=neg_step_size)


UPDATE_KERNEL = UpdateKernel("adamax", _update_parameter, 3e-8, written=(0, 2, 3))
