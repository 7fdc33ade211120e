"""Padding layers: a border around the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Sizes
from adjoint.nn import functional as F
from adjoint.nn.module.module import Module

__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d"]
__all__ += ["ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d"]
__all__ += ["ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d"]


class _PaddingModule(Module):
    """Border around the last `rank` dimensions, of one width or of (before, after) from the last dimension forwards."""

    rank: ClassVar[int]
    mode: ClassVar[str]
    padding: Sequence[int]

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        if self.mode == "circular" and input.ndim not in (self.rank + 1, self.rank + 2):
            raise ValueError(f"expected {self.rank + 1}D or {self.rank + 2}D input (got {input.ndim}D input)")
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad(_PaddingModule):
    """Border of the number `value`."""

    value: float

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ZeroPad(ConstantPad):
    """Border of zeros."""

    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad1d(ConstantPad):
    """Padding layer for sequences (…, L): a border of one value."""

    rank = 1


class ConstantPad2d(ConstantPad):
    """Padding layer for images: a border of one value.

    Args:
        padding: width of the border, or a tuple (left, right, top, bottom); a negative width crops.
        value: number at each element of the border.

    Shapes:
        input (…, H, W) -> (…, top + H + bottom, left + W + right)

    Example:
        >>> nn.ConstantPad2d((1, 0, 0, 0), 7.0)(ad.ones(1, 1, 2))
        tensor([[[7., 1., 1.]]])
    """

    rank = 2


class ConstantPad3d(ConstantPad):
    """Padding layer for volumes (…, D, H, W): a border of one value."""

    rank = 3


class ZeroPad1d(ZeroPad):
    """Padding layer for sequences (…, L): a border of zeros."""

    rank = 1


class ZeroPad2d(ZeroPad):
    """Padding layer for images: a border of zeros.

    Args:
        padding: width of the border, or a tuple (left, right, top, bottom); a negative width crops.

    Shapes:
        input (…, H, W) -> (…, top + H + bottom, left + W + right)

    Example:
        >>> nn.ZeroPad2d((1, 0, 0, 1))(ad.ones(1, 1, 2))
        tensor([[[0., 1., 1.],
                 [0., 0., 0.]]])
    """

    rank = 2


class ZeroPad3d(ZeroPad):
    """Padding layer for volumes (…, D, H, W): a border of zeros."""

    rank = 3


class ReflectionPad(_PaddingModule):
    """Border that mirrors the tensor at its edge elements."""

    mode = "reflect"


class ReflectionPad1d(ReflectionPad):
    """Padding layer for sequences (…, L): a border that mirrors the sequence at the edges."""

    rank = 1


class ReflectionPad2d(ReflectionPad):
    """Padding layer for images: a border that mirrors the image at its edge pixels.

    Args:
        padding: width of the border, or a tuple (left, right, top, bottom), each less than the size it extends.

    Shapes:
        input (C, H, W) or (N, C, H, W) -> H_out = top + H + bottom, W_out = left + W + right

    Example:
        >>> nn.ReflectionPad2d((2, 0, 0, 0))(ad.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[3., 2., 1., 2., 3.]]])
    """

    rank = 2


class ReflectionPad3d(ReflectionPad):
    """Padding layer for volumes (…, D, H, W): a border that mirrors the volume at the edges."""

    rank = 3


class ReplicationPad(_PaddingModule):
    """Border that repeats the edge elements."""

    mode = "replicate"


class ReplicationPad1d(ReplicationPad):
    """Padding layer for sequences (…, L): a border that repeats the edge elements."""

    rank = 1


class ReplicationPad2d(ReplicationPad):
    """Padding layer for images (…, H, W): a border that repeats the edge elements."""

    rank = 2


class ReplicationPad3d(ReplicationPad):
    """Padding layer for volumes (…, D, H, W): a border that repeats the edge elements."""

    rank = 3


class CircularPad(_PaddingModule):
    """Border that continues the tensor from its opposite edge."""

    mode = "circular"


class CircularPad1d(CircularPad):
    """Padding layer for sequences (…, L): a border that continues the sequence from the opposite edge."""

    rank = 1


class CircularPad2d(CircularPad):
    """Padding layer for images (…, H, W): a border that continues the image from the opposite edge."""

    rank = 2


class CircularPad3d(CircularPad):
    """Padding layer for volumes (…, D, H, W): a border that continues the volume from the opposite edge."""

    rank = 3
