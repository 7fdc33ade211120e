"""SparseAdam, the optimizer for sparse gradients, of which there are none here."""

from __future__ import annotations

from typing import Any

from adjoint.optim.step.hyperparameters import declare_hyperparameters, require
from adjoint.optim.step.optimizer import Optimizer
from adjoint.optim.step.param_groups import Group, describe_parameter, parameter_index, params_with_grad


class SparseAdam(Optimizer):
    """Optimizer that refuses every dense gradient, as PyTorch's does. There are no sparse ones here: use Adam.

    Raises ValueError for numbers out of range and for complex parameters, and RuntimeError in `step`.
    """

    like_parameter = ("exp_avg", "exp_avg_sq")
    hyperparameters = declare_hyperparameters(
        "lr betas eps maximize",
        lr=require(lambda lr: lr > 0, "Invalid learning rate: {}"),
        eps=require(lambda eps: eps > 0, "Invalid epsilon value: {}"),
    )

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, self.collect_defaults(locals()))
        parameters = [(i, k, p) for i, g in enumerate(self.param_groups) for k, p in enumerate(g["params"])]
        complex_indices = [[i, k] for i, k, p in parameters if p.is_complex()]
        if complex_indices:
            i, k = complex_indices[0]
            raise ValueError(
                f"Complex params at indices {complex_indices}: SparseAdam does not support complex parameters, "
                f"such as {describe_parameter(self.param_groups[i], k)}"
            )

    def update(self, group: Group) -> None:
        for p in params_with_grad(group):
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead: "
                f"{describe_parameter(group, parameter_index(group, p))}, has one, and there are no sparse gradients "
                "here"
            )
