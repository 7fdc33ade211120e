"""Convolutions as PyTorch calls them: correlation of (N, C, D…) with (O, C/groups, K…)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.op.eager_kernels import FixedShapes
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Params, Shape
from adjoint.functions.api.channels_last import preserve_channels_last
from adjoint.functions.api.compute_dtype import autocast_lower
from adjoint.functions.api.dim_args import per_dimension
from adjoint.functions.nn.per_rank import per_rank
from adjoint.ops.movement import movement
from adjoint.ops.nn import convolution as ops
from adjoint.ops.reduction import reduction

__all__ = ["conv1d", "conv2d", "conv3d"]


_convolution_op = op_of(ops.convolution)


def add_bias(out: Tensor, bias: Tensor) -> Tensor:
    """Return the sum of a batch of channels and a number for each channel."""
    return out + movement.reshape(bias, shape=(1, bias.shape[0], *(1,) * (len(out.shape) - 2)))


def bias_gradient(g: Operand) -> Operand:
    """Return the sum of g over all but the channels."""
    return reduction.sum(g, axes=(0, *range(2, len(g.shape))), keepdims=False)


@with_eager_fast_path(
    composite=lambda x, weight, bias, **settings: add_bias(ops.convolution(x, weight, **settings), bias),
    node="ConvolutionBackward0",
    native=FixedShapes(ops.estimate_seconds),
    dx=_convolution_op.rules[0],
    dweight=_convolution_op.rules[1],
    dbias=bias_gradient,
)
def _convolution(
    x: Array,
    weight: Array,
    bias: Array,
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Array:
    out = _convolution_op.evaluate(x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    out += bias.reshape(-1, *(1,) * (x.ndim - 2))
    return out


@autocast_lower
@preserve_channels_last
def _conv(
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the {rank}-d convolution of a batch with a weight, a cross-correlation, plus the bias.

    Shapes:
        input (N, C, {sizes}), weight (O, C / groups, *kernel), bias (O,) -> (N, O, {out_sizes}); N is optional

    Raises: RuntimeError, naming the shapes, if they do not fit.
    """
    settings = _find_known_settings(rank, input, weight, bias, stride, padding, dilation, groups)
    if settings is not None:
        return (
            ops.convolution(input, weight, **settings)
            if bias is None
            else _convolution(input, weight, bias, **settings)
        )
    name = f"conv{rank}d"
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")
    if input.ndim == rank + 1:  # without a batch
        one = movement.reshape(input, shape=(1, *input.array.shape))
        out = _conv(rank, one, weight, bias, stride, padding, dilation, groups)
        return movement.reshape(out, shape=out.array.shape[1:])
    _check(name, rank, input, weight, bias, groups)
    stride, dilation = per_dimension(stride, rank, "stride"), per_dimension(dilation, rank, "dilation")
    if isinstance(padding, str):
        input, padding = _named_padding(name, padding, input, weight, stride, dilation)
    padding = per_dimension(padding, rank, "padding")
    if any(s < 1 for s in stride):
        raise RuntimeError(f"{name}: non-positive stride is not supported, but got stride={stride}")
    if any(p < 0 for p in padding):
        raise RuntimeError(f"{name}: negative padding is not supported, but got padding={padding}")
    if any(d < 1 for d in dilation):
        raise RuntimeError(f"{name}: dilation should be greater than zero, but got dilation={dilation}")
    sides = [n + 2 * p for n, p in zip(input.array.shape[2:], padding, strict=True)]
    reach = [d * (k - 1) + 1 for k, d in zip(weight.array.shape[2:], dilation, strict=True)]
    if any(n < r for n, r in zip(sides, reach, strict=True)):
        found, wanted = (" x ".join(map(str, sizes)) for sizes in (sides, reach))
        raise RuntimeError(
            f"{name}: Calculated padded input size per channel: ({found}). Kernel size: ({wanted}). Kernel size can't "
            "be greater than actual input size"
        )
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if bias is None:
        return ops.convolution(input, weight, **settings)
    return _convolution(input, weight, bias, **settings)


def _find_known_settings(
    rank: int,
    input: Operand,
    weight: Operand,
    bias: Operand,
    stride: Operand,
    padding: Operand,
    dilation: Operand,
    groups: int,
) -> Params | None:
    """Return the settings of a convolution of arrays of one type, if they fit; None of what is to be looked at."""
    for setting in (stride, padding, dilation):
        if type(setting) is not int and type(setting) is not tuple:
            return None
    if type(groups) is not int or not isinstance(input, Tensor) or (nondefault.count and mode.alters_ops):
        return None
    x, w, b = input.array, weight.array, None if bias is None else bias.array
    if type(x) is not np.ndarray or x.dtype is not w.dtype or (b is not None and b.dtype is not x.dtype):
        return None
    return _fit_settings(rank, x.shape, w.shape, None if b is None else b.shape, stride, padding, dilation, groups)


@lru_cache(512)
def _fit_settings(
    rank: int, x: Shape, w: Shape, bias: Shape | None, stride: Operand, padding: Operand, dilation: Operand, groups: int
) -> Params | None:
    """Return the settings for each dimension; None if a convolution of these shapes is refused or has no batch."""
    if len(x) != rank + 2 or len(w) != rank + 2 or groups < 1 or x[1] != w[1] * groups or w[0] % groups:
        return None
    stride, dilation = per_dimension(stride, rank, "stride"), per_dimension(dilation, rank, "dilation")
    padding = per_dimension(padding, rank, "padding")
    if min(stride) < 1 or min(padding) < 0 or min(dilation) < 1 or bias not in (None, w[:1]):
        return None
    sides = zip(x[2:], w[2:], padding, dilation, strict=True)
    fits = all(n + 2 * p > d * (k - 1) for n, k, p, d in sides)
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups} if fits else None


def _check(name: str, rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> None:
    x, w = check_ranks_and_types(name, rank, input, weight, bias, groups)
    if x[1] != w[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(w)}, expected input{list(x)} to have {w[1] * groups} "
            f"channels, but got {x[1]} channels instead"
        )
    if w[0] % groups:
        raise RuntimeError(f"{name}: {w[0]} output channels cannot be divided into {groups} groups")
    if bias is not None and tuple(bias.array.shape) != (w[0],):
        raise RuntimeError(f"{name}: bias has shape {list(bias.array.shape)}, expected [{w[0]}]")


def check_ranks_and_types(
    name: str, rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, groups: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of input and weight. Raises RuntimeError for other ranks, no groups, and unequal types."""
    x, w = tuple(input.array.shape), tuple(weight.array.shape)
    if len(x) != rank + 2 or len(w) != rank + 2:
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(x)} and weight of size {list(w)}"
        )
    if groups < 1:
        raise RuntimeError(f"{name}: non-positive groups is not supported, but got groups={groups}")
    for what, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.array.dtype != input.array.dtype:
            found, wanted = scalar_type(other.dtype), scalar_type(input.dtype)
            raise RuntimeError(
                f"{name}: Input type ({input.dtype}) and {what} type ({other.dtype}) should be the same: expected "
                f"scalar type {wanted} but found {found}"
            )
    return x, w


def _named_padding(
    name: str, padding: str, input: Tensor, weight: Tensor, stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...]]:
    """Return input and padding for "valid" (none) and "same" (keeps the sizes, with an odd element at the end)."""
    rank = len(stride)
    if padding == "valid":
        return input, (0,) * rank
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: {padding!r}, {name} knows 'valid' and 'same'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, weight.array.shape[2:], strict=True)]
    if all(t % 2 == 0 for t in total):
        return input, tuple(t // 2 for t in total)
    widths = ((0, 0), (0, 0), *((t // 2, t - t // 2) for t in total))
    return movement.pad(input, widths=widths), (0,) * rank


conv1d, conv2d, conv3d = per_rank(_conv, "conv{rank}d")
