"""Adam and AdamW optimizers."""

from __future__ import annotations

from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import StateDict
from adjoint.functions.elementwise.pointwise import maximum
from adjoint.optim.step.hyperparameters import Number, OptionReader, as_scalar, declare_hyperparameters
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


class Adam(Optimizer):
    """Adam optimizer: p ← p - lr m̂ / (√v̂ + eps).

    Here m̂ and v̂ are moving averages of g and g², over 1 - β₁ᵗ and 1 - β₂ᵗ after t steps. The gradient g includes
    weight_decay p.

    Args:
        params: iterable of parameters, of pairs (name, parameter), or of dicts with options (parameter groups).
        lr: learning rate, a number or a tensor of one element. Default: 1e-3.
        betas: decay rates (β₁, β₂) of the moving averages of g and of g². Default: (0.9, 0.999).
        eps: number added to the denominator. Default: 1e-8.
        weight_decay: coefficient of the L2 penalty. Default: 0.
        amsgrad: True to use the largest v so far. Default: False.
        foreach, fused, capturable: accepted, without effect on the result.
        maximize: True to ascend along the gradient. Default: False.
        differentiable: True to record the step itself for autograd. Default: False.
        decoupled_weight_decay: True to shrink p as `AdamW` does, instead of the penalty. Default: False.

    Raises: ValueError for negative numbers, and for betas outside [0, 1). RuntimeError for `fused` with `foreach` or
    `differentiable`.

    Sources: Kingma and Ba, 2014; Reddi et al., On the Convergence of Adam and Beyond, 2018.

    Example:
        >>> p = nn.Parameter(ad.tensor([1.0, -2.0]))
        >>> optimizer = optim.Adam([p], lr=0.1)
        >>> p.square().sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([ 0.9000, -1.9000])
    """

    like_parameter = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    single_numbers = ("step",)
    hyperparameters = declare_hyperparameters(
        "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"
    )
    decoupled: bool | None = None  # what a subclass insists on, whatever a state dict says

    def __init__(
        self, params: ParamsT, lr: Number = 1e-3, betas: tuple[Number, Number] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        defaults = self.collect_defaults(locals())
        _check_tensors(defaults)
        defaults["betas"] = tuple([as_scalar(beta) for beta in betas])
        super().__init__(params, defaults)

    def load_state_dict(self, state_dict: StateDict) -> None:
        super().load_state_dict(state_dict)
        if self.decoupled is not None:
            for group in self.param_groups:
                group["decoupled_weight_decay"] = self.decoupled

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        lr, beta1, beta2, numbers, facts = read_adam_options(options)
        amsgrad = options.flag("amsgrad")
        entries = self.like_parameter if amsgrad else self.like_parameter[:2]
        for p in params_with_grad(group):
            state = init_param_state(self.state[p], p, entries, group)
            t = increment_step(state)
            # -lr and 1 with their bias corrections, 1 - βᵗ
            descent, lift = lr / (beta1**t - 1), (1 - beta2**t) ** -0.5
            largest = state["max_exp_avg_sq"] if amsgrad else None
            tensors = (p, p.grad, state["exp_avg"], state["exp_avg_sq"], largest)
            apply_update(UPDATE_KERNEL, tensors, (*numbers, descent, lift), facts)


def _check_tensors(options: Group) -> None:
    """Raise ValueError for tensors where PyTorch takes none."""
    lr, betas = options["lr"], options["betas"]
    unsupported = bool(options["foreach"] and not options["capturable"])
    if isinstance(lr, Tensor) and unsupported:
        raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
    if not any(all(isinstance(beta, kind) for beta in betas) for kind in (float, Tensor)):
        raise ValueError("betas must be either both floats or both Tensors")
    if isinstance(betas[0], Tensor) and unsupported:
        raise ValueError("betas[0] as a Tensor is not supported for capturable=False and foreach=True")


def read_adam_options(options: OptionReader) -> tuple[Number, Number, Number, tuple[Number, ...], tuple[bool, ...]]:
    """Return lr, the betas, and the numbers and facts of Adam and its kin: those of `update_adam_moments`, and eps."""
    lr, (beta1, beta2) = options.number("lr"), options.betas()
    weight_decay, decays = options.optional("weight_decay")
    decoupled = options.flag("decoupled_weight_decay")
    shrink, penalty = (1 - lr * weight_decay if decays else 1, 0) if decoupled else (1, weight_decay)
    numbers = (shrink, penalty, 1 - beta1, beta2, 1 - beta2, options.number("eps"))
    maximize, slow = options.flag("maximize"), options.is_slow("betas", 0)
    return lr, beta1, beta2, numbers, (maximize, decays and not decoupled, decays and decoupled, slow)


def update_adam_moments(
    p: Tensor, g: Tensor, mean: Tensor, mean_square: Tensor, shrink: Number, weight_decay: Number,
    one_minus_beta1: Number, beta2: Number, one_minus_beta2: Number, maximize: bool, decays: bool, shrinks: bool,
    slow: bool,
) -> Tensor:  # fmt: skip
    """Shrink the parameter, update both moving averages in place, and return the gradient that they saw."""
    if shrinks:
        p.mul_(shrink)
    g = add_penalty(p, g, weight_decay, maximize, decays)
    update_moving_average(mean, g, one_minus_beta1, slow)
    mean_square.mul_(beta2).addcmul_(g, g, value=one_minus_beta2)
    return g


def _update_parameter(
    p: Tensor, g: Tensor, mean: Tensor, mean_square: Tensor, largest: Tensor | None, shrink: Number,
    weight_decay: Number, one_minus_beta1: Number, beta2: Number, one_minus_beta2: Number, eps: Number,
    neg_step_size: Number, rsqrt_bias_correction2: Number, *facts: bool,
) -> None:  # fmt: skip
    """One parameter's update, in place."""
    update_adam_moments(p, g, mean, mean_square, shrink, weight_decay, one_minus_beta1, beta2, one_minus_beta2, *facts)
    if largest is not None:
        before = largest.clone() if mode.recording else largest
        mean_square = largest.copy_(maximum(before, mean_square))
    p.addcdiv_(mean, (mean_square.sqrt() * rsqrt_bias_correction2).add_(eps), value=neg_step_size)


UPDATE_KERNEL = UpdateKernel("adam", _update_parameter, 4e-8, written=(0, 2, 3, 4))


class AdamW(Adam):
    """Adam optimizer with decoupled weight decay: p ← (1 - lr weight_decay) p before each step of Adam.

    The moving averages do not see the decay.

    Args:
        params: iterable of parameters, of pairs (name, parameter), or of dicts with options (parameter groups).
        lr: learning rate, a number or a tensor of one element. Default: 1e-3.
        betas: decay rates (β₁, β₂) of the moving averages of g and of g². Default: (0.9, 0.999).
        eps: number added to the denominator. Default: 1e-8.
        weight_decay: rate at which p shrinks, relative to `lr`. Default: 1e-2.
        amsgrad: True to use the largest v so far. Default: False.
        maximize: True to ascend along the gradient. Default: False.
        foreach, capturable, fused: accepted, without effect on the result.
        differentiable: True to record the step itself for autograd. Default: False.

    Raises: ValueError for negative numbers, and for betas outside [0, 1). RuntimeError for `fused` with `foreach` or
    `differentiable`.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2017.

    Example:
        >>> p = nn.Parameter(ad.tensor([1.0, -2.0]))
        >>> optimizer = optim.AdamW([p], lr=0.1)
        >>> p.square().sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([ 0.8990, -1.8980])
    """

    decoupled = True

    def __init__(
        self, params: ParamsT, lr: Number = 1e-3, betas: tuple[Number, Number] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip
