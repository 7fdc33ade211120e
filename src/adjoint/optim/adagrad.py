"""Adagrad optimizer: gradients over the root of the sum of their squares."""

from __future__ import annotations

from adjoint.core.runtime.mode import tracing_paused
from adjoint.core.tensor.sparse_array import is_sparse
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.creation import full_like
from adjoint.optim.step.hyperparameters import Number, OptionReader, check_non_negative, declare_hyperparameters
from adjoint.optim.step.optimizer import Optimizer, ParamsT
from adjoint.optim.step.param_groups import Group, params_with_grad
from adjoint.optim.step.update_rule import (
    UpdateKernel,
    add_penalty,
    apply_update,
    increment_step,
    init_param_state,
    make_scalar_state,
    update_rows,
)


class Adagrad(Optimizer):
    """Adagrad optimizer: p ← p - lr / (1 + (t - 1) lr_decay) · g / (√s + eps), with s ← s + g² in step t.

    The gradient g includes weight_decay p.

    Args:
        params: iterable of parameters, of pairs (name, parameter), or of dicts with options (parameter groups).
        lr: learning rate, a number or a tensor of one element. Default: 1e-2.
        lr_decay: decay of the learning rate per step. Default: 0.
        weight_decay: coefficient of the L2 penalty. Default: 0.
        initial_accumulator_value: value of s at the start. Default: 0.
        eps: number added to the denominator. Default: 1e-10.
        foreach, fused: accepted, without effect on the result.
        maximize: True to ascend along the gradient. Default: False.
        differentiable: True to record the step itself for autograd. Default: False.

    Raises: ValueError for negative numbers. RuntimeError for `fused` with `foreach` or `differentiable`.

    Source: Duchi et al., Adaptive Subgradient Methods for Online Learning and Stochastic Optimization, 2011.

    Example:
        >>> p = nn.Parameter(ad.tensor([1.0, -2.0]))
        >>> optimizer = optim.Adagrad([p], lr=0.1)
        >>> p.square().sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([ 0.9000, -1.9000])
    """

    like_parameter = ("sum",)
    single_numbers = ("step",)
    hyperparameters = declare_hyperparameters(
        "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused",
        lr_decay=check_non_negative,
        initial_accumulator_value=check_non_negative,
    )

    def __init__(
        self, params: ParamsT, lr: Number = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, self.collect_defaults(locals()))
        for group in self.param_groups:
            for p in group["params"]:
                self._init_accumulator(p, group)

    def share_memory(self) -> None:
        """Let worker processes see the state change."""
        for entry in self.state.values():
            entry["sum"].share_memory_()

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        maximize, (weight_decay, decays) = options.flag("maximize"), options.optional("weight_decay")
        lr, lr_decay = options.number("lr"), options.number("lr_decay")
        numbers = (weight_decay, options.number("eps"))
        for p in params_with_grad(group, sparse=True):
            if not self.state[p]:
                with tracing_paused():
                    self._init_accumulator(p, group)
            state = init_param_state(self.state[p], p, (), group)
            descent = -lr / (1 + (increment_step(state) - 1) * lr_decay)
            grad = p.grad
            if is_sparse(grad):
                if decays:
                    raise RuntimeError("weight_decay option is not compatible with sparse gradients")
                update_rows(UPDATE_KERNEL, p, grad, (state["sum"],), (*numbers, descent), (maximize, False))
            else:
                apply_update(UPDATE_KERNEL, (p, grad, state["sum"]), (*numbers, descent), (maximize, decays))

    def _init_accumulator(self, p: Tensor, group: Group) -> None:
        value = self.defaults["initial_accumulator_value"]
        self.state[p]["step"] = make_scalar_state(0.0, group)
        self.state[p]["sum"] = full_like(p, complex(value, value) if p.is_complex() else value)


def _update_parameter(
    p: Tensor,
    g: Tensor,
    total: Tensor,
    weight_decay: Number,
    eps: Number,
    neg_step_size: Number,
    maximize: bool,
    decays: bool,
) -> None:
    """One parameter's update, in place."""
    g = add_penalty(p, g, weight_decay, maximize, decays)
    p.addcdiv_(g, total.addcmul_(g, g).sqrt() + eps, value=neg_step_size)


UPDATE_KERNEL = UpdateKernel("adagrad", _update_parameter, 2e-8, written=(0, 2))
