"""Batches of convolutions: examples are further rows of the batch that there is already, or further groups."""

from __future__ import annotations

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Params
from adjoint.ops.movement.movement import permute, reshape
from adjoint.ops.nn import convolution as ops
from adjoint.transforms.vmap.batching_rules import BatchOperands, batch_to_front, register_rule


def _fold_into_rows(x: Operand) -> Tensor:
    """(B, N, …) as (B N, …): the examples are rows."""
    return reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def _fold_into_channels(x: Tensor) -> Tensor:
    """(B, N, C, …) as (N, B C, …): the examples are groups of channels."""
    b, n, c, *rest = x.shape
    return reshape(permute(x, axes=(1, 0, *range(2, len(x.shape)))), shape=(n, b * c, *rest))


@register_rule(ops.convolution, ops.convolution_input)
def _convolution_rule(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    """Apply `convolution` of x, (N, C, D…), or `convolution_input` of g, with a weight, (O, C/groups, K…)."""
    x, weight = operands
    own = dict(params)
    if not weight.batched:
        n, *rest = x.value.shape[1:]
        if "shape" in own:
            own["shape"] = (size * n, *own["shape"][1:])
        out = op.public(_fold_into_rows(x.value), weight.value, **own)
        return reshape(out, shape=(size, n, *out.array.shape[1:]))
    own["groups"] *= size
    if "shape" in own:
        n, c, *rest = own["shape"]
        own["shape"] = (n, size * c, *rest)
    out = op.public(_fold_into_channels(batch_to_front(x, size)), _fold_into_rows(weight.value), **own)
    n, c, *rest = out.shape  # (N, B C, …) becomes (B, N, C, …)
    apart = reshape(out, shape=(n, size, c // size, *rest))
    return permute(apart, axes=(1, 0, *range(2, len(apart.shape))))


@register_rule(ops.convolution_weight)
def _weight_grad_rule(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    """Apply `convolution_weight` to x, (N, C, D…), and g, (N, O, P…): (O, C/groups, K…)."""
    x, g = (_fold_into_channels(batch_to_front(operand, size)) for operand in operands)
    o, *rest = params["shape"]
    own = {**params, "groups": params["groups"] * size, "shape": (size * o, *rest)}
    return reshape(ops.convolution_weight(x, g, **own), shape=(size, o, *rest))
