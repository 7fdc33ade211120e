"""Convolutional layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from adjoint.core.tensor import Tensor
from adjoint.functions.creation import empty
from adjoint.functions.dims import per_dimension
from adjoint.nn import functional as F
from adjoint.nn.from_function import module_from
from adjoint.nn.linear import uniform_by_fan_in
from adjoint.nn.module import Module
from adjoint.nn.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Unfold"]


class Convolution(Module):
    """(N, C, D…) to (N, O, D'…) with a weight (O, C/groups, K…) and a bias (O,), uniform within ±1/√fan_in at first.

    Raises ValueError for channels that do not divide into groups, and for unknown paddings.
    """

    rank: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = per_dimension(kernel_size, self.rank, "kernel_size")
        self.stride = per_dimension(stride, self.rank, "stride")
        self.dilation = per_dimension(dilation, self.rank, "dilation")
        self.padding = padding if isinstance(padding, str) else per_dimension(padding, self.rank, "padding")
        self.padding_mode = padding_mode
        self._check()
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, dtype=dtype, device=device))
        self.register_parameter("bias", Parameter(empty(out_channels, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def _check(self) -> None:
        if self.groups <= 0:
            raise ValueError("groups must be a positive integer")
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        if self.out_channels % self.groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {self.padding!r}, should be one of 'same', 'valid'")
            if self.padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if self.padding_mode != "zeros":
            raise ValueError(f"padding_mode {self.padding_mode!r} is not supported yet, only 'zeros'")

    def reset_parameters(self) -> None:
        """Draw new values."""
        uniform_by_fan_in(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        ones = (1,) * self.rank
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * self.rank:
            parts.append(f"padding={self.padding}")
        if self.dilation != ones:
            parts.append(f"dilation={self.dilation}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        return ", ".join(parts)


class Conv1d(Convolution):
    """(N, C, L) to (N, O, L')."""

    rank = 1
    function = staticmethod(F.conv1d)


class Conv2d(Convolution):
    """(N, C, H, W) to (N, O, H', W')."""

    rank = 2
    function = staticmethod(F.conv2d)


class Conv3d(Convolution):
    """(N, C, D, H, W) to (N, O, D', H', W')."""

    rank = 3
    function = staticmethod(F.conv3d)


Unfold = module_from(F.unfold, "Unfold", __name__)
