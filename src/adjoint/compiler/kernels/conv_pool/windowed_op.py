"""The equations that slide windows over images, with the planner and the writer of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.kernels.conv_pool.channel_lanes.channel_conv import write_channel_convolution
from adjoint.compiler.kernels.conv_pool.channel_lanes.channel_conv_plan import (
    ChannelConvolutionPlan,
    plan_channel_convolution,
    plan_channel_convolution_input,
)
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd import write_winograd
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_plan import (
    WinogradPlan,
    plan_winograd,
    plan_winograd_input,
)
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_weight import write_winograd_weight
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_weight_plan import (
    WinogradWeightPlan,
    plan_winograd_weight,
)
from adjoint.compiler.kernels.conv_pool.conv import write_convolution
from adjoint.compiler.kernels.conv_pool.conv_plan import ConvolutionPlan, plan_convolution, plan_convolution_input
from adjoint.compiler.kernels.conv_pool.conv_weight_grad import write_convolution_weight
from adjoint.compiler.kernels.conv_pool.conv_weight_plan import ConvolutionWeightPlan, plan_convolution_weight
from adjoint.compiler.kernels.conv_pool.pooling import write_pooling, write_pooling_input
from adjoint.compiler.kernels.conv_pool.pooling_plan import PoolingPlan, plan_pooling
from adjoint.compiler.kernels.conv_pool.window_geometry import ConvolutionSettings
from adjoint.compiler.kernels.kernel import Finish
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Reg, from_dtype

Shape = tuple[int, ...]
ImagePlan = ConvolutionPlan | ChannelConvolutionPlan | WinogradPlan
Write = Callable[[Builder, Sequence[Reg], Reg, Reg, Finish], None]
MAX_WINDOW_TAPS = 256  # with instructions of their own: LLVM takes two seconds for these, a minute for 1,700
WINDOW_PARAMS = ("size", "stride", "padding", "dilation", "extra")


class WindowedOp(NamedTuple):
    """The kernel of one equation: `write(b, operands, scratch, tile, finish)` writes its body.

    Operands are contiguous, `scratch` is the calling thread's piece. `finish` sees the result in `shape`. If
    the plan is flat, places of an image, or all of one channel of a weight, are one dimension there.
    """

    plan: ImagePlan | ConvolutionWeightPlan | WinogradWeightPlan | PoolingPlan
    operands: tuple[Value, ...]
    shape: Shape
    tiles: int
    scratch: int
    write: Write

    @property
    def reason(self) -> str:
        """One line that says how the equation is computed."""
        return self.plan.reason


def plan_windowed_op(value: Value, target: Target, flat: bool = True) -> WindowedOp | None:
    """The kernel of a convolution or of pooling; None where the equation is neither or NumPy's call is to do it.

    `flat`: nothing that follows tells the last dimensions of the result apart.
    """
    if value.op.name not in _PLANS or value.dtype.kind != "f" or value.dtype.itemsize < 4 or value.size == 0:
        return None
    if any(x.dtype != value.dtype for x in value.operands) or _count_taps(value) > MAX_WINDOW_TAPS:
        return None
    plan = _PLANS[value.op.name](value, target, flat)
    if plan is None:
        return None
    kept = (
        1
        if isinstance(plan, ConvolutionWeightPlan | WinogradWeightPlan)
        else len(value.shape) - len(value.params["stride"])
    )
    shape = (*value.shape[:kept], math.prod(value.shape[kept:])) if flat else value.shape
    operands = value.operands

    def write(b: Builder, pointers: Sequence[Reg], scratch: Reg, tile: Reg, finish: Finish) -> None:
        if isinstance(plan, ConvolutionPlan):
            write_convolution(b, plan, pointers[0], pointers[1], scratch, tile, finish)
        elif isinstance(plan, ConvolutionWeightPlan):
            write_convolution_weight(b, plan, pointers[0], pointers[1], scratch, tile, finish)
        elif isinstance(plan, ChannelConvolutionPlan):
            write_channel_convolution(b, plan, pointers[0], pointers[1], scratch, tile, finish)
        elif isinstance(plan, WinogradPlan):
            write_winograd(b, plan, pointers[0], pointers[1], scratch, tile, finish)
        elif isinstance(plan, WinogradWeightPlan):
            write_winograd_weight(b, plan, pointers[0], pointers[1], scratch, tile, finish)
        elif value.op.name.endswith("_input"):
            x = pointers[1] if plan.largest else None
            write_pooling_input(b, plan, pointers[0], x, scratch, tile, finish)
        else:
            write_pooling(b, plan, pointers[0], tile, finish)

    return WindowedOp(plan, operands, shape, plan.tiles, plan.scratch, write)


def _count_taps(value: Value) -> int:
    """Return the number of taps that a kernel has instructions for, each by itself.

    Those of pooling all have. A convolution goes in loops along the dimensions in which windows have no stride, that of
    its weight only along the first of three.
    """
    if "size" in value.params:
        return math.prod(value.params["size"])
    stride = value.params["stride"]
    if value.op.name == "convolution_weight":
        taps = value.shape[2:]
        return math.prod(taps[1:] if len(taps) == 3 and stride[0] == 1 else taps)
    return math.prod(k for k, s in zip(value.operands[1].shape[2:], stride, strict=True) if s > 1)


def _convolution(
    value: Value, target: Target, flat: bool
) -> ImagePlan | ConvolutionWeightPlan | WinogradWeightPlan | None:
    """Forward, towards the input, or towards the weight: each has its planners, given shapes and settings."""
    params = dict(value.params)
    shapes = [operand.shape for operand in value.operands] + ([params.pop("shape")] if "shape" in params else [])
    settings = ConvolutionSettings(**params, type=from_dtype(value.dtype), target=target, flat=flat)
    arguments = (*shapes, settings)
    if value.op.name == "convolution_weight":
        return plan_winograd_weight(*arguments) or plan_convolution_weight(*arguments)
    plan_direct, plan_squares, plan_by_channel = _IMAGE_PLANNERS[value.op.name]
    direct = plan_direct(*arguments)
    squares = plan_squares(direct, *arguments)
    if squares is not None:
        return squares
    by_channel = plan_by_channel(direct, *arguments)
    return direct if by_channel is None else by_channel


_IMAGE_PLANNERS: dict[str, tuple[Callable[..., ImagePlan | None], ...]] = {
    "convolution": (plan_convolution, plan_winograd, plan_channel_convolution),
    "convolution_input": (plan_convolution_input, plan_winograd_input, plan_channel_convolution_input),
}


def _pooling(value: Value, target: Target, flat: bool) -> PoolingPlan | None:
    """The input of what is pooled is the first operand, or the result towards it."""
    windows = {name: value.params[name] for name in WINDOW_PARAMS}
    shape = value.shape if value.op.name.endswith("_input") else value.operands[0].shape
    largest = value.op.name.startswith("max_pool")
    return plan_pooling(shape, largest=largest, type=from_dtype(value.dtype), target=target, flat=flat, **windows)


_PLANS: dict[str, Callable[[Value, Target, bool], Any]] = {
    "convolution": _convolution,
    "convolution_input": _convolution,
    "convolution_weight": _convolution,
    "window_sum": _pooling,
    "window_sum_input": _pooling,
    "max_pool": _pooling,
    "max_pool_input": _pooling,
}
