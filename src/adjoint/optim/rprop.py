"""Rprop optimizer: steps by the signs of the gradient."""

from __future__ import annotations

from adjoint.core.runtime.mode import tracing_paused
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.creation import full_like
from adjoint.functions.elementwise.pointwise import where
from adjoint.optim.step.hyperparameters import Number, OptionReader, declare_hyperparameters, require
from adjoint.optim.step.optimizer import Optimizer, ParamsT
from adjoint.optim.step.param_groups import Group, params_with_grad
from adjoint.optim.step.update_rule import UpdateKernel, apply_update, increment_step, init_param_state


class Rprop(Optimizer):
    """Rprop optimizer: p ← p - sign(g) s, with a step size s for each element.

    Where g keeps its sign, s grows by etas[1]. Where g changes it, s shrinks by etas[0] and p stays. s starts at `lr`
    and stays within `step_sizes`. `maximize` ascends along g. `foreach` and `capturable` have no effect on the result;
    `differentiable` records the step itself.

    Raises: ValueError for a negative rate, and unless 0 < etas[0] < 1 < etas[1].

    Source: Riedmiller and Braun, 1993.
    """

    like_parameter = ("prev", "step_size")
    single_numbers = ("step",)
    hyperparameters = declare_hyperparameters(
        "lr etas step_sizes foreach maximize differentiable capturable",
        etas=require(lambda etas: 0 < etas[0] < 1 < etas[1], "Invalid eta values: {0[0]}, {0[1]}"),
    )

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, self.collect_defaults(locals()))

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        maximize = options.flag("maximize")
        numbers = tuple([options.number((name, i)) for name in ("etas", "step_sizes") for i in (0, 1)])
        for p in params_with_grad(group):
            if "step_size" not in self.state[p]:
                with tracing_paused():
                    lr = float(group["lr"])
                    self.state[p]["step_size"] = full_like(p, complex(lr, lr) if p.is_complex() else lr)
            state = init_param_state(self.state[p], p, ("prev",), group)
            increment_step(state)
            apply_update(UPDATE_KERNEL, (p, p.grad, state["prev"], state["step_size"]), numbers, (maximize,))


def _update_parameter(
    p: Tensor,
    g: Tensor,
    before: Tensor,
    size: Tensor,
    shrink: Number,
    grow: Number,
    min_step: Number,
    max_step: Number,
    maximize: bool,
) -> None:
    """One parameter's update, in place."""
    g = -g if maximize else g
    turn = g * before
    size.copy_(where(turn > 0, size * grow, where(turn < 0, size * shrink, size)).clamp(min_step, max_step))
    before.copy_(where(turn < 0, 0.0, g))
    p.addcmul_(before.sign(), size, value=-1)


UPDATE_KERNEL = UpdateKernel("rprop", _update_parameter, 5e-8, written=(0, 2, 3))
