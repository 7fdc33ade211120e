"""Rprop, which heeds only the signs of the gradient."""

from __future__ import annotations

from typing import Any

from adjoint.core.op.eager_kernels import Native
from adjoint.core.runtime.mode import concrete, setting
from adjoint.functions.creation.creation import full_like
from adjoint.functions.elementwise.pointwise import where
from adjoint.optim.step.fused_update import change
from adjoint.optim.step.hyperparameters import check_learning_rate, flag
from adjoint.optim.step.optimizer import Optimizer
from adjoint.optim.step.param_groups import Group, with_gradients
from adjoint.optim.step.per_parameter_state import elapsed, entries


class Rprop(Optimizer):
    """p ← p - sign(g) s; s grows by etas[1] where g keeps its sign, and shrinks by etas[0] where not, which p sits out.

    s starts at `lr` and stays within `step_sizes`; with `maximize` g is the negated gradient. `foreach` and
    `capturable` choose among PyTorch's implementations, and nothing here; `differentiable` records the step itself.
    Raises ValueError for a negative rate, and unless 0 < etas[0] < 1 < etas[1].
    Source: Riedmiller and Braun, 1993.
    """

    like_parameter = ("prev", "step_size")
    single_numbers = ("step",)

    def __init__(
        self, params: Any, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def check_options(self, options: Group) -> None:
        check_learning_rate(options["lr"])
        low, high = options["etas"]
        if not 0 < low < 1 < high:
            raise ValueError(f"Invalid eta values: {low}, {high}")

    def update(self, group: Group) -> None:
        maximize = flag(group, "maximize")
        numbers = tuple([setting(group, (name, i)) for name in ("etas", "step_sizes") for i in (0, 1)])
        for p in with_gradients(group):
            if "step_size" not in self.state[p]:
                with concrete():
                    lr = float(group["lr"])
                    self.state[p]["step_size"] = full_like(p, complex(lr, lr) if p.is_complex() else lr)
            state = entries(self.state[p], p, ("prev",), group)
            elapsed(state)
            change(MOVE, (p, p.grad, state["prev"], state["step_size"]), numbers, (maximize,))


def _move(
    p: Any, g: Any, before: Any, size: Any, shrink: Any, grow: Any, least: Any, most: Any, maximize: bool
) -> None:
    """One parameter's update, in place."""
    g = -g if maximize else g
    turn = g * before
    size.copy_(where(turn > 0, size * grow, where(turn < 0, size * shrink, size)).clamp(least, most))
    before.copy_(where(turn < 0, 0.0, g))
    p.addcmul_(before.sign(), size, value=-1)


MOVE = Native("rprop", _move, 5e-8, written=(0, 2, 3))
