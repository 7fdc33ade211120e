"""Normalisation over groups of channels, and by the root of the mean square."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api.channels_last import preserve_channels_last
from adjoint.functions.api.compute_dtype import input_in_float32
from adjoint.functions.nn.normalization import can_use_one_op, layer_norm, normalized_axes, scale_and_shift
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.movement import movement
from adjoint.ops.nn.normalization import standardize_groups
from adjoint.ops.reduction import reduction

__all__ = ["group_norm", "rms_norm"]


@input_in_float32
@preserve_channels_last
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Return x / √(mean x² + eps) over the last dimensions, which are `normalized_shape`; then · weight.

    `eps` is the smallest step at 1 of the type, if none is given. Raises RuntimeError if the input does not end in
    `normalized_shape`. Source: Zhang & Sennrich, 2019.
    """
    axes = normalized_axes(input, normalized_shape)
    if input.array.dtype.kind not in "fcV":
        raise NotImplementedError(f"rms_norm is not implemented for type {input.dtype}: convert with float()")
    square = reduction.mean(arithmetic.mul(input, input), axes=axes, keepdims=True)
    small = float(np.finfo(input.array.dtype).eps) if eps is None else eps
    out = arithmetic.mul(input, arithmetic.rsqrt(arithmetic.add(square, small)))
    return out if weight is None else arithmetic.mul(out, weight)


@input_in_float32
@preserve_channels_last
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05
) -> Tensor:
    """Return (x - mean) / √(var + eps) over each group of channels of each sample of (N, C, …); then · weight + bias.

    Raises RuntimeError if the channels do not divide into groups, or a weight or bias is not (C,), ValueError where a
    group has one value. Source: Wu & He, 2018.
    """
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    n, c, *rest = input.array.shape
    if num_groups <= 0 or c % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.array.shape)} and num_groups={num_groups}"
        )
    each = movement.numel((c // num_groups, *rest))
    if n * each == 1:
        sizes = [n * c // num_groups, num_groups, *rest]
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {sizes}")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and tuple(given.array.shape) != (c,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(given.array.shape)} and input of shape {list(input.array.shape)}"
            )
    if can_use_one_op(input, weight, bias):
        return standardize_groups(input, weight, bias, groups=num_groups, eps=eps)
    grouped = movement.reshape(input, shape=(n, num_groups, each))
    out = movement.reshape(layer_norm(grouped, (each,), eps=eps), shape=input.array.shape)
    return scale_and_shift(out, weight, bias)
