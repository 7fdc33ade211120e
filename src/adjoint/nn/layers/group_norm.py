"""Normalization of groups of channels, of neighbouring channels, and by the root mean square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike, Operand
from adjoint.functions.creation.creation import arange, ones
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.layers.normalization import ScaledNorm
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LocalResponseNorm", "RMSNorm"]


class GroupNorm(ScaledNorm):
    """Group normalization: each group of channels of each sample gets mean 0 and variance 1.

    A learned scale and shift per channel follow, with 1 and 0 at first.

    Args:
        num_groups: number of groups; it divides `num_channels`.
        num_channels: number of channels, C.
        eps: number added to the variance. Default: 1e-5.
        affine: True for the learned scale and shift. Default: True.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.
        bias: False for a scale without a shift. Default: True.

    Shapes:
        input (N, C, …) -> the same shape

    Raises: ValueError if `num_groups` does not divide `num_channels`.

    Source: Wu and He, Group Normalization, 2018.

    Example:
        >>> nn.GroupNorm(2, 4, affine=False)(ad.tensor([[1.0, 3.0, 5.0, 9.0]]))
        tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-05,
        affine: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._register_scale(num_channels, affine, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Root mean square normalization over the last dimensions: y = x / √(mean x² + eps) · weight.

    Args:
        normalized_shape: int or tuple, sizes of the last dimensions, over which the mean is taken.
        eps: number added to the mean square. Default: the machine epsilon of the input's dtype.
        elementwise_affine: True for a learned weight of this shape, 1 at first. Default: True.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        input (…, *normalized_shape) -> the same shape

    Raises: RuntimeError in a call if the input does not end in `normalized_shape`.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.

    Example:
        >>> nn.RMSNorm(2, elementwise_affine=False)(ad.tensor([3.0, 4.0]))
        tensor([0.8485, 1.1314])
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        scale = Parameter(ones(shape, dtype=dtype, device=device)) if elementwise_affine else None
        self.register_parameter("weight", scale)

    def reset_parameters(self) -> None:
        """Set the scale to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """Local response normalization: x / (k + alpha mean x²)ᵇᵉᵗᵃ, with the mean over `size` neighbouring channels.

    Shapes:
        input (N, C, …) -> the same shape
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """Local response normalization of (N, C, H, W) over ⌊(size + 1) / 2⌋ channels on either side, the own included.

    As in PyTorch, the first channel also counts for all channels behind its neighbours.

    Raises: ValueError for other ranks.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        squared: Any = input * input
        reach, channels = (self.size - 1) // 2, input.shape[1]
        framed = F.pad(squared, (0, 0, 0, 0, reach, reach))
        total: Operand = sum(framed.narrow(1, i, channels) for i in range(2 * reach + 1))
        behind = arange(channels).reshape(1, -1, 1, 1) > reach
        total = total + squared.narrow(1, 0, 1) * behind.to(input.dtype)
        out: Tensor = input * (total * (self.alpha / self.size) + self.k) ** -self.beta
        return out
