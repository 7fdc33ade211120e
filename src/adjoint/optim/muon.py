"""Muon optimizer: steps by matrices whose singular values are near 1."""

from __future__ import annotations

from math import sqrt
from typing import Any

from adjoint.core.dtype.dtype import bfloat16
from adjoint.core.runtime.mode import guard_on, tracing_paused
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.creation import zeros_like
from adjoint.functions.linalg.matmul import addmm
from adjoint.optim.step.hyperparameters import Number, OptionReader, accept, declare_hyperparameters, require
from adjoint.optim.step.optimizer import Optimizer, ParamsT
from adjoint.optim.step.param_groups import Group, describe_parameter, parameter_index, params_with_grad

LR_ADJUSTMENTS = ("original", "match_rms_adamw")  # how the rate depends on a matrix's shape


class Muon(Optimizer):
    """Muon optimizer for matrices: P ← (1 - lr weight_decay) P - lr s O.

    O is near U Vᵀ of the moving average B = U S Vᵀ of the gradient G. With `nesterov`, the step uses
    (1 - momentum) G + momentum B in place of B. Newton-Schulz iterations in bfloat16 give O: X = B / max(|B|, eps), and
    then `ns_steps` times X ← a X + (b XXᵀ + c (XXᵀ)²) X. The numbers a, b, c are `ns_coefficients`. For (m, n) matrices
    the scale s is √max(1, m/n), or 0.2 √max(m, n) with `adjust_lr_fn` "match_rms_adamw".

    Raises: ValueError for numbers out of range, and for parameters that are no matrices.

    Sources: Jordan et al., Muon, 2024; Liu et al., Muon is Scalable for LLM Training, 2025.
    """

    like_parameter = ("momentum_buffer",)
    hyperparameters = declare_hyperparameters(
        "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn",
        lr=require(lambda lr: lr >= 0, "Learning rate should be >= 0 but is: {}"),
        weight_decay=require(lambda decay: decay >= 0, "weight decay should be >= 0 but is: {}"),
        momentum=require(lambda momentum: momentum >= 0, "momentum should be >= 0 but is: {}"),
        ns_coefficients=require(lambda abc: len(abc) == 3, "Coefficients must be a tuple of exactly 3 values"),
        eps=accept,
        ns_steps=require(lambda n: n < 100, "Number of steps must be less than 100 for computational efficiency"),
        adjust_lr_fn=require(
            lambda rule: rule in (None, *LR_ADJUSTMENTS), "Adjust learning rate function {} is not supported"
        ),
    )

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(params, self.collect_defaults(locals()))
        for group in self.param_groups:
            for i, p in enumerate(group["params"]):
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}: "
                        f"{describe_parameter(group, i)}"
                    )

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        nesterov = options.flag("nesterov")
        rounds = guard_on(group, lambda g: (*g["ns_coefficients"], g["eps"], g["ns_steps"]), "ns options of Muon")
        rule = guard_on(group, lambda g: g["adjust_lr_fn"], "adjust_lr_fn of Muon")
        lr, momentum = options.number("lr"), options.number("momentum")
        shrink = 1 - lr * options.number("weight_decay")
        for p in params_with_grad(group):
            if p.is_complex():
                raise RuntimeError(
                    f"Muon does not support complex parameters: {describe_parameter(group, parameter_index(group, p))}"
                )
            state = self.state[p]
            if "momentum_buffer" not in state:
                with tracing_paused():
                    state["momentum_buffer"] = zeros_like(p)
            mean = state["momentum_buffer"].lerp_(p.grad, 1 - momentum)
            gradient: Any = p.grad
            step = _zeropower_via_newtonschulz(gradient.lerp(mean, momentum) if nesterov else mean, *rounds)
            rows, columns = p.shape
            scale = 0.2 * sqrt(max(p.shape)) if rule == "match_rms_adamw" else sqrt(max(1.0, rows / columns))
            p.mul_(shrink).add_(step.to(p.dtype), alpha=-lr * scale)


def _zeropower_via_newtonschulz(x: Tensor, a: float, b: float, c: float, eps: float, rounds: int) -> Tensor:
    """Approximate U Vᵀ of x = U S Vᵀ by Newton-Schulz iterations."""
    tall = x.shape[0] > x.shape[1]
    x = x.to(bfloat16)
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(rounds):
        gram = x @ x.T
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
