"""Modules that change the size of images: interpolation, averages, shuffled channels."""

from __future__ import annotations

from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.module.from_function import FunctionModule, make_module_class
from adjoint.nn.module.module import Module

__all__ = ["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "ChannelShuffle", "PixelShuffle"]
__all__ += ["PixelUnshuffle", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Resampling layer for sequences, images and volumes.

    Args:
        size: int or tuple, the output size of the dimensions after the channels. Default: None.
        scale_factor: number or tuple that multiplies the input size, rounded down. Default: None.
        mode: "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" or "area". Default: "nearest".
        align_corners: True to align the centers of the corner elements, False the corners. Default: None, False.
        recompute_scale_factor: True to interpolate with the ratio of the rounded sizes. Default: None, False.

    Shapes:
        input (N, C, L), (N, C, H, W) or (N, C, D, H, W) -> the same N and C, with the new sizes

    Raises: ValueError in a call unless exactly one of `size` and `scale_factor` is given, NotImplementedError for a
    mode of another number of dimensions.

    Example:
        >>> nn.Upsample(scale_factor=2)(ad.tensor([[[1.0, 2.0]]]))
        tensor([[[1., 1., 2., 2.]]])
        >>> nn.Upsample(size=3, mode="linear", align_corners=True)(ad.tensor([[[1.0, 2.0]]]))
        tensor([[[1.0000, 1.5000, 2.0000]]])
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(map(float, scale_factor))
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        what = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Each place takes the nearest element of (N, C, H, W)."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Each place is interpolated between four elements of (N, C, H, W), the corners lying over each other."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


AdaptiveAvgPool1d = make_module_class(F.adaptive_avg_pool1d, "AdaptiveAvgPool1d", __name__)
AdaptiveAvgPool2d = make_module_class(F.adaptive_avg_pool2d, "AdaptiveAvgPool2d", __name__)
AdaptiveAvgPool3d = make_module_class(F.adaptive_avg_pool3d, "AdaptiveAvgPool3d", __name__)
ChannelShuffle: type[FunctionModule] = make_module_class(F.channel_shuffle, "ChannelShuffle", __name__)
PixelShuffle: type[FunctionModule] = make_module_class(F.pixel_shuffle, "PixelShuffle", __name__)
PixelUnshuffle: type[FunctionModule] = make_module_class(F.pixel_unshuffle, "PixelUnshuffle", __name__)
