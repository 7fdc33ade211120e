"""Memory that several processes see: `share_memory_()`, and how such a tensor travels to another process.

The memory is a nameless file's (`multiprocessing.heap.Arena`). A forked process has it already; to one that is spawned,
or reads from a queue, goes the file's descriptor, by the reducers that Python's `multiprocessing` pickles with.
"""

from __future__ import annotations

import weakref
from multiprocessing.heap import Arena
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from adjoint.core.tensor.as_strided import address, owner, reach, region, steps
from adjoint.core.tensor.storage import storage_of
from adjoint.core.tensor.tensor import Tensor, method, rebuild
from adjoint.functions.creation.typed_storage import UntypedStorage, arenas

__all__: list[str] = []


@method
def share_memory_(self: Tensor) -> Tensor:
    """The tensor itself, its memory moved to where processes that get it see it too, and see each other's writes.

    All tensors that see the same memory move along. Arrays that `numpy()` gave before keep the memory that was.
    """
    array = self.numpy_view("share_memory_()")
    if is_shared(self) or array.size == 0:
        return self
    memory = owner(array)
    strides = steps(memory)
    if min(strides, default=1) < 0 or reach(memory.shape, strides, 0) != memory.size:
        raise RuntimeError("share_memory_(): the memory is another library's and has gaps; clone() the tensor first")
    shared = _elements(Arena(memory.nbytes), memory.dtype)
    shared[:] = region(memory, (memory.size,), (1,), 0)
    known = {id(t): t for t in (*storage_of(self).living(), self) if owner(t.array) is memory}
    for tensor in known.values():
        start = (address(tensor.array) - address(memory)) // tensor.array.dtype.itemsize
        tensor.array = _seen(shared, tensor.array.dtype, tensor.array.shape, steps(tensor.array), start)
        ForkingPickler.register(type(tensor), _reduced)
    return self


@method
def is_shared(self: Tensor) -> bool:
    """Whether processes that get the tensor see the same memory: after `share_memory_()`, and that of a file."""
    return UntypedStorage(owner(self.numpy_view("is_shared()"))).is_shared()


def _elements(arena: Any, kind: Any) -> Any:
    """The one array in this process that is all of an arena."""
    for found, known in arenas.values():
        if known is arena and (array := found()) is not None:
            return array
    elements = np.frombuffer(arena.buffer, kind, arena.size // kind.itemsize)
    key = id(elements)
    arenas[key] = weakref.ref(elements, lambda _: arenas.pop(key, None)), arena
    return elements


def _seen(memory: Any, kind: Any, shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> Any:
    return region(memory if memory.dtype == kind else memory.view(kind), shape, strides, start)


def _reduced(tensor: Tensor) -> Any:
    """How a tensor goes to another process: by the arena that it lies in, or else as a copy."""
    array = tensor.numpy_view("pickle")
    memory = owner(array)
    known = arenas.get(id(memory))
    if known is None:
        return tensor.__reduce_ex__(5)
    start = (address(array) - address(memory)) // array.dtype.itemsize
    where = known[1], memory.dtype, array.dtype, array.shape, steps(array), start
    return _arrived, (type(tensor), where, tensor.requires_grad, tensor.__dict__ or None)


def _arrived(kind: type[Tensor], where: tuple[Any, ...], requires_grad: bool, state: Any) -> Tensor:
    arena, whole, *seen = where
    out = rebuild(kind, _seen(_elements(arena, whole), *seen), requires_grad, state)
    ForkingPickler.register(kind, _reduced)
    return out
