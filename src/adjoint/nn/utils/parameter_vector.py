"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.shape.join import cat

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after another: a tensor of one dimension."""
    flat: list[Any] = [p.reshape(-1) for p in parameters]
    return cat(flat)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters be views of their parts of `vec`. Raises TypeError for anything but a tensor."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    at = 0
    for p in parameters:
        count = p.numel()
        part: Any = vec[at : at + count]
        p.data = part.view_as(p).data
        at += count
