"""The protocol of a tensor that the graph and storage use; the class Tensor is built above them."""

from __future__ import annotations

from typing import Any, Protocol

from adjoint.core.dtype.dtype import dtype
from adjoint.core.typing import Operand


class TensorLike(Protocol):
    """An array, the node that made it, and the memory that it shares with others."""

    array: Operand
    node: Any
    storage_: Any
    _grad: Any
    _leaf: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""

    @property
    def dtype(self) -> dtype:
        """Type of the elements."""

    @property
    def requires_grad(self) -> bool:
        """True if a gradient with respect to this tensor is wanted."""

    @property
    def is_leaf(self) -> bool:
        """True if no recorded op made this tensor."""

    @property
    def grad_fn(self) -> Any:
        """The node that made this tensor; None for a leaf."""
