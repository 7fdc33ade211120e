"""Changes of shape as modules."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.shape.shape import flatten, unflatten
from adjoint.nn.module.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Dimensions `start_dim` to `end_dim` as one: by default all but the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dimension `dim` as several of sizes `unflattened_size`, one of which may be -1."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            found = type(unflattened_size).__name__
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {found}")
        for place, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {place}"
                )
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
