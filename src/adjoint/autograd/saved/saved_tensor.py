"""One value that a node keeps for backward, as users see it: `grad_fn._raw_saved_self`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.autograd.saved.hooks import PackedByHook, SavedTensorPacker
from adjoint.core.graph.node import FREED, PackedValue, SavedValues
from adjoint.core.tensor.mutation_log import check_version
from adjoint.core.tensor.storage import share_storage, storage_of
from adjoint.core.tensor.tensor import Tensor, restore_saved, shallow_copy
from adjoint.core.typing import Array, Operand

if TYPE_CHECKING:
    from adjoint.core.graph.hooks import HookableNode
    from adjoint.core.graph.node import GraphNode

new = object.__new__


class SavedTensor:
    """A place among the values that a node keeps; nodes hand them out, nobody makes one."""

    __slots__ = ("node", "place")
    _packable: type = np.ndarray  # the type of a value that hooks may pack
    node: Any
    place: int

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden: read one from a node, as in "
            "`y.grad_fn._raw_saved_self`"
        )

    @property
    def data(self) -> Operand:
        """Return the saved value: the result of the pack hook, the tensor itself, or None."""
        value = self._stored_value()
        return value.data if isinstance(value, PackedByHook) else self.unpack()

    @property
    def unpack_hook(self) -> Callable[[Any], Tensor] | None:
        """The hook that makes the tensor of `data`, if there is one."""
        value = self._stored_value()
        return value.unpack_hook if isinstance(value, PackedByHook) else None

    def unpack(self) -> Tensor:
        """Return the tensor with its history; a number or None if that is what is kept.

        Raises RuntimeError if it was freed, or written in place since.
        """
        value, node = self._stored_value(), self.node
        if type(value) is np.ndarray:
            check_version(value, node)
        made_it = (*node.parents, node)[self.place]
        # looked for before there is another
        alive = _find_live_tensor(value, made_it) if type(value) is np.ndarray else None
        if alive is not None and made_it is not node:
            return alive
        tensor = restore_saved(value, made_it)
        if alive is not None:
            share_storage(alive, tensor)  # an output is never its own tensor, but counts writes with it
        return tensor

    def register_hooks(self, *hooks: Callable[[Any], Any]) -> None:
        """Keep `pack_hook(tensor)` instead, from which `unpack_hook`, the second hook, makes the tensor again.

        Raises RuntimeError if the value was freed, is no tensor, has hooks, or if `pack_hook` writes into it; TypeError
        unless there are two functions.
        """
        pack_hook, unpack_hook = check_hook_pair(hooks)
        if self.node.saved_values is FREED:
            raise RuntimeError(
                f"Calling register_hooks on a saved tensor after it has been freed: {self.node.name()} let its values "
                "go in backward(). Specify retain_graph=True to keep them."
            )
        value = self._stored_value()
        if isinstance(value, PackedValue):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time."
            )
        if type(value) is not self._packable:
            raise RuntimeError(f"Calling register_hooks on a saved tensor with value {value!r} is forbidden")
        self._pack(value, SavedTensorPacker(pack_hook, unpack_hook))

    def _pack(self, value: Operand, packer: SavedTensorPacker) -> None:
        packed = packer.pack(shallow_copy(restore_saved(value, None)))
        saved, place = self.node.saved_values, self.place
        self.node.saved_values = SavedValues((*saved[:place], packed, *saved[place + 1 :]))

    def _stored_value(self) -> Any:
        """Return the value, or what hooks made of it."""
        if self.node.saved_values is FREED:
            raise RuntimeError(
                f"{self.node.name()}: its saved values were freed by backward(). Trying to backward through the graph "
                "a second time (or directly access saved tensors after they have already been freed) needs "
                "retain_graph=True."
            )
        return None if self.node.saved_values is None else self.node.saved_values[self.place]

    def __repr__(self) -> str:
        return f"<SavedTensor {self.place} of {self.node!r}>"


def check_hook_pair(hooks: Sequence[Callable[[Any], Any]]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the two hooks. Raises TypeError for anything but two functions."""
    if len(hooks) != 2 or not all(map(callable, hooks)):
        given = ", ".join(type(hook).__name__ for hook in hooks)
        raise TypeError(
            "register_hooks(): incompatible function arguments: it takes the two functions pack_hook and unpack_hook, "
            f"but got ({given})"
        )
    return hooks[0], hooks[1]


def saved_tensor(node: GraphNode, place: int, kind: type[SavedTensor] = SavedTensor) -> SavedTensor:
    """Return a saved value of `node`: at `place` an input, by its number, or the output, which comes last."""
    found = new(kind)
    found.node = node
    found.place = place
    return found


def _find_live_tensor(array: Array, made_it: HookableNode | None) -> Tensor | None:
    """Return the tensor whose array was saved, if it lives: nodes save arrays, and no way back to their tensors.

    The search goes through all of Python's containers, in the order in which the collector keeps them, which changes as
    it works. Of several, such as a tensor and its detached twin, the one that all share memory with came first. The
    search serves those who look at a graph, never a backward pass.
    """
    holders = gc.get_referrers(array)
    found = [t for t in holders if isinstance(t, Tensor) and t.array is array and t.node is made_it]
    if len(found) < 2:
        return found[0] if found else None
    return next((t for t in storage_of(found[0]).alive_aliases() if any(t is other for other in found)), found[0])
