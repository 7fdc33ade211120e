"""Pooling layers: one number for each window."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Sizes
from adjoint.functions.api.dim_args import per_dimension
from adjoint.nn import functional as F
from adjoint.nn.module.module import Module
from adjoint.nn.module.module_docstring import inherit_sections

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d"]


class MaxPool(Module):
    """Max pooling over a batch: the largest element of each window.

    The batch dimension N is optional.

    Args:
        kernel_size: int or tuple, window size per dimension.
        stride: int or tuple, step between windows. Default: `kernel_size`.
        padding: int or tuple, border of -∞ on both sides, at most half a window. Default: 0.
        dilation: int or tuple, distance between window elements. Default: 1.
        return_indices: True to also return the index of each maximum, as `MaxUnpool2d` and its like need.
            Default: False.
        ceil_mode: True to round the output size up instead of down. Default: False.
    """

    function: ClassVar[Callable[..., Tensor | tuple[Tensor, Tensor]]]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return type(self).function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


@inherit_sections
class MaxPool1d(MaxPool):
    """1-d max pooling over a batch of sequences: the largest element of each window.

    Shapes:
        input (N, C, L) -> (N, C, L_out)
        L_out = ⌊(L + 2·padding - dilation·(kernel_size - 1) - 1) / stride⌋ + 1

    Example:
        >>> nn.MaxPool1d(2)(ad.tensor([[[1.0, 3.0, 2.0, 5.0]]]))
        tensor([[[3., 5.]]])
    """

    function = staticmethod(F.max_pool1d)


@inherit_sections
class MaxPool2d(MaxPool):
    """2-d max pooling over a batch of images: the largest element of each window.

    Shapes:
        input (N, C, H, W) -> (N, C, H_out, W_out)
        H_out = ⌊(H + 2·padding - dilation·(kernel_size - 1) - 1) / stride⌋ + 1, W_out likewise

    Example:
        >>> x = ad.arange(16.0).reshape(1, 1, 4, 4)
        >>> nn.MaxPool2d(2)(x)
        tensor([[[[ 5.,  7.],
                  [13., 15.]]]])
    """

    function = staticmethod(F.max_pool2d)


@inherit_sections
class MaxPool3d(MaxPool):
    """3-d max pooling over a batch of volumes: the largest element of each window.

    Shapes:
        input (N, C, D, H, W) -> (N, C, D_out, H_out, W_out)
        D_out = ⌊(D + 2·padding - dilation·(kernel_size - 1) - 1) / stride⌋ + 1, H_out, W_out too

    Example:
        >>> nn.MaxPool3d(2)(ad.zeros(1, 3, 4, 6, 6)).shape
        adjoint.Size([1, 3, 2, 3, 3])
    """

    function = staticmethod(F.max_pool3d)


class AvgPool1d(Module):
    """1-d average pooling over a batch of sequences: the mean of each window.

    The batch dimension N is optional.

    Args:
        kernel_size: int or tuple, window size per dimension.
        stride: int or tuple, step between windows. Default: `kernel_size`.
        padding: int or tuple, border of zeros on both sides, at most half a window. Default: 0.
        ceil_mode: True to round the output size up instead of down. Default: False.
        count_include_pad: True to count the border's zeros in the mean. Default: True.

    Shapes:
        input (N, C, L) -> (N, C, L_out)
        L_out = ⌊(L + 2·padding - kernel_size) / stride⌋ + 1

    Example:
        >>> nn.AvgPool1d(2)(ad.tensor([[[1.0, 3.0, 2.0, 5.0]]]))
        tensor([[[2.0000, 3.5000]]])
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = per_dimension(kernel_size, 1, "kernel_size")
        self.stride = per_dimension(kernel_size if stride is None else stride, 1, "stride")
        self.padding = per_dimension(padding, 1, "padding")
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool(Module):
    """Average pooling over a batch: the mean of each window.

    The batch dimension N is optional.

    Args:
        kernel_size: int or tuple, window size per dimension.
        stride: int or tuple, step between windows. Default: `kernel_size`.
        padding: int or tuple, border of zeros on both sides, at most half a window. Default: 0.
        ceil_mode: True to round the output size up instead of down. Default: False.
        count_include_pad: True to count the border's zeros in the mean. Default: True.
        divisor_override: number to divide each sum by. Default: the window's element count.
    """

    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        windows = self.kernel_size, self.stride, self.padding
        return type(self).function(input, *windows, self.ceil_mode, self.count_include_pad, self.divisor_override)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@inherit_sections
class AvgPool2d(AvgPool):
    """2-d average pooling over a batch of images: the mean of each window.

    Shapes:
        input (N, C, H, W) -> (N, C, H_out, W_out)
        H_out = ⌊(H + 2·padding - kernel_size) / stride⌋ + 1, W_out likewise

    Example:
        >>> x = ad.arange(16.0).reshape(1, 1, 4, 4)
        >>> nn.AvgPool2d(2)(x)
        tensor([[[[ 2.5000,  4.5000],
                  [10.5000, 12.5000]]]])
    """

    function = staticmethod(F.avg_pool2d)


@inherit_sections
class AvgPool3d(AvgPool):
    """3-d average pooling over a batch of volumes: the mean of each window.

    Shapes:
        input (N, C, D, H, W) -> (N, C, D_out, H_out, W_out)
        D_out = ⌊(D + 2·padding - kernel_size) / stride⌋ + 1, H_out, W_out too

    Example:
        >>> nn.AvgPool3d(2)(ad.zeros(1, 3, 4, 6, 6)).shape
        adjoint.Size([1, 3, 2, 3, 3])
    """

    function = staticmethod(F.avg_pool3d)
