"""Convolutional layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike, Sizes
from adjoint.functions.api.dim_args import per_dimension
from adjoint.functions.creation.creation import empty
from adjoint.nn import functional as F
from adjoint.nn.layers.linear import init_uniform_by_fan_in
from adjoint.nn.module.from_function import make_module_class
from adjoint.nn.module.module import Module
from adjoint.nn.module.module_docstring import inherit_sections
from adjoint.nn.module.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Fold", "Unfold"]
PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class Convolution(Module):
    """Convolution over a batch of tensors with `rank` dimensions behind the channels.

    The layer computes a cross-correlation: it does not flip the kernel. The batch dimension N is optional. The initial
    weight and bias are uniform in ±1/√fan_in, with fan_in = C / groups · the elements of a kernel.

    Args:
        in_channels: number of input channels, C.
        out_channels: number of output channels, the number of kernels.
        kernel_size: int or tuple, kernel size per dimension.
        stride: int or tuple, step between kernel positions. Default: 1.
        padding: int, tuple or str, border on both sides, "same" (stride 1 only) or "valid" (none). Default: 0.
        dilation: int or tuple, distance between kernel elements. Default: 1.
        groups: number of channel groups, each with its own kernels. Default: 1.
        bias: True to add a learned bias per output channel. Default: True.
        padding_mode: "zeros", "reflect", "replicate" or "circular". Default: "zeros".
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Attributes:
        weight: Parameter, shape (out_channels, in_channels / groups, *kernel_size).
        bias: Parameter or None, shape (out_channels,).

    Raises: ValueError if `groups` does not divide the channels, and for an unknown padding or padding mode.
    """

    rank: ClassVar[int]
    transposed: ClassVar[bool] = False
    output_padding: tuple[int, ...] = ()
    padding: tuple[int, ...] | str
    function: ClassVar[Callable[..., Tensor]]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes | str = 0,
        dilation: Sizes = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = per_dimension(kernel_size, self.rank, "kernel_size")
        if padding == "same" and any(s != 1 for s in (stride if isinstance(stride, Sequence) else (stride,))):
            raise ValueError("padding='same' is not supported for strided convolutions")
        self.stride = per_dimension(stride, self.rank, "stride")
        self.dilation = per_dimension(dilation, self.rank, "dilation")
        self.padding = padding if isinstance(padding, str) else per_dimension(padding, self.rank, "padding")
        self.padding_mode = padding_mode
        self._check()
        ends = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (ends[0], ends[1] // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, dtype=dtype, device=device))
        self.register_parameter("bias", Parameter(empty(out_channels, dtype=dtype, device=device)) if bias else None)
        self.reset_parameters()

    def _check(self) -> None:
        if self.groups <= 0:
            raise ValueError("groups must be a positive integer")
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        if self.out_channels % self.groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(self.padding, str) and self.padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {self.padding!r}, should be one of 'same', 'valid'")
        if self.padding_mode not in PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {PADDING_MODES}, but got padding_mode={self.padding_mode!r}")

    def reset_parameters(self) -> None:
        """Draw new values."""
        init_uniform_by_fan_in(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Sizes | str = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode), 0
        return type(self).function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    @property
    def _reversed_padding_repeated_twice(self) -> list[int]:
        """The widths of the frame as `functional.pad` wants them."""
        if isinstance(self.padding, str):
            reach = int(self.padding == "same")
            total = [reach * d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [width for t in reversed(total) for width in (t // 2, t - t // 2)]
        return [p for p in reversed(self.padding) for _ in range(2)]

    def extra_repr(self) -> str:
        ones = (1,) * self.rank
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != ones:
            parts.append(f"dilation={self.dilation}")
        if any(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


@inherit_sections
class Conv1d(Convolution):
    """1-d convolution over a batch of sequences.

    Shapes:
        input (N, C, L) -> (N, out_channels, L_out)
        L_out = ⌊(L + 2·padding - dilation·(kernel_size - 1) - 1) / stride⌋ + 1

    Example:
        >>> layer = nn.Conv1d(4, 8, kernel_size=3, stride=2)
        >>> layer(ad.zeros(2, 4, 9)).shape
        adjoint.Size([2, 8, 4])
    """

    rank = 1
    function = staticmethod(F.conv1d)


@inherit_sections
class Conv2d(Convolution):
    """2-d convolution over a batch of images.

    Shapes:
        input (N, C, H, W) -> (N, out_channels, H_out, W_out)
        H_out = ⌊(H + 2·padding - dilation·(kernel_size - 1) - 1) / stride⌋ + 1, W_out likewise

    Example:
        >>> layer = nn.Conv2d(3, 8, kernel_size=3, padding=1)
        >>> layer(ad.zeros(2, 3, 5, 7)).shape
        adjoint.Size([2, 8, 5, 7])
        >>> layer.weight.shape
        adjoint.Size([8, 3, 3, 3])
    """

    rank = 2
    function = staticmethod(F.conv2d)


@inherit_sections
class Conv3d(Convolution):
    """3-d convolution over a batch of volumes.

    Shapes:
        input (N, C, D, H, W) -> (N, out_channels, D_out, H_out, W_out)
        D_out = ⌊(D + 2·padding - dilation·(kernel_size - 1) - 1) / stride⌋ + 1, H_out, W_out too

    Example:
        >>> layer = nn.Conv3d(1, 2, kernel_size=(1, 3, 3))
        >>> layer(ad.zeros(2, 1, 4, 5, 5)).shape
        adjoint.Size([2, 2, 4, 3, 3])
    """

    rank = 3
    function = staticmethod(F.conv3d)


Fold = make_module_class(F.fold, "Fold", __name__)
Unfold = make_module_class(F.unfold, "Unfold", __name__)
