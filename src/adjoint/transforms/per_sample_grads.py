"""The gradient of every example of a batch: what optimizers that keep data private ask for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from adjoint.autograd.function.function import Function
from adjoint.core.runtime.pytree import flatten, unflatten
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.nn.module.module import Module
from adjoint.transforms.functional_call import functional_call
from adjoint.transforms.vmap.vmap import vmap


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """Return the module as a function whose backward pass sets `grad_sample` of its parameters, not `grad`.

    `grad_sample` has those of all examples, along a first dimension: each as if its example were the batch, times the
    size of the batch where the loss is a "mean". The batch is dimension 0 of all tensors, or 1 unless `batch_first`;
    with `batch_size`, of those that are so large there. Raises RuntimeError where sizes differ, and where a parameter
    has a `grad_sample` already.
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for weight in module.parameters():
        if getattr(weight, "grad_sample", None) is not None:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls "
                f"without clearing gradients. Please clear out the grad_sample parameter of {weight}"
            )
    batch = 0 if batch_first else 1

    @wraps(module.forward)
    def call(*args: object, **kwargs: object) -> Operand:
        leaves, structure = flatten((args, kwargs))
        size = batch_size or _find_batch_size(leaves, batch)
        scale = size if loss_reduction == "mean" else 1
        trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
        copies = [Copies.apply(p, size, scale) for p in trained.values()]
        dims = [
            batch if isinstance(leaf, Tensor) and leaf.dim() > batch and leaf.shape[batch] == size else None
            for leaf in leaves
        ]
        results: Any = None

        def call_one_example(copies: list[Tensor], leaves: list[Any]) -> list[Tensor]:
            nonlocal results
            given = [x if dim is None else x.unsqueeze(dim) for x, dim in zip(leaves, dims, strict=True)]
            args, kwargs = unflatten(structure, iter(given))
            found, results = flatten(functional_call(module, dict(zip(trained, copies, strict=True)), args, kwargs))
            return found

        found = vmap(call_one_example, ([0] * len(copies), dims), out_dims=batch, randomness="different")(
            copies, leaves
        )
        return unflatten(results, iter([x.flatten(batch, batch + 1) for x in found]))

    return call


class Copies(Function):
    """A copy of a parameter for each example; the gradients of all are the `grad_sample` of the parameter."""

    @staticmethod
    def forward(ctx: Any, parameter: Operand, size: int, scale: int) -> Tensor:
        """Return `parameter`, expanded along a new first dimension."""
        ctx.parameter, ctx.scale = parameter, scale
        return parameter.expand(size, *parameter.shape)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[None, ...]:
        """Return None for the parameter: its own gradient is not wanted."""
        found = grad_outputs[0] * ctx.scale
        before = getattr(ctx.parameter, "grad_sample", None)
        ctx.parameter.grad_sample = found if before is None else before + found
        return None, None, None


def _find_batch_size(leaves: list[object], batch: int) -> int:
    sizes = {leaf.shape[batch]: None for leaf in leaves if isinstance(leaf, Tensor)}
    if not sizes:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so "
            "call_for_per_sample_grads cannot compute the batch size from the inputs. Please specify it explicitly"
        )
    if len(sizes) > 1:
        raise RuntimeError(
            "When computing batch size, found at least one input with batch size {} and one with batch size {}. Please "
            "specify it explicitly using the batch size kwarg in call_for_per_sample_grads".format(*sizes)
        )
    return next(iter(sizes))
