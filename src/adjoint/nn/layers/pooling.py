"""Pooling layers: one number for each window."""

from __future__ import annotations

from typing import Any

from adjoint.functions.api.dim_args import per_dimension
from adjoint.nn import functional as F
from adjoint.nn.module.module import Module

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d"]


class MaxPool(Module):
    """The largest element of each window, which moves by its own size unless `stride` says otherwise."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def settings(self) -> tuple[Any, ...]:
        """The arguments of the function behind the input."""
        return self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(MaxPool):
    """(N, C, L) to (N, C, L')."""

    def forward(self, input: Any) -> Any:
        return F.max_pool1d(input, *self.settings())


class MaxPool2d(MaxPool):
    """(N, C, H, W) to (N, C, H', W')."""

    def forward(self, input: Any) -> Any:
        return F.max_pool2d(input, *self.settings())


class MaxPool3d(MaxPool):
    """(N, C, D, H, W) to (N, C, D', H', W')."""

    def forward(self, input: Any) -> Any:
        return F.max_pool3d(input, *self.settings())


class AvgPool1d(Module):
    """(N, C, L) to (N, C, L'): the mean of each window, which moves by its own size unless `stride` says otherwise."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = per_dimension(kernel_size, 1, "kernel_size")
        self.stride = per_dimension(kernel_size if stride is None else stride, 1, "stride")
        self.padding = per_dimension(padding, 1, "padding")
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool(Module):
    """The mean of each window, which moves by its own size unless `stride` says otherwise."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def settings(self) -> tuple[Any, ...]:
        """The arguments of the function behind the input."""
        framed = self.kernel_size, self.stride, self.padding
        return *framed, self.ceil_mode, self.count_include_pad, self.divisor_override

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(AvgPool):
    """(N, C, H, W) to (N, C, H', W')."""

    def forward(self, input: Any) -> Any:
        return F.avg_pool2d(input, *self.settings())


class AvgPool3d(AvgPool):
    """(N, C, D, H, W) to (N, C, D', H', W')."""

    def forward(self, input: Any) -> Any:
        return F.avg_pool3d(input, *self.settings())
