"""ASGD optimizer: gradient descent with an average of the parameters."""

from __future__ import annotations

from adjoint.core.runtime.mode import tracing_paused
from adjoint.core.tensor.tensor import Tensor
from adjoint.optim.step.hyperparameters import Number, OptionReader, declare_hyperparameters
from adjoint.optim.step.optimizer import Optimizer, ParamsT
from adjoint.optim.step.param_groups import Group, params_with_grad
from adjoint.optim.step.update_rule import (
    UpdateKernel,
    add_penalty,
    apply_update,
    increment_step,
    init_param_state,
    make_scalar_state,
    read_number,
    round_number,
    write_number,
)


class ASGD(Optimizer):
    """Averaged stochastic gradient descent: p ← (1 - lambd η) p - η g and ax ← ax + μ (p - ax).

    Here η = lr / (1 + lambd lr t)^alpha and μ = 1 / max(1, t - t0) after t steps, and the first η is `lr`. The state
    holds the average ax. The gradient g includes weight_decay p. `maximize` ascends along it. `foreach` and
    `capturable` have no effect on the result; `differentiable` records the step itself.

    Raises: ValueError for a negative rate or weight decay.

    Source: Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging, 1992.
    """

    like_parameter = ("ax",)
    single_numbers = ("step", "eta", "mu")
    hyperparameters = declare_hyperparameters(
        "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
    )

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, self.collect_defaults(locals()))

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        maximize, (weight_decay, decays) = options.flag("maximize"), options.optional("weight_decay")
        for p in params_with_grad(group):  # before a traced step takes the number for an input
            if "eta" not in self.state[p]:
                with tracing_paused():
                    self.state[p]["eta"] = make_scalar_state(float(group["lr"]))
        lr, lambd, alpha, t0 = (options.number(name) for name in ("lr", "lambd", "alpha", "t0"))
        for p in params_with_grad(group):
            state = init_param_state(self.state[p], p, self.like_parameter, group, ones=("mu",))
            t = increment_step(state)
            eta, mu = read_number(state["eta"]), read_number(state["mu"])
            numbers = (weight_decay, 1 - lambd * eta, -eta, 1 - mu, mu)
            apply_update(UPDATE_KERNEL, (p, p.grad, state["ax"]), numbers, (maximize, decays))
            age = t - t0
            write_number(state["eta"], round_number(lr / (1 + lambd * lr * t) ** alpha))
            later = age.clamp(min=1.0) if isinstance(age, Tensor) else max(age, 1.0)
            write_number(state["mu"], round_number(1 / later))


def _update_parameter(
    p: Tensor,
    g: Tensor,
    average: Tensor,
    weight_decay: Number,
    shrink: Number,
    neg_step_size: Number,
    one_minus_mu: Number,
    mu: Number,
    maximize: bool,
    decays: bool,
) -> None:
    """One parameter's update, in place."""
    g = add_penalty(p, g, weight_decay, maximize, decays)
    p.mul_(shrink).add_(g, alpha=neg_step_size)
    average.mul_(one_minus_mu).add_(p, alpha=mu)


UPDATE_KERNEL = UpdateKernel("asgd", _update_parameter, 2e-8, written=(0, 2))
