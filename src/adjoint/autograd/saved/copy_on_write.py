"""Writing into tensors that nodes have kept for backward: the values are copied just before they are lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np

from adjoint.autograd.saved.hooks import SavedTensorPacker, pop_packer, push_packer, version_of
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor, wrap


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[CopyOnWriteRecord]:
    """Within the block, a write into a tensor that is kept for backward leaves backward the values from before.

    Forward and backward must both run in the block. Yields the record of what is kept: `cloned` holds the copies that
    writes made necessary. Raises RuntimeError inside another such block.
    """
    if any(isinstance(packer, _CopyOnWritePacker) for packer in mode.saved_tensor_hooks):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    kept = CopyOnWriteRecord()
    push_packer(_CopyOnWritePacker(kept))
    try:
        yield kept
    finally:
        pop_packer()
        kept.clear()


class Handle:
    """Stand-in that nodes save for a tensor. It lives as long as one of them."""

    __slots__ = ("__weakref__",)


class CopyOnWriteRecord:
    """The tensors that are kept for backward, by their handles: as they are, or as a write found them."""

    def __init__(self) -> None:
        self.original: WeakKeyDictionary[Handle, Tensor] = WeakKeyDictionary()
        self.cloned: WeakKeyDictionary[Handle, Tensor] = WeakKeyDictionary()
        # by the tensor's id and version: one tensor may be kept many times
        self.tid_to_weakhandle: WeakValueDictionary[tuple[int, int], Handle] = WeakValueDictionary()
        self.by_memory: dict[int, WeakSet[Handle]] = {}

    def clear(self) -> None:
        """Let go of all."""
        for record in (self.original, self.cloned, self.tid_to_weakhandle, self.by_memory):
            record.clear()


class _CopyOnWritePacker(SavedTensorPacker):
    __slots__ = ("kept",)

    def __init__(self, kept: CopyOnWriteRecord) -> None:
        super().__init__(partial(_pack_to_handle, kept), partial(_unpack_handle, kept))
        self.kept = kept

    def before_write(self, tensor: Tensor) -> None:
        kept = self.kept
        for handle in list(kept.by_memory.get(id(owner(tensor.array)), ())):
            original = kept.original.get(handle)
            if original is not None and np.may_share_memory(original.array, tensor.array):
                kept.cloned[handle] = wrap(original.array.copy())
                del kept.original[handle]


def _pack_to_handle(kept: CopyOnWriteRecord, tensor: Tensor) -> Handle:
    key = id(tensor), version_of(tensor)
    handle = kept.tid_to_weakhandle.get(key)
    if handle is None or kept.original.get(handle) is not tensor:  # an id is given again once a tensor is gone
        handle = kept.tid_to_weakhandle[key] = Handle()
        kept.original[handle] = tensor
        kept.by_memory.setdefault(id(owner(tensor.array)), WeakSet()).add(handle)
    return handle


def _unpack_handle(kept: CopyOnWriteRecord, handle: Handle) -> Tensor:
    tensor = kept.cloned.get(handle)
    if tensor is None:
        tensor = kept.original.get(handle)
    if tensor is None:
        raise AssertionError(
            "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
            "originally recorded."
        )
    return tensor
