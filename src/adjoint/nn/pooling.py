"""Pooling layers: one number for each window."""

from __future__ import annotations

from typing import Any

from adjoint.nn import functional as F
from adjoint.nn.module import Module

__all__ = ["AvgPool1d", "AvgPool2d", "MaxPool1d", "MaxPool2d"]


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


class AvgPool(Module):
    """The mean of each window, which moves by its own size unless `stride` says otherwise."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(AvgPool):
    """(N, C, L) to (N, C, L')."""

    def forward(self, input: Any) -> Any:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode)


class AvgPool2d(AvgPool):
    """(N, C, H, W) to (N, C, H', W')."""

    def forward(self, input: Any) -> Any:
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode)
