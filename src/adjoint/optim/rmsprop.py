"""RMSprop optimizer: gradients over the root of the moving average of their squares."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.optim.step.hyperparameters import Number, OptionReader, check_non_negative, declare_hyperparameters
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


class RMSprop(Optimizer):
    """RMSprop optimizer: p ← p - lr b, with b ← momentum b + g / (√v + eps).

    Here v ← alpha v + (1 - alpha) g². With `centered` the square of the moving average of g is subtracted from v. The
    gradient g includes weight_decay p.

    Args:
        params: iterable of parameters, of pairs (name, parameter), or of dicts with options (parameter groups).
        lr: learning rate, a number or a tensor of one element. Default: 1e-2.
        alpha: decay rate of the moving averages. Default: 0.99.
        eps: number added to the denominator. Default: 1e-8.
        weight_decay: coefficient of the L2 penalty. Default: 0.
        momentum: factor of the buffer b. Default: 0.
        centered: True to divide by the centered second moment. Default: False.
        capturable, foreach: accepted, without effect on the result.
        maximize: True to ascend along the gradient. Default: False.
        differentiable: True to record the step itself for autograd. Default: False.

    Raises: ValueError for negative numbers.

    Sources: Tieleman and Hinton, lecture 6.5, 2012; Graves, Generating Sequences With Recurrent Neural Networks, 2013.

    Example:
        >>> p = nn.Parameter(ad.tensor([1.0, -2.0]))
        >>> optimizer = optim.RMSprop([p], lr=0.1, alpha=0.75)
        >>> p.square().sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([ 0.8000, -1.8000])
    """

    like_parameter = ("square_avg", "momentum_buffer", "grad_avg")
    single_numbers = ("step",)
    hyperparameters = declare_hyperparameters(
        "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable",
        momentum=check_non_negative,
        alpha=check_non_negative,
    )

    def __init__(
        self, params: ParamsT, lr: Number = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, self.collect_defaults(locals()))

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        maximize, slow = options.flag("maximize"), options.is_slow("alpha")
        weight_decay, decays = options.optional("weight_decay")
        momentum, has_momentum = options.optional("momentum")
        centered, alpha = options.flag("centered"), options.number("alpha")
        lr, eps = options.number("lr"), options.number("eps")
        numbers = (weight_decay, alpha, 1 - alpha, eps, momentum, -lr)
        names = ("square_avg", "momentum_buffer" if has_momentum else "", "grad_avg" if centered else "")
        entries = tuple(filter(None, names))
        for p in params_with_grad(group):
            state = init_param_state(self.state[p], p, entries, group)
            increment_step(state)
            tensors = (p, p.grad, *[state[name] if name else None for name in names])
            apply_update(UPDATE_KERNEL, tensors, numbers, (maximize, decays, slow))


def _update_parameter(
    p: Tensor, g: Tensor, mean_square: Tensor, buffer: Tensor | None, mean: Tensor | None, weight_decay: Number,
    alpha: Number, one_minus_alpha: Number, eps: Number, momentum: Number, neg_step_size: Number, maximize: bool,
    decays: bool, slow: bool,
) -> None:  # fmt: skip
    """One parameter's update, in place."""
    g = add_penalty(p, g, weight_decay, maximize, decays)
    mean_square.mul_(alpha).addcmul_(g, g, value=one_minus_alpha)
    if mean is not None:
        update_moving_average(mean, g, one_minus_alpha, slow)
        mean_square = mean_square.addcmul(mean, mean, value=-1)
    root = mean_square.sqrt() + eps
    if buffer is None:
        p.addcdiv_(g, root, value=neg_step_size)
    else:
        p.add_(buffer.mul_(momentum).addcdiv_(g, root), alpha=neg_step_size)


UPDATE_KERNEL = UpdateKernel("rmsprop", _update_parameter, 3e-8, written=(0, 2, 3, 4))
