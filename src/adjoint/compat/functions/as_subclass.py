"""Conversion of tensors to a subclass, over the same memory, with or without history."""

from __future__ import annotations

from typing import Any

from adjoint.core.tensor.tensor import Tensor, detach, method
from adjoint.functions.api.publish import rename_node
from adjoint.ops.movement import movement

__all__: list[str] = []


@method
def as_subclass(self: Tensor, cls: Any) -> Any:
    """Return a view of the tensor as an instance of `cls`, a subclass of Tensor. Raises TypeError for other classes."""
    _check_subclass(cls)
    return _set_class(rename_node(movement.reshape(self, shape=self.array.shape), "AliasBackward0"), cls)


@method
def _make_subclass(cls: Any, data: Tensor, require_grad: bool = False) -> Any:
    """Return a leaf of class `cls` over the memory of `data`. Raises TypeError unless that is a subclass of Tensor."""
    _check_subclass(cls)
    out = _set_class(detach(data), cls)
    return out.requires_grad_() if require_grad else out


def _check_subclass(cls: Any) -> None:
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your "
            "class inherits from Tensor."
        )


def _set_class(tensor: Tensor, cls: Any) -> Any:
    tensor.__class__ = cls
    return tensor
