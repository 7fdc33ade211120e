"""Hooks that pack and unpack the tensors that nodes save for backward."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from adjoint.core.graph.node import PackedValue
from adjoint.core.runtime.mode import ModeScope, mode, set_modes
from adjoint.core.tensor.storage import InferenceStorage
from adjoint.core.tensor.tensor import Tensor, with_node
from adjoint.core.typing import Operand


class saved_tensors_hooks:
    """Within the block, ops keep `pack_hook(tensor)` in place of each tensor they need for backward.

    `unpack_hook` gives the tensor back from it. Of nested blocks the innermost counts. `pack_hook` runs without
    recording; it gets an input itself, and an output without its history, so that nothing it returns can form a
    reference cycle.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        push_packer(SavedTensorPacker(self.pack_hook, self.unpack_hook))

    def __exit__(self, *error: object) -> None:
        pop_packer()


class save_on_cpu(saved_tensors_hooks):
    """Hooks where PyTorch moves saved tensors to main memory. They are there already, so no memory moves."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor), lambda packed: packed[1])


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Within the block, hooks on saved tensors raise RuntimeError(error_message); so does the block inside of hooks."""
    if mode.saved_tensor_hooks:
        raise RuntimeError(error_message)
    before, thread_state.refusal_message = thread_state.refusal_message, error_message
    try:
        yield
    finally:
        thread_state.refusal_message = before


class SavedTensorPacker:
    """A pair of hooks in `mode.saved_tensor_hooks`."""

    __slots__ = ("pack_hook", "unpack_hook")

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def pack(self, tensor: Tensor) -> PackedValue:
        """Return what a node saves in place of `tensor`. Raises RuntimeError if the hook writes into it."""
        before = version_of(tensor)
        with ModeScope(recording=False):
            packed = self.pack_hook(tensor)
        if version_of(tensor) != before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. The input is the tensor that the program "
                "goes on with: let the hook compute a new one."
            )
        return PackedByHook(packed, self.unpack_hook)

    def before_write(self, tensor: Tensor) -> None:
        """Copy packed values that share the memory of `tensor`, which is about to be written in place."""


class PackedByHook(PackedValue):
    """The value that a pack hook returned, and the hook that undoes it."""

    __slots__ = ("data", "unpack_hook")

    def __init__(self, data: Operand, unpack_hook: Callable[[Any], Tensor]) -> None:
        self.data = data
        self.unpack_hook = unpack_hook

    def unpack(self) -> Tensor:
        """Return the result of `unpack_hook`. Raises TypeError if that is no tensor."""
        before = mode.saved_tensor_hooks
        try:
            tensor = self.unpack_hook(self.data)
        finally:
            if mode.saved_tensor_hooks is not before:  # a block that the hook enters or leaves ends with the hook
                set_modes(saved_tensor_hooks=before)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(tensor).__name__}"
            )
        return tensor


class _ThreadState(threading.local):
    """This thread: why hooks are refused."""

    refusal_message: str | None = None


thread_state = _ThreadState()


def push_packer(packer: Any) -> None:
    """Make `packer` the innermost. Raises RuntimeError within `disable_saved_tensors_hooks`."""
    if thread_state.refusal_message is not None:
        raise RuntimeError(thread_state.refusal_message)
    set_modes(saved_tensor_hooks=(*mode.saved_tensor_hooks, packer))


def pop_packer() -> None:
    """Take the innermost packer off, if there is one."""
    set_modes(saved_tensor_hooks=mode.saved_tensor_hooks[:-1])


class SavedArgument:
    """A tensor saved as a node would save it, through the innermost hooks; a call gives it back.

    `value`: what is kept, the tensor itself where there are no hooks. A call raises RuntimeError if that was written in
    place since.
    """

    __slots__ = ("maker", "value", "version")

    def __init__(self, tensor: Tensor) -> None:
        hooks = mode.saved_tensor_hooks
        self.value: Tensor | PackedValue = hooks[-1].pack(tensor) if hooks else tensor
        self.maker, self.version = tensor.node, version_of(tensor)

    def __call__(self) -> Tensor:
        tensor = self.value
        if not isinstance(tensor, Tensor):
            return with_node(tensor.unpack(), self.maker)
        if version_of(tensor) != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: a "
                f"tensor of shape {list(tensor.array.shape)} was at version {self.version} when it was saved, and is "
                f"at {version_of(tensor)} now; clone() it first."
            )
        return tensor


def version_of(tensor: Tensor) -> int:
    """Return how often the tensor's memory was written in place; 0 where nobody counts."""
    return 0 if isinstance(tensor.storage_, InferenceStorage) else tensor._version
