"""Adamax: Adam with the largest gradient of late in place of the root of the mean square."""

from __future__ import annotations

from typing import Any

from adjoint.core.op.eager_kernels import Native
from adjoint.core.runtime.mode import setting
from adjoint.functions.elementwise.pointwise import maximum
from adjoint.optim.step.fused_update import change, follow, is_slow
from adjoint.optim.step.hyperparameters import check_adaptive, flag, scalar
from adjoint.optim.step.optimizer import Optimizer
from adjoint.optim.step.param_groups import Group, with_gradients
from adjoint.optim.step.per_parameter_state import elapsed, entries


class Adamax(Optimizer):
    """p ← p - lr m̂ / u, with the running mean m̂ of g over 1 - β₁ᵗ, and u ← max(β₂ u, |g| + eps).

    g includes weight_decay p; with `maximize` it is the negated gradient. `foreach` and `capturable` choose among
    PyTorch's implementations, and nothing here; `differentiable` records the step itself.
    Raises ValueError for negative numbers and for betas outside [0, 1).
    Source: Kingma and Ba, Adam, 2014.
    """

    like_parameter = ("exp_avg", "exp_inf")
    single_numbers = ("step",)

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
        differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def check_options(self, options: Group) -> None:
        check_adaptive(options)

    def update(self, group: Group) -> None:
        maximize, decays, slow = flag(group, "maximize"), flag(group, "weight_decay"), is_slow(group, "betas", 0)
        lr = scalar(setting(group, "lr"))
        beta1, beta2 = scalar(setting(group, ("betas", 0))), scalar(setting(group, ("betas", 1)))
        numbers = (setting(group, "weight_decay") if decays else 0, 1 - beta1, beta2, setting(group, "eps"))
        for p in with_gradients(group):
            state = entries(self.state[p], p, self.like_parameter, group)
            descent = lr / (beta1 ** elapsed(state) - 1)
            tensors = (p, p.grad, state["exp_avg"], state["exp_inf"])
            change(MOVE, tensors, (*numbers, descent), (maximize, decays, slow))


def _move(
    p: Any, g: Any, mean: Any, largest: Any, weight_decay: Any, near1: Any, far2: Any, eps: Any, descent: Any,
    maximize: bool, decays: bool, slow: bool,
) -> None:  # fmt: skip
    """One parameter's update, in place."""
    g = -g if maximize else g
    if decays:
        g = g.add(p, alpha=weight_decay)
    follow(mean, g, near1, slow)
    largest.copy_(maximum(largest * far2, g.abs().add_(eps)))
    p.addcdiv_(mean, largest, value=descent)


MOVE = Native("adamax", _move, 3e-8, written=(0, 2, 3))
