"""Adaptive, fractional and power-average pooling layers, and their inverse, max unpooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Sizes
from adjoint.functions.api.dim_args import per_dimension
from adjoint.nn import functional as F
from adjoint.nn.module.module import Module
from adjoint.nn.module.module_docstring import inherit_sections

__all__ = ["AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d"]
__all__ += ["LPPool1d", "LPPool2d", "LPPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]
OutputSize = int | Sequence[int | None] | None  # None keeps a size as it is


class AdaptiveMaxPool(Module):
    """Adaptive max pooling: the largest elements of as many windows as `output_size` asks for.

    Along each dimension window i covers the elements ⌊i·n / n_out⌋ to ⌈(i + 1)·n / n_out⌉, the last excluded.

    Args:
        output_size: int or tuple, the number of windows; None keeps the size of that dimension.
        return_indices: True to also return the index of each maximum. Default: False.
    """

    function: ClassVar[Callable[..., Tensor | tuple[Tensor, Tensor]]]

    def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return type(self).function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


@inherit_sections
class AdaptiveMaxPool1d(AdaptiveMaxPool):
    """1-d adaptive max pooling over sequences: (…, C, L) -> (…, C, L_out)."""

    function = staticmethod(F.adaptive_max_pool1d)


@inherit_sections
class AdaptiveMaxPool2d(AdaptiveMaxPool):
    """2-d adaptive max pooling: the largest elements of as many windows as `output_size` asks for.

    Shapes:
        input (…, C, H, W) -> (…, C, H_out, W_out)

    Example:
        >>> nn.AdaptiveMaxPool2d(1)(ad.arange(12.0).reshape(1, 3, 4))
        tensor([[[11.]]])
    """

    function = staticmethod(F.adaptive_max_pool2d)


@inherit_sections
class AdaptiveMaxPool3d(AdaptiveMaxPool):
    """3-d adaptive max pooling over volumes: (…, C, D, H, W) -> (…, C, D_out, H_out, W_out)."""

    function = staticmethod(F.adaptive_max_pool3d)


class FractionalMaxPool(Module):
    """Fractional max pooling: the largest elements of windows at random places.

    Args:
        kernel_size: int or tuple, window size per dimension.
        output_size: int or tuple, the number of windows per dimension. Default: None.
        output_ratio: number or tuple between 0 and 1, the part of the input's size to keep instead. Default: None.
        return_indices: True to also return the index of each maximum. Default: False.

    Raises: ValueError unless exactly one of `output_size` and `output_ratio` is given, and for other ratios.

    Source: Graham, Fractional Max-Pooling, 2014.
    """

    rank: ClassVar[int]
    function: ClassVar[Callable[..., Tensor | tuple[Tensor, Tensor]]]
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size = per_dimension(kernel_size, self.rank, "kernel_size")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else per_dimension(output_size, self.rank, "output_size")
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * self.rank
        self.output_ratio = None if output_ratio is None else tuple(ratios)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return type(self).function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


@inherit_sections
class FractionalMaxPool2d(FractionalMaxPool):
    """2-d fractional max pooling over images: (…, C, H, W) -> (…, C, H_out, W_out)."""

    rank = 2
    function = staticmethod(F.fractional_max_pool2d)


@inherit_sections
class FractionalMaxPool3d(FractionalMaxPool):
    """3-d fractional max pooling over volumes: (…, C, D, H, W) -> (…, C, D_out, H_out, W_out)."""

    rank = 3
    function = staticmethod(F.fractional_max_pool3d)


class LPPool(Module):
    """Power-average pooling: (Σ xᵖ)^(1/p) over each window, with p = `norm_type` and a `stride` of `kernel_size`."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(LPPool):
    """1-d power-average pooling over sequences: (…, C, L) -> (…, C, L_out)."""

    function = staticmethod(F.lp_pool1d)


class LPPool2d(LPPool):
    """2-d power-average pooling over images: (…, C, H, W) -> (…, C, H_out, W_out)."""

    function = staticmethod(F.lp_pool2d)


class LPPool3d(LPPool):
    """3-d power-average pooling over volumes: (…, C, D, H, W) -> (…, C, D_out, H_out, W_out)."""

    function = staticmethod(F.lp_pool3d)


class MaxUnpool(Module):
    """Max unpooling: puts elements back to where a max pooling found them, and zeros elsewhere."""

    rank: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = per_dimension(kernel_size, self.rank, "kernel_size")
        self.stride = per_dimension(kernel_size if stride is None else stride, self.rank, "stride")
        self.padding = per_dimension(padding, self.rank, "padding")

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(MaxUnpool):
    """1-d max unpooling of sequences: (…, C, L) -> (…, C, L_out)."""

    rank = 1
    function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(MaxUnpool):
    """2-d max unpooling of images: (…, C, H, W) -> (…, C, H_out, W_out)."""

    rank = 2
    function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(MaxUnpool):
    """3-d max unpooling of volumes: (…, C, D, H, W) -> (…, C, D_out, H_out, W_out)."""

    rank = 3
    function = staticmethod(F.max_unpool3d)
