"""NAdam optimizer: Adam with Nesterov momentum."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.optim.adam import read_adam_options, update_adam_moments
from adjoint.optim.step.hyperparameters import Number, OptionReader, check_non_negative, declare_hyperparameters
from adjoint.optim.step.optimizer import Optimizer, ParamsT
from adjoint.optim.step.param_groups import Group, params_with_grad
from adjoint.optim.step.update_rule import (
    UpdateKernel,
    apply_update,
    increment_step,
    init_param_state,
    scale_number,
)


class NAdam(Optimizer):
    """Adam optimizer with Nesterov momentum: the step uses the moving average of the gradient one step ahead.

    The step is p ← p - lr ((1 - μₜ) g / (1 - Πμ) + μₜ₊₁ m / (1 - Πμ μₜ₊₁)) / (√v̂ + eps). Here m is the moving average
    of g, and v̂ that of g² over 1 - β₂ᵗ. The momentum is μₜ = β₁ (1 - 0.96^(t ψ) / 2), Πμ the product of μ₁ to μₜ, and ψ
    `momentum_decay`.

    Args:
        params: iterable of parameters, of pairs (name, parameter), or of dicts with options (parameter groups).
        lr: learning rate, a number or a tensor of one element. Default: 2e-3.
        betas: decay rates (β₁, β₂) of the moving averages of g and of g². Default: (0.9, 0.999).
        eps: number added to the denominator. Default: 1e-8.
        weight_decay: coefficient of the L2 penalty. Default: 0.
        momentum_decay: ψ, the rate at which the momentum approaches β₁. Default: 4e-3.
        decoupled_weight_decay: True to shrink p as `AdamW` does, instead of the penalty. Default: False.
        foreach, capturable: accepted, without effect on the result.
        maximize: True to ascend along the gradient. Default: False.
        differentiable: True to record the step itself for autograd. Default: False.

    Raises: ValueError for negative numbers, and for betas outside [0, 1).

    Source: Dozat, Incorporating Nesterov Momentum into Adam, 2016.

    Example:
        >>> p = nn.Parameter(ad.tensor([1.0, -2.0]))
        >>> optimizer = optim.NAdam([p], lr=0.1)
        >>> p.square().sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([ 0.8944, -1.8944])
    """

    like_parameter = ("exp_avg", "exp_avg_sq")
    single_numbers = ("step", "mu_product")
    hyperparameters = declare_hyperparameters(
        "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable",
        momentum_decay=check_non_negative,
    )

    def __init__(
        self, params: ParamsT, lr: Number = 2e-3, betas: tuple[Number, Number] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, self.collect_defaults(locals()))

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        lr, beta1, beta2, numbers, facts = read_adam_options(options)
        decay = options.number("momentum_decay")
        for p in params_with_grad(group):
            state = init_param_state(self.state[p], p, self.like_parameter, group, ones=("mu_product",))
            t = increment_step(state)
            now, then = _scheduled_momentum(beta1, decay, t), _scheduled_momentum(beta1, decay, t + 1)
            product = scale_number(state["mu_product"], now)
            descents = (lr * (1 - now) / (product - 1), lr * then / (product * then - 1))
            tensors = (p, p.grad, state["exp_avg"], state["exp_avg_sq"])
            apply_update(UPDATE_KERNEL, tensors, (*numbers, *descents, (1 - beta2**t) ** -0.5), facts)


def _scheduled_momentum(beta: Number, decay: Number, t: Number) -> Number:
    return beta * (1 - 0.5 * 0.96 ** (t * decay))


def _update_parameter(
    p: Tensor, g: Tensor, mean: Tensor, mean_square: Tensor, shrink: Number, weight_decay: Number,
    one_minus_beta1: Number, beta2: Number, one_minus_beta2: Number, eps: Number, neg_step_size: Number,
    neg_momentum_step_size: Number, rsqrt_bias_correction2: Number, *facts: bool,
) -> None:  # fmt: skip
    """One parameter's update, in place."""
    g = update_adam_moments(
        p, g, mean, mean_square, shrink, weight_decay, one_minus_beta1, beta2, one_minus_beta2, *facts
    )
    root = (mean_square.sqrt() * rsqrt_bias_correction2).add_(eps)
    p.addcdiv_(g, root, value=neg_step_size).addcdiv_(mean, root, value=neg_momentum_step_size)


UPDATE_KERNEL = UpdateKernel("nadam", _update_parameter, 5e-8, written=(0, 2, 3))
