"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.shape.join import cat

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters as one vector.

    Args:
        parameters: iterable of tensors.

    Example:
        >>> layer = nn.Linear(3, 2)
        >>> nn.utils.parameters_to_vector(layer.parameters()).shape
        adjoint.Size([8])
    """
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set the parameters to consecutive parts of a vector.

    Afterwards the parameters are views of the vector.

    Args:
        vec: tensor (n,) with at least as many elements as the parameters together.
        parameters: iterable of tensors to set.

    Raises: TypeError unless `vec` is a tensor.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> nn.utils.vector_to_parameters(ad.tensor([1.0, 2.0, 3.0]), layer.parameters())
        >>> layer.bias.tolist()
        [3.0]
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    at = 0
    for p in parameters:
        count = p.numel()
        p.data = vec[at : at + count].view_as(p).data
        at += count
