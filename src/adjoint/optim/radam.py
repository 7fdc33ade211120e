"""RAdam optimizer: Adam with a rectified step size."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.elementwise.pointwise import where
from adjoint.optim.adam import read_adam_options, update_adam_moments
from adjoint.optim.step.hyperparameters import Number, OptionReader, declare_hyperparameters
from adjoint.optim.step.optimizer import Optimizer, ParamsT
from adjoint.optim.step.param_groups import Group, params_with_grad
from adjoint.optim.step.update_rule import UpdateKernel, apply_update, increment_step, init_param_state


class RAdam(Optimizer):
    """RAdam optimizer: p ← p - lr m̂ r / (√v̂ + eps) once ρ > 5, and p ← p - lr m̂ before.

    Here m̂ and v̂ are those of Adam. The length ρ of the average is ρ∞ - 2 t β₂ᵗ / (1 - β₂ᵗ), and ρ∞ = 2 / (1 - β₂) - 1.
    The rectification is r² = (ρ-4)(ρ-2)ρ∞ / ((ρ∞-4)(ρ∞-2)ρ). eps is added before the bias correction of v̂. The
    gradient g includes weight_decay p, unless `decoupled_weight_decay` shrinks p as `AdamW` does. `maximize` ascends
    along g. `foreach` and `capturable` have no effect on the result; `differentiable` records the step itself.

    Raises: ValueError for negative numbers and for betas outside [0, 1).

    Source: Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, 2019.
    """

    like_parameter = ("exp_avg", "exp_avg_sq")
    single_numbers = ("step",)
    hyperparameters = declare_hyperparameters(
        "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"
    )

    def __init__(
        self, params: ParamsT, lr: Number = 1e-3, betas: tuple[Number, Number] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, self.collect_defaults(locals()))

    def update(self, group: Group) -> None:
        lr, beta1, beta2, numbers, facts = read_adam_options(OptionReader(group))
        for p in params_with_grad(group):
            state = init_param_state(self.state[p], p, self.like_parameter, group)
            t = increment_step(state)
            rectified, factor = _rectification(beta2, t)
            tensors = (p, p.grad, state["exp_avg"], state["exp_avg_sq"])
            apply_update(UPDATE_KERNEL, tensors, (*numbers, lr / (beta1**t - 1) * factor, rectified), facts)


def _rectification(beta2: Number, t: Number) -> tuple[Number, Number]:
    """Return 1 and r √(1 - β₂ᵗ) if ρ > 5, else 0 and 1."""
    longest, unbiased = 2 / (1 - beta2) - 1, 1 - beta2**t
    length = longest - 2 * t * beta2**t / unbiased
    rectified = length > 5
    if rectified is False:
        return 0.0, 1.0
    squared = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    if rectified is True:
        return 1.0, (squared * unbiased) ** 0.5
    return where(rectified, 1.0, 0.0), where(rectified, squared * unbiased, 1.0).sqrt()


def _update_parameter(
    p: Tensor, g: Tensor, mean: Tensor, mean_square: Tensor, shrink: Number, weight_decay: Number,
    one_minus_beta1: Number, beta2: Number, one_minus_beta2: Number, eps: Number, neg_step_size: Number,
    rectified: Number, *facts: bool,
) -> None:  # fmt: skip
    """One parameter's update, in place."""
    update_adam_moments(p, g, mean, mean_square, shrink, weight_decay, one_minus_beta1, beta2, one_minus_beta2, *facts)
    root = mean_square.sqrt() + eps
    if isinstance(rectified, Tensor):
        p.addcdiv_(mean, where(rectified > 0, root, 1.0), value=neg_step_size)
    elif rectified:
        p.addcdiv_(mean, root, value=neg_step_size)
    else:
        p.add_(mean, alpha=neg_step_size)


UPDATE_KERNEL = UpdateKernel("radam", _update_parameter, 4e-8, written=(0, 2, 3))
