"""Layers that normalise groups of channels, neighbouring ones, or by the root of the mean square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.creation import arange, ones, zeros
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LocalResponseNorm", "RMSNorm"]


class GroupNorm(Module):
    """Each group of channels of each sample of (N, C, …) to mean 0 and variance 1; channels then scaled and shifted.

    Raises ValueError for channels that do not divide into groups.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-05, affine: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self.register_parameter("weight", Parameter(ones(num_channels, dtype=dtype, device=device)) if affine else None)
        self.register_parameter(
            "bias", Parameter(zeros(num_channels, dtype=dtype, device=device)) if affine and bias else None
        )

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """The last dimensions, which are `normalized_shape`, divided by the root of their mean square, then scaled."""

    weight: Parameter | None

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        scale = Parameter(ones(shape, dtype=dtype, device=device)) if elementwise_affine else None
        self.register_parameter("weight", scale)

    def reset_parameters(self) -> None:
        """Scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """`local_response_norm` as a module: x / (k + alpha mean x²)ᵇᵉᵗᵃ, the mean over `size` neighbouring channels."""

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
    """As LocalResponseNorm, of (N, C, H, W), over ⌊(size + 1) / 2⌋ channels on either side, the own one counted in.

    The first channel counts for all behind those that it is a neighbour of, as in PyTorch, whose numbers these are.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        squared: Any = input * input
        reach, channels = (self.size - 1) // 2, input.shape[1]
        framed = F.pad(squared, (0, 0, 0, 0, reach, reach))
        total: Any = sum(framed.narrow(1, i, channels) for i in range(2 * reach + 1))
        behind = arange(channels).reshape(1, -1, 1, 1) > reach
        total = total + squared.narrow(1, 0, 1) * behind.to(input.dtype)
        out: Tensor = input * (total * (self.alpha / self.size) + self.k) ** -self.beta
        return out
