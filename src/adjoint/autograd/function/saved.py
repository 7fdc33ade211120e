"""The tensors that a Function keeps for its backward, without a way back from them to the node that keeps them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.autograd.saved.hooks import SavedTensorPacker
from adjoint.autograd.saved.saved_tensor import SavedTensor, saved_tensor
from adjoint.core.graph.node import FREED, Leaf, PackedValue, freed_error
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.external_aliases import copy_if_aliased
from adjoint.core.tensor.mutation_log import check_version
from adjoint.core.tensor.storage import View
from adjoint.core.tensor.tensor import Tensor, detach, shallow_copy, with_node, wrap
from adjoint.core.typing import Operand

CLEARED = type("Cleared", (), {"__slots__": (), "__repr__": lambda self: "<cleared>"})()


class SavedVariable:
    """An input, an intermediate value, or, by its number, an output.

    A leaf that wants a gradient is held itself: its history never changes. Any other tensor, or its base, may later be
    written in place, and lead here then: it is held weakly, and made anew of its parts once it is gone.
    """

    __slots__ = ("array", "node", "number", "reference", "memory")

    def __init__(self, tensor: Tensor, number: int | None) -> None:
        self.array, self.number = copy_if_aliased(tensor.array), number
        memory = (
            tensor.storage_.storage if type(tensor.storage_) is View else tensor.storage_
        )  # a base may lead to the node
        self.memory = memory if self.array is tensor.array else None
        self.node = None if number is not None else tensor.node
        self.reference: Callable[[], Tensor | None]
        self.reference = (lambda: tensor) if type(self.node) is Leaf else weakref.ref(tensor)

    def unpack(self, owner: Any) -> Tensor:
        """Return the tensor with its history: itself unless it is an output. Raises RuntimeError if written since."""
        if hasattr(self.array, "dtype"):
            check_version(self.array, owner)
        if self.number is None:
            alive = self.reference()
            if alive is not None and alive.array is self.array and alive.node is self.node:
                return alive
        tensor = wrap(self.array)
        tensor.storage_ = self.memory
        tensor.node = self.node if self.number is None else owner.output_node(self.number)
        return tensor

    def get_original(self, owner: Any) -> Tensor:
        """Return the tensor itself while it lives, an output too. Writes are not checked."""
        alive = self.reference()
        if alive is not None:
            return alive
        tensor = wrap(self.array)
        tensor.storage_, tensor.node = self.memory, owner.output_node(self.number)
        return tensor


class PackedVariable:
    """A saved tensor that went through hooks."""

    __slots__ = ("node", "number", "packed")

    def __init__(self, packed: PackedValue, node: Any, number: int | None) -> None:
        self.packed, self.node, self.number = packed, node, number

    def unpack(self, owner: Any) -> Tensor:
        """Return what the hook unpacks, with the history of the tensor that it packed."""
        return with_node(self.packed.unpack(), self.node if self.number is None else owner.output_node(self.number))


def save_variable(tensor: Tensor | None, outputs: Sequence[Any]) -> SavedVariable | PackedVariable | None:
    """Return the form in which a node keeps `tensor`, which may be one of its outputs."""
    if tensor is None:
        return None
    number = output_number(tensor, outputs)
    if nondefault.count and mode.saved_tensor_hooks:
        packed = mode.saved_tensor_hooks[-1].pack(tensor if number is None else detach(tensor))
        return PackedVariable(packed, None if number is not None else tensor.node, number)
    return SavedVariable(tensor, number)


def output_number(tensor: Tensor, outputs: Sequence[Any]) -> int | None:
    """Return the number of the output that `tensor` is, the last of several, None if it does not lead to the node."""
    if tensor.node is not None:
        for i in range(len(outputs) - 1, -1, -1):
            if outputs[i] is tensor:
                return i
    return None


def unpack_saved_tensors(node: Any) -> tuple[Any, ...]:
    """Return the tensors that `node` saved. Raises RuntimeError once they were freed, or are no longer accessible."""
    kept = _saved_variables(node)
    tensors = tuple([None if one is None else one.unpack(node) for one in kept])
    if kept and node._forward_cls.clear_saved_tensors_on_access:
        node.context.saved_tensors = CLEARED
    return tensors


def raw_saved_tensors(node: Any) -> tuple[SavedTensor, ...]:
    """Return the slots in which `node` saves tensors, for hooks of their own."""
    if node.context.saved_tensors is CLEARED:
        return ()
    return tuple(saved_tensor(node, i, _FunctionSavedTensor) for i in range(len(_saved_variables(node))))


def _saved_variables(node: Any) -> tuple[Any, ...]:
    kept = None if node.context is None else node.context.saved_tensors
    if kept is CLEARED:
        raise RuntimeError(
            "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the "
            "autograd.Function. Either access saved_tensors only once, or set clear_saved_tensors_on_access=False."
        )
    if kept is FREED:
        raise freed_error(node, "applied")
    return kept or ()


class _FunctionSavedTensor(SavedTensor):
    __slots__ = ()
    _packable = SavedVariable

    def unpack(self) -> Operand:
        value = _saved_variables(self.node)[self.place]
        return None if value is None else value.unpack(self.node)

    def _stored_value(self) -> Any:
        value = _saved_variables(self.node)[self.place]
        return value.packed if type(value) is PackedVariable else value

    def _pack(self, value: SavedVariable, packer: SavedTensorPacker) -> None:
        plain = shallow_copy(value.unpack(self.node))  # without its history: what the hook returns may not lead here
        packed = PackedVariable(packer.pack(plain), value.node, value.number)
        kept, place = _saved_variables(self.node), self.place
        self.node.context.saved_tensors = (*kept[:place], packed, *kept[place + 1 :])
