"""Transposed convolutions as PyTorch calls them, and the convolution of sequences with time in front."""

from __future__ import annotations

from adjoint.core.op.eager_kernels import FixedShapes
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Params, Shape
from adjoint.functions.api.channels_last import preserve_channels_last
from adjoint.functions.api.compute_dtype import autocast_lower
from adjoint.functions.api.dim_args import per_dimension
from adjoint.functions.api.publish import rename_node
from adjoint.functions.nn.convolution import add_bias, bias_gradient, check_ranks_and_types, conv1d
from adjoint.functions.nn.per_rank import per_rank
from adjoint.ops.movement import movement
from adjoint.ops.nn import convolution as ops

__all__ = ["conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


_convolution_input_op = op_of(ops.convolution_input)


@with_eager_fast_path(
    composite=lambda g, weight, bias, **settings: add_bias(ops.convolution_input(g, weight, **settings), bias),
    node="ConvolutionBackward0",
    native=FixedShapes(ops.estimate_seconds),
    dg=_convolution_input_op.rules[0],
    dweight=_convolution_input_op.rules[1],
    dbias=bias_gradient,
)
def _convolution_input(
    g: Array,
    weight: Array,
    bias: Array,
    *,
    shape: Shape,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Array:
    settings: Params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    out = _convolution_input_op.evaluate(g, weight, shape=shape, **settings)
    out += bias.reshape(-1, *(1,) * (g.ndim - 2))
    return out


@autocast_lower
@preserve_channels_last
def _conv_transpose(
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    dilation: int | tuple[int, ...] = 1,
) -> Tensor:
    """Return the {rank}-d transposed convolution, the gradient of `conv{rank}d` in its input, plus the bias.

    Each size n becomes (n - 1)·stride - 2·padding + dilation·(kernel - 1) + output_padding + 1.

    Shapes:
        input (N, C, {sizes}), weight (C, O / groups, *kernel), bias (O,) -> (N, O, {out_sizes}); N is optional

    Raises: RuntimeError if shapes do not fit.
    """
    name = f"conv_transpose{rank}d"
    if input.ndim == rank + 1:  # without a batch
        one = movement.reshape(input, shape=(1, *input.array.shape))
        out = _conv_transpose(rank, one, weight, bias, stride, padding, output_padding, groups, dilation)
        return movement.reshape(out, shape=out.array.shape[1:])
    _check(name, rank, input, weight, bias, groups)
    steps, gaps = per_dimension(stride, rank, "stride"), per_dimension(dilation, rank, "dilation")
    frame, more = per_dimension(padding, rank, "padding"), per_dimension(output_padding, rank, "output_padding")
    for what, values, least in (
        ("stride", steps, 1),
        ("dilation", gaps, 1),
        ("padding", frame, 0),
        ("output_padding", more, 0),
    ):
        if any(v < least for v in values):
            kind = "negative" if not least else "non-positive"
            raise RuntimeError(f"{name}: {kind} {what} is not supported, but got {what}={values}")
    if any(m >= max(s, d) for m, s, d in zip(more, steps, gaps, strict=True)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding: {more}, stride: "
            f"{steps}, dilation: {gaps}"
        )
    reach = zip(input.array.shape[2:], weight.array.shape[2:], steps, gaps, strict=True)
    full = [(n - 1) * s + d * (k - 1) + 1 for n, k, s, d in reach]
    sizes = [f - 2 * p + m for f, p, m in zip(full, frame, more, strict=True)]
    if any(size < 1 for size in sizes):
        raise RuntimeError(
            f"Given input size per channel: {list(input.array.shape[2:])}. Calculated output size per channel: {sizes}."
            " Output size is too small"
        )
    channels = (input.array.shape[0], weight.array.shape[1] * groups)
    settings: Params = {"stride": steps, "dilation": gaps, "groups": groups}
    if all(m < s for m, s in zip(more, steps, strict=True)):
        if bias is not None:
            return _convolution_input(input, weight, bias, shape=(*channels, *sizes), padding=frame, **settings)
        out = ops.convolution_input(input, weight, shape=(*channels, *sizes), padding=frame, **settings)
    else:  # a window more would fit: made without the frame, then cut and filled up
        out = ops.convolution_input(input, weight, shape=(*channels, *full), padding=(0,) * rank, **settings)
        ends = [f - p + m for f, p, m in zip(full, frame, more, strict=True)]
        bounds = ((p, min(e, f), 1) for p, e, f in zip(frame, ends, full, strict=True))
        out = movement.slice(out, bounds=(*((0, n, 1) for n in channels), *bounds))
        out = movement.pad(out, widths=((0, 0), (0, 0), *((0, max(e - f, 0)) for e, f in zip(ends, full, strict=True))))
    if bias is not None:
        out = add_bias(out, bias)
    return rename_node(out, "ConvolutionBackward0")


def _check(name: str, rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> None:
    x, w = check_ranks_and_types(name, rank, input, weight, bias, groups)
    if x[1] != w[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(w)}, expected input{list(x)} to have {w[0]} channels, but got "
            f"{x[1]} channels instead"
        )
    if w[0] % groups:
        raise RuntimeError(f"{name}: {w[0]} input channels cannot be divided into {groups} groups")
    if bias is not None and tuple(bias.array.shape) != (w[1] * groups,):
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(w)}, expected bias to be 1-dimensional with {w[1] * groups} "
            f"elements, but got bias of size {list(bias.array.shape)} instead"
        )


conv_transpose1d, conv_transpose2d, conv_transpose3d = per_rank(_conv_transpose, "conv_transpose{rank}d")


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolve (T, N, C) with (K, C, O) and (O,) to (T', N, O). Raises RuntimeError if shapes do not fit."""
    if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise RuntimeError("conv_tbc: expected input and weight of 3 dimensions, and a bias of 1")
    x, w = movement.permute(input, axes=(1, 2, 0)), movement.permute(weight, axes=(2, 1, 0))
    return movement.permute(conv1d(x, w, bias, padding=pad), axes=(2, 0, 1))
