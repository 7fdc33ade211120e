"""`ctx`: what a Function's forward hands to its backward."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.core.node import RELEASED
from adjoint.core.tensor import Tensor, wrap
from adjoint.core.writes import check_unwritten


class Context:
    """Saved tensors, flags, and any attribute that users set.

    A saved output, or an attribute that is one, is kept without its tensor, which would keep the node, and that this.
    """

    needs_input_grad: tuple[bool, ...]

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.needs_input_grad = tuple(isinstance(a, Tensor) and a.node is not None for a in args)
        self._tensors = tuple(isinstance(a, Tensor) for a in args)
        self._given: tuple[Any, ...] = ()
        self._saved: Any = None
        self._dirty: tuple[Any, ...] = ()
        self._quiet: tuple[Any, ...] = ()
        self._materialize = True
        self._own_outputs: dict[str, Saved] = {}
        self._node: weakref.ref[Any] | None = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors, inputs and outputs among them, for `backward`."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type {type(tensor).__name__}"
                )
        self._given = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to `save_for_backward`. Raises RuntimeError once they were freed, or written in place."""
        if self._saved is RELEASED:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Specify retain_graph=True if you need to backward through the graph a second "
                "time."
            )
        if self._saved is None:
            return self._given
        return tuple(None if kept is None else kept.restore(self._owner()) for kept in self._saved)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Name the inputs that `forward` wrote in place; it must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Name the outputs that carry no gradient."""
        self._quiet = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros, the default, or None for outputs to which no gradient came."""
        self._materialize = value

    def settle(self, node: Any, outputs: tuple[Any, ...], returned: tuple[Any, ...]) -> None:
        """After `forward`: keep what was given to keep, in the name of `node`."""
        self._node = weakref.ref(node)
        self._saved = tuple(None if t is None else Saved(t, outputs, returned, node.order) for t in self._given)
        for name, value in list(vars(self).items()):
            if isinstance(value, Tensor) and any(value is out for out in (*outputs, *returned)):
                del self.__dict__[name]
                self._own_outputs[name] = Saved(value, outputs, returned, node.order)
        self._given = self._dirty = self._quiet = ()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._own_outputs:
            return self._own_outputs[name].restore(self._owner())
        raise AttributeError(f"ctx has no attribute {name!r}: forward has not set it")

    def _owner(self) -> Any:
        node = self._node and self._node()
        if node is None:
            raise RuntimeError("this ctx outlived the graph in which its Function was recorded")
        return node


class Saved:
    """A tensor that a Function keeps: an input, or, without a reference to itself, the number of an output."""

    __slots__ = ("array", "node", "order", "output", "storage")

    def __init__(self, tensor: Tensor, outputs: Sequence[Any], returned: Sequence[Any], order: int) -> None:
        self.array, self.storage, self.order = tensor.array, tensor.storage, order
        pairs = enumerate(zip(outputs, returned, strict=True))
        number = next((i for i, pair in pairs if any(tensor is out for out in pair)), None)
        self.output = None if number is None or outputs[number].node is None else number
        self.node = None if number is not None else tensor.node

    def restore(self, owner: Any) -> Tensor:
        """The tensor with its history. Raises RuntimeError if it was written in place since."""
        if type(self.array) is np.ndarray:
            check_unwritten(self.array, owner)
        tensor = wrap(self.array)
        tensor.storage = self.storage
        tensor.node = self.node if self.output is None else owner.made(self.output)
        return tensor
