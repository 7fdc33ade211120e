"""Adam, and AdamW, which decays the weights apart from the gradient."""

from __future__ import annotations

from typing import Any

from adjoint.core.dtype import default, float32, float64
from adjoint.core.mode import concrete, setting, watch
from adjoint.core.native import Native
from adjoint.core.tensor import Tensor
from adjoint.functions.creation import full, zeros, zeros_like
from adjoint.functions.pointwise import maximum
from adjoint.optim.groups import Group, with_gradients
from adjoint.optim.optimizer import Optimizer
from adjoint.optim.options import (
    check_implementation,
    check_learning_rate,
    check_number,
    check_one_element,
    fitted,
    scalar,
)
from adjoint.optim.whole import updated


class Adam(Optimizer):
    """p ← p - lr m̂ / (√v̂ + eps), with running means m̂ of g and v̂ of g², over 1 - βᵗ; g includes weight_decay p.

    With `amsgrad`, v̂ is the largest so far; with `maximize`, g is the negated gradient; with `decoupled_weight_decay`,
    p ← (1 - lr weight_decay) p comes first, and g does without. `foreach`, `fused` and `capturable` choose among
    PyTorch's implementations, and nothing here; `differentiable` records the step itself.
    Raises ValueError for negative numbers and for betas outside [0, 1).
    Sources: Kingma and Ba, 2014; Reddi et al., On the Convergence of Adam and Beyond, 2018.
    """

    like_parameter = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    decoupled: bool | None = None  # what a subclass insists on, whatever a state dict says

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        self.check_options(defaults)
        check_implementation(defaults)
        super().__init__(params, defaults)

    def check_options(self, options: Group) -> None:
        check_learning_rate(options["lr"])
        check_number("epsilon value", options["eps"])
        for i, beta in enumerate(options["betas"]):
            check_one_element(f"betas[{i}]", beta)
            check_number(f"beta parameter at index {i}", beta, below=1)
        check_number("weight_decay value", options["weight_decay"])

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for entries in self.state.values():
            if not isinstance(entries.get("step", zeros(())), Tensor):  # old checkpoints count with numbers
                entries["step"] = full((), float(entries["step"]), dtype=_step_dtype())
        if self.decoupled is not None:
            for group in self.param_groups:
                group["decoupled_weight_decay"] = self.decoupled

    def update(self, group: Group) -> None:
        maximize = watch(group, lambda g: bool(g["maximize"]), "Adam maximize")
        amsgrad = watch(group, lambda g: bool(g["amsgrad"]), "Adam amsgrad")
        decays = watch(group, lambda g: g["weight_decay"] != 0, "Adam weight_decay != 0")
        nearby = watch(group, lambda g: type(g["betas"][0]) is float and 0.5 < g["betas"][0] < 1.5, "Adam beta1 near 1")
        decoupled = watch(group, lambda g: bool(g["decoupled_weight_decay"]), "Adam decoupled_weight_decay")
        lr = scalar(setting(group, "lr"))
        beta1, beta2 = scalar(setting(group, ("betas", 0))), scalar(setting(group, ("betas", 1)))
        weight_decay = setting(group, "weight_decay") if decays else 0
        shrink = 1 - lr * weight_decay if decays and decoupled else 1
        numbers = (shrink, weight_decay, 1 - beta1, beta2, 1 - beta2, setting(group, "eps"))
        for p in with_gradients(group):
            state = self._state(p, amsgrad)
            mean, mean_square, step = state["exp_avg"], state["exp_avg_sq"], state["step"]
            step.add_(1.0)
            t = step.to(float64)
            descent, lift = lr / (beta1**t - 1), (1 - beta2**t).rsqrt()  # -lr and 1, with their bias corrections 1 - βᵗ
            shrink, weight_decay, near1, far2, near2, eps, descent, lift = fitted((*numbers, descent, lift), p)
            numbers_now = (shrink, weight_decay, near1, far2, near2, eps, descent, lift)
            tensors = (p, p.grad, mean, mean_square, state["max_exp_avg_sq"] if amsgrad else None)
            facts = (maximize, decays and not decoupled, decays and decoupled, nearby)
            if not updated(MOVE, tensors, numbers_now, facts):
                _move(*tensors, *numbers_now, *facts)

    def _state(self, p: Tensor, amsgrad: bool) -> dict[str, Any]:
        """The entries of `p`, made on its first step: the count of steps, and means that start at zero."""
        state = self.state[p]
        if "step" not in state:
            with concrete():
                state["step"] = zeros((), dtype=_step_dtype())
                state["exp_avg"] = zeros_like(p)
                state["exp_avg_sq"] = zeros_like(p)
        if amsgrad and "max_exp_avg_sq" not in state:
            with concrete():
                state["max_exp_avg_sq"] = zeros_like(p)
        return state


def _move(
    p: Any, g: Any, mean: Any, mean_square: Any, largest: Any, shrink: Any, weight_decay: Any, near1: Any, far2: Any,
    near2: Any, eps: Any, descent: Any, lift: Any, maximize: bool, decays: bool, shrinks: bool, nearby: bool,
) -> None:  # fmt: skip
    """One parameter's update, in place."""
    g = -g if maximize else g
    if shrinks:
        p.mul_(shrink)
    elif decays:
        g = g.add(p, alpha=weight_decay)
    # lerp_ of a tensor computes both of its forms: which of them it is, is known here
    mean.add_((g - mean).mul_(near1)) if nearby else mean.lerp_(g, near1)
    mean_square.mul_(far2).addcmul_(g, g, value=near2)
    if largest is not None:
        mean_square = largest.copy_(maximum(largest, mean_square))
    p.addcdiv_(mean, (mean_square.sqrt() * lift).add_(eps), value=descent)


MOVE = Native("adam", _move, 4e-8, written=(0, 2, 3, 4))


class AdamW(Adam):
    """Adam after p ← (1 - lr weight_decay) p: the decay does not pass through the running means.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2017.
    """

    decoupled = True

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip


def _step_dtype() -> Any:
    """The default dtype, as PyTorch has it: float32 counts exactly up to 2²⁴."""
    return float64 if default.floating is float64 else float32
