"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from adjoint.core.op.eager_kernels import KernelFunction
from adjoint.core.runtime.mode import guard_on, mode, tracing_paused
from adjoint.core.tensor.sparse_array import is_sparse
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands, StateDict
from adjoint.functions.creation.creation import zeros_like
from adjoint.optim.step.hyperparameters import Number, OptionReader, check_non_negative, declare_hyperparameters
from adjoint.optim.step.optimizer import Optimizer, ParamsT
from adjoint.optim.step.param_groups import Group, params_with_grad
from adjoint.optim.step.update_rule import UpdateKernel, add_penalty, apply_update, update_rows


class SGD(Optimizer):
    """Stochastic gradient descent, with optional momentum: p ← p - lr b.

    The buffer is b ← momentum b + (1 - dampening) g, and g at first. Without momentum it is g. With `nesterov` the step
    uses g + momentum b in place of b. The gradient g includes weight_decay p.

    Args:
        params: iterable of parameters, of pairs (name, parameter), or of dicts with options (parameter groups).
        lr: learning rate, a number or a tensor of one element. Default: 1e-3.
        momentum: factor of the buffer. Default: 0.
        dampening: share of g that the buffer leaves out. Default: 0.
        weight_decay: coefficient of the L2 penalty. Default: 0.
        nesterov: True for Nesterov momentum. Default: False.
        maximize: True to ascend along the gradient. Default: False.
        foreach, fused: accepted, without effect on the result.
        differentiable: True to record the step itself for autograd. Default: False.

    Raises: ValueError for negative numbers, and for `nesterov` without momentum or with dampening. RuntimeError for
    `fused` with `foreach` or `differentiable`.

    Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013.

    Example:
        >>> p = nn.Parameter(ad.tensor([1.0, -2.0]))
        >>> optimizer = optim.SGD([p], lr=0.1)
        >>> p.square().sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([ 0.8000, -1.6000])
    """

    like_parameter = ("momentum_buffer",)
    hyperparameters = declare_hyperparameters(
        "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused", momentum=check_non_negative
    )

    def __init__(
        self, params: ParamsT, lr: Number = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
        nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        defaults = self.collect_defaults(locals())
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        lr, maximize, nesterov = options.number("lr"), options.flag("maximize"), options.flag("nesterov")
        weight_decay, decays = options.optional("weight_decay")
        momentum, has_momentum = options.optional("momentum")
        dampening, dampens = options.optional("dampening")
        special = dampens or options.flag("differentiable")
        numbers = (-lr, weight_decay, momentum, 1 - dampening)
        for p in params_with_grad(group, sparse=True):
            grad: Operand = p.grad
            if is_sparse(grad):
                if decays:
                    raise RuntimeError("SGD: weight_decay is not compatible with sparse gradients")
                self._update_rows(p, -grad if maximize else grad, numbers, has_momentum, nesterov)
                continue
            buffer, first = self._momentum_buffer(p, special) if has_momentum else (None, False)
            apply_update(UPDATE_KERNEL, (p, grad, buffer), numbers, (maximize, decays, nesterov, first))

    def _update_rows(self, p: Tensor, g: Any, numbers: Operands, has_momentum: bool, nesterov: bool) -> None:
        """Update the rows of a parameter that its sparse gradient has, or its momentum, which is sparse too."""
        neg_step_size, _, momentum, one_minus_dampening = numbers
        if has_momentum:
            if mode.interpreter is not None:
                mode.interpreter.refuse_sparse_gradient("SGD adds rows to the momentum of a sparse gradient")
            state = self.state[p]
            before = state.get("momentum_buffer")
            state["momentum_buffer"] = buffer = (
                g.clone() if before is None else (before * momentum + g * one_minus_dampening).coalesce()
            )
            g = g + buffer * momentum if nesterov else buffer
        update_rows(ADD_KERNEL, p, g, (), (neg_step_size,), ())

    def _momentum_buffer(self, p: Tensor, special: bool) -> tuple[Tensor, bool]:
        """Return the momentum buffer of `p`, and whether to copy the gradient into it.

        The first gradient is neither dampened nor recorded; where that is no difference, momentum · 0 + g serves too.
        """
        state = self.state[p]
        exists = _has_momentum_buffer(state)
        if special:
            guard_on(state, _has_momentum_buffer, "SGD momentum_buffer exists")
        if not exists:
            with tracing_paused():
                state["momentum_buffer"] = zeros_like(p)
        if mode.recording:  # earlier steps stay as they were recorded
            state["momentum_buffer"] = state["momentum_buffer"].clone()
        return state["momentum_buffer"], special and not exists


def _update_parameter(
    p: Tensor, g: Tensor, buffer: Tensor | None, neg_step_size: Number, weight_decay: Number, momentum: Number,
    one_minus_dampening: Number, maximize: bool, decays: bool, nesterov: bool, first: bool,
) -> None:  # fmt: skip
    """One parameter's update, in place."""
    g = add_penalty(p, g, weight_decay, maximize, decays)
    if buffer is not None:
        if first:
            buffer.copy_(g.detach())
        else:
            buffer.mul_(momentum).add_(g, alpha=one_minus_dampening)
        g = g.add(buffer, alpha=momentum) if nesterov else buffer
    p.add_(g, alpha=neg_step_size)


def add_scaled(p: Tensor, g: Tensor, neg_step_size: Number) -> None:
    """One parameter's step, in place."""
    p.add_(g, alpha=neg_step_size)


ADD_KERNEL = KernelFunction("sgd_rows", add_scaled, 1e-8, written=(0,))
UPDATE_KERNEL = UpdateKernel("sgd", _update_parameter, 1e-8, written=(0, 2))


def _has_momentum_buffer(state: StateDict) -> bool:
    return state.get("momentum_buffer") is not None
