"""SparseAdam, Adam for sparse gradients: only the rows that a gradient has move, and so do their moving averages."""

from __future__ import annotations

from adjoint.core.op.eager_kernels import KernelFunction
from adjoint.core.tensor.sparse_array import is_sparse
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.optim.step.hyperparameters import Number, OptionReader, declare_hyperparameters, require
from adjoint.optim.step.optimizer import Optimizer
from adjoint.optim.step.param_groups import (
    Group,
    describe_parameter,
    parameter_index,
    params_with_grad,
)
from adjoint.optim.step.update_rule import increment_step, init_param_state, update_moving_average, update_rows


class SparseAdam(Optimizer):
    """Adam for the rows that a sparse gradient has, the rest of the parameter and of its averages stay as they are.

    Args:
        params: iterable of parameters, of pairs (name, parameter), or of dicts with options (parameter groups).
        lr: learning rate. Default: 1e-3.
        betas: shares that the averages of g and g² keep in a step. Default: (0.9, 0.999).
        eps: number added to the denominator. Default: 1e-8.
        maximize: True to ascend along the gradient. Default: False.

    Raises: ValueError for numbers out of range and for complex parameters, and RuntimeError in `step` for a dense
    gradient.

    Example:
        >>> table = nn.Embedding(10, 2, sparse=True)
        >>> optimizer = optim.SparseAdam(table.parameters(), lr=0.1)
        >>> table(ad.tensor([1, 3])).sum().backward()
        >>> optimizer.step()
    """

    like_parameter = ("exp_avg", "exp_avg_sq")
    hyperparameters = declare_hyperparameters(
        "lr betas eps maximize",
        lr=require(lambda lr: lr > 0, "Invalid learning rate: {}"),
        eps=require(lambda eps: eps > 0, "Invalid epsilon value: {}"),
    )

    def __init__(
        self,
        params: Operand,
        lr: Operand = 1e-3,
        betas: tuple[Operand, Operand] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, self.collect_defaults(locals()))
        parameters = [(i, k, p) for i, g in enumerate(self.param_groups) for k, p in enumerate(g["params"])]
        sparse_indices = [[i, k] for i, k, p in parameters if is_sparse(p)]
        if sparse_indices:
            raise ValueError(f"Sparse params at indices {sparse_indices}: SparseAdam requires dense parameter tensors")
        complex_indices = [[i, k] for i, k, p in parameters if p.is_complex()]
        if complex_indices:
            i, k = complex_indices[0]
            raise ValueError(
                f"Complex params at indices {complex_indices}: SparseAdam does not support complex parameters, "
                f"such as {describe_parameter(self.param_groups[i], k)}"
            )

    def update(self, group: Group) -> None:
        options = OptionReader(group)
        lr, eps, (beta1, beta2) = options.number("lr"), options.number("eps"), group["betas"]
        maximize = options.flag("maximize")
        parameters = params_with_grad(group, sparse=True)
        for p in parameters:
            if not is_sparse(p.grad):
                raise RuntimeError(
                    "SparseAdam does not support dense gradients, please consider Adam instead: "
                    f"{describe_parameter(group, parameter_index(group, p))}, has one"
                )
        for p in parameters:
            state = init_param_state(self.state[p], p, self.like_parameter, group)
            t = increment_step(state)
            step_size = lr * (1 - beta2**t) ** 0.5 / (1 - beta1**t)
            numbers = (1 - beta1, 1 - beta2, eps, -step_size)
            update_rows(UPDATE_KERNEL, p, p.grad, (state["exp_avg"], state["exp_avg_sq"]), numbers, (maximize,))


def _update_parameter(
    p: Tensor,
    g: Tensor,
    mean: Tensor,
    square: Tensor,
    share1: Number,
    share2: Number,
    eps: Number,
    neg_step_size: Number,
    maximize: bool,
) -> None:
    """One parameter's update, in place."""
    g = -g if maximize else g
    update_moving_average(mean, g, share1, slow=True)
    update_moving_average(square, g * g, share2, slow=True)
    p.addcdiv_(mean, square.sqrt() + eps, value=neg_step_size)


UPDATE_KERNEL = KernelFunction("sparse_adam", _update_parameter, 1e-8, written=(0, 2, 3))
