"""RAdam: Adam which waits for its mean square to be worth dividing by."""

from __future__ import annotations

from typing import Any

from adjoint.core.op.eager_kernels import KernelFunction
from adjoint.core.runtime.mode import runtime_input
from adjoint.functions.elementwise.pointwise import where
from adjoint.optim.step.fused_update import apply_update, is_slow_decay, update_moving_average
from adjoint.optim.step.hyperparameters import as_scalar, check_adaptive, is_option_set
from adjoint.optim.step.optimizer import Optimizer
from adjoint.optim.step.param_groups import Group, params_with_grad
from adjoint.optim.step.per_parameter_state import increment_step_tensor, init_param_state


class RAdam(Optimizer):
    """p ← p - lr m̂ r / (√v̂ + eps) once ρ > 5, and before that p ← p - lr m̂; m̂ and v̂ as in Adam.

    ρ = ρ∞ - 2 t β₂ᵗ / (1 - β₂ᵗ) with ρ∞ = 2 / (1 - β₂) - 1, and r² = (ρ-4)(ρ-2)ρ∞ / ((ρ∞-4)(ρ∞-2)ρ). eps is added
    before the bias of v̂ is corrected. g includes weight_decay p, unless `decoupled_weight_decay` shrinks p by
    1 - lr weight_decay instead; with `maximize` it is the negated gradient. `foreach` and `capturable` choose among
    PyTorch's implementations, and nothing here; `differentiable` records the step itself.
    Raises ValueError for negative numbers and for betas outside [0, 1).
    Source: Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, 2019.
    """

    like_parameter = ("exp_avg", "exp_avg_sq")
    single_numbers = ("step",)

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def check_options(self, options: Group) -> None:
        check_adaptive(options)

    def update(self, group: Group) -> None:
        maximize, decays, slow = (
            is_option_set(group, "maximize"),
            is_option_set(group, "weight_decay"),
            is_slow_decay(group, "betas", 0),
        )
        decoupled = is_option_set(group, "decoupled_weight_decay")
        lr = as_scalar(runtime_input(group, "lr"))
        beta1, beta2 = as_scalar(runtime_input(group, ("betas", 0))), as_scalar(runtime_input(group, ("betas", 1)))
        weight_decay = runtime_input(group, "weight_decay") if decays else 0
        shrink = 1 - lr * weight_decay if decays and decoupled else 1
        numbers = (shrink, weight_decay, 1 - beta1, beta2, 1 - beta2, runtime_input(group, "eps"))
        facts = (maximize, decays and not decoupled, decays and decoupled, slow)
        for p in params_with_grad(group):
            state = init_param_state(self.state[p], p, self.like_parameter, group)
            t = increment_step_tensor(state)
            rectified, factor = _rectification(beta2, t)
            descent = lr / (beta1**t - 1) * where(rectified, factor, 1.0)
            tensors = (p, p.grad, state["exp_avg"], state["exp_avg_sq"])
            apply_update(UPDATE_KERNEL, tensors, (*numbers, descent, where(rectified, 1.0, 0.0)), facts)


def _rectification(beta2: Any, t: Any) -> tuple[Any, Any]:
    """Whether ρ > 5, and then r √(1 - β₂ᵗ)."""
    longest, unbiased = 2 / (1 - beta2) - 1, 1 - beta2**t
    length = longest - 2 * t * beta2**t / unbiased
    rectified = length > 5
    squared = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return rectified, (where(rectified, squared, 1.0) * unbiased).sqrt()


def _update_parameter(
    p: Any, g: Any, mean: Any, mean_square: Any, shrink: Any, weight_decay: Any, one_minus_beta1: Any, beta2: Any,
    one_minus_beta2: Any,
    eps: Any, neg_step_size: Any, rectified: Any, maximize: bool, decays: bool, shrinks: bool, slow: bool,
) -> None:  # fmt: skip
    """One parameter's update, in place."""
    g = -g if maximize else g
    if shrinks:
        p.mul_(shrink)
    elif decays:
        g = g.add(p, alpha=weight_decay)
    update_moving_average(mean, g, one_minus_beta1, slow)
    mean_square.mul_(beta2).addcmul_(g, g, value=one_minus_beta2)
    p.addcdiv_(mean, where(rectified > 0, mean_square.sqrt() + eps, 1.0), value=neg_step_size)


UPDATE_KERNEL = KernelFunction("radam", _update_parameter, 4e-8, written=(0, 2, 3))
