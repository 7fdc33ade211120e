"""Adafactor optimizer: mean squares of a matrix factored into those of its rows and columns."""

from __future__ import annotations

from typing import Any

from adjoint.core.dtype.dtype import float64
from adjoint.core.dtype.dtype_info import finfo
from adjoint.core.runtime.mode import guard_on, tracing_paused
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import StateDict
from adjoint.functions.creation.creation import zeros
from adjoint.optim.step.hyperparameters import (
    Number,
    OptionReader,
    cast_option_scalars,
    declare_hyperparameters,
    require,
)
from adjoint.optim.step.optimizer import Optimizer, ParamsT
from adjoint.optim.step.param_groups import Group, describe_parameter, parameter_index, params_with_grad
from adjoint.optim.step.update_rule import init_param_state


def _check_eps(_: str, eps: tuple[float | None, float]) -> None:
    small, large = eps
    for i, value in ((1, 0 if small is None else small), (2, large)):
        if not value >= 0:
            raise ValueError(f"epsilon{i} should be >= 0 but is: {value}")


class Adafactor(Optimizer):
    """Adafactor optimizer: p ← p - α u / max(1, rms(u) / d), with u = g / √v and α = max(eps[1], rms(p)) min(lr, 1/√t).

    The moving average v takes g² with weight t^`beta2_decay`. For tensors with two or more dimensions it is the product
    of the means of its rows and columns over the mean of all. Before each step p shrinks by 1 - lr weight_decay. √v is
    at least eps[0], by default the spacing of the numbers of p at 1. `maximize` ascends along g. `foreach` has no
    effect on the result.

    Raises: ValueError for numbers out of range, and RuntimeError in `step` for complex parameters.

    Source: Shazeer and Stern, 2018.
    """

    like_parameter = ("variance",)
    single_numbers = ("step",)
    hyperparameters = declare_hyperparameters(
        "lr beta2_decay eps d weight_decay foreach maximize",
        lr=require(lambda lr: lr >= 0, "Learning rate should be >= 0 but is: {}"),
        beta2_decay=require(lambda decay: decay <= 0, "beta2_decay should be <= 0 but is: {}"),
        eps=_check_eps,
        d=require(lambda d: d >= 1, "Clipping threshold d should be >= 1 but is: {}"),
        weight_decay=require(lambda decay: decay >= 0, "weight_decay should be >= 0 but is: {}"),
    )

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, self.collect_defaults(locals()))

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        maximize, decays = options.flag("maximize"), options.flag("weight_decay")
        given = guard_on(group, lambda g: g["eps"][0] is not None, "the first eps of Adafactor")
        lr, decay = options.number("lr"), options.number("beta2_decay")
        clip, floor = options.number("d"), options.number(("eps", 1))
        shrink = 1 - lr * options.number("weight_decay") if decays else 1
        for p in params_with_grad(group):
            if p.is_complex():
                described = describe_parameter(group, parameter_index(group, p))
                raise RuntimeError(f"Adafactor does not support complex parameters: {described}")
            state = self._init_factored_state(p, group)
            least = options.number(("eps", 0)) if given else finfo(p.dtype).eps
            t = state["step"].add_(1.0).to(float64)
            rate = _root_mean_square(p).clamp(min=floor) * t.rsqrt().clamp(max=lr)
            factor, share, least = cast_option_scalars((shrink, t**decay, least), p)
            if decays:
                p.mul_(factor)
            gradient: Any = p.grad
            g = -gradient if maximize else gradient
            u = g * _update_variance(state, g, share, least).clamp(min=least * least).rsqrt()
            (descent,) = cast_option_scalars((-rate / (_root_mean_square(u) / clip).clamp(min=1.0),), p)
            p.add_(u, alpha=descent)

    def _init_factored_state(self, p: Tensor, group: Group) -> StateDict:
        state = self.state[p]
        if p.ndim > 1 and "row_var" not in state:
            with tracing_paused():
                shape = list(p.shape)
                state["row_var"] = zeros([*shape[:-1], 1], dtype=p.dtype)
                state["col_var"] = zeros([*shape[:-2], 1, shape[-1]], dtype=p.dtype)
        return init_param_state(state, p, () if p.ndim > 1 else self.like_parameter, group)


def _update_variance(state: StateDict, g: Tensor, one_minus_beta2: Number, min_value: Number) -> Tensor:
    """Update the moving average of g², or its factors, and return it."""
    square = g * g
    if g.ndim < 2:
        return state["variance"].lerp_(square, one_minus_beta2)
    row, column = state["row_var"], state["col_var"]
    row.lerp_(square.mean(-1, keepdim=True), one_minus_beta2)
    column.lerp_(square.mean(-2, keepdim=True), one_minus_beta2)
    return (row @ column).div_(row.mean(-2, keepdim=True).clamp(min=min_value))


def _root_mean_square(x: Tensor) -> Tensor:
    """Return the root mean square of x in float64."""
    return x.norm(2).to(float64) / max(1, x.numel()) ** 0.5
