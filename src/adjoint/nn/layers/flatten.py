"""Changes of shape as modules."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.shape.shape import flatten, unflatten
from adjoint.nn.module.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Flatten layer: it joins the dimensions from `start_dim` to `end_dim` into one.

    Args:
        start_dim: first dimension to join. Default: 1, the one after the batch.
        end_dim: last dimension to join. Default: -1.

    Shapes:
        input (N, *sizes) -> (N, product of the sizes), with the defaults

    Example:
        >>> nn.Flatten()(ad.zeros(2, 3, 4)).shape
        adjoint.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Unflatten layer: it splits one dimension into several.

    Args:
        dim: dimension to split.
        unflattened_size: tuple or list of sizes with this dimension's size as product; one may be -1.

    Shapes:
        input (…, product of the sizes, …) -> (…, *unflattened_size, …)

    Raises: TypeError for sizes that are not a tuple or list of integers.

    Example:
        >>> nn.Unflatten(1, (2, -1))(ad.zeros(4, 6)).shape
        adjoint.Size([4, 2, 3])
    """

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
