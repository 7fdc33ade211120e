"""Adadelta, whose steps are as large as those of late were, measured in the gradient of late."""

from __future__ import annotations

from typing import Any

from adjoint.core.op.eager_kernels import Native
from adjoint.core.runtime.mode import setting
from adjoint.optim.step.fused_update import change
from adjoint.optim.step.hyperparameters import check_learning_rate, check_number, flag, scalar
from adjoint.optim.step.optimizer import Optimizer
from adjoint.optim.step.param_groups import Group, with_gradients
from adjoint.optim.step.per_parameter_state import elapsed, entries


class Adadelta(Optimizer):
    """p ← p - lr d, with d = g √(u + eps) / √(v + eps), and v, u the running means of g² and of d²; `rho` keeps them.

    g includes weight_decay p; with `maximize` it is the negated gradient. `foreach` and `capturable` choose among
    PyTorch's implementations, and nothing here; `differentiable` records the step itself.
    Raises ValueError for negative numbers and for rho outside [0, 1].
    Source: Zeiler, ADADELTA, 2012.
    """

    like_parameter = ("square_avg", "acc_delta")
    single_numbers = ("step",)

    def __init__(
        self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def check_options(self, options: Group) -> None:
        check_learning_rate(options["lr"])
        if not 0 <= options["rho"] <= 1:
            raise ValueError(f"Invalid rho value: {options['rho']}")
        check_number("epsilon value", options["eps"])
        check_number("weight_decay value", options["weight_decay"])

    def update(self, group: Group) -> None:
        maximize, decays = flag(group, "maximize"), flag(group, "weight_decay")
        rho = setting(group, "rho")
        weight_decay = setting(group, "weight_decay") if decays else 0
        numbers = (weight_decay, rho, 1 - rho, setting(group, "eps"), -scalar(setting(group, "lr")))
        for p in with_gradients(group):
            state = entries(self.state[p], p, self.like_parameter, group)
            elapsed(state)
            change(MOVE, (p, p.grad, state["square_avg"], state["acc_delta"]), numbers, (maximize, decays))


def _move(
    p: Any, g: Any, mean_square: Any, steps: Any, weight_decay: Any, far: Any, near: Any, eps: Any, descent: Any,
    maximize: bool, decays: bool,
) -> None:  # fmt: skip
    """One parameter's update, in place."""
    g = -g if maximize else g
    if decays:
        g = g.add(p, alpha=weight_decay)
    mean_square.mul_(far).addcmul_(g, g, value=near)
    step = (steps + eps).sqrt() / (mean_square + eps).sqrt() * g
    steps.mul_(far).addcmul_(step, step, value=near)
    p.add_(step, alpha=descent)


MOVE = Native("adadelta", _move, 4e-8, written=(0, 2, 3))
