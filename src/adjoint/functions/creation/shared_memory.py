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

from adjoint.core.tensor.as_strided import address, element_strides, memory_span, owner, strided_view
from adjoint.core.tensor.storage import storage_of
from adjoint.core.tensor.tensor import Tensor, method, rebuild
from adjoint.core.typing import Array, NumpyDtype, Shape
from adjoint.functions.creation.typed_storage import UntypedStorage, arenas

__all__: list[str] = []


@method
def share_memory_(self: Tensor) -> Tensor:
    """Move the memory of the tensor to where other processes see it and each other's writes; return the tensor.

    All tensors that see the same memory move along. Arrays that `numpy()` gave before keep the memory that was.

    Raises: RuntimeError for another library's memory with gaps.
    """
    array = self.numpy_view("share_memory_()")
    if is_shared(self) or array.size == 0:
        return self
    memory = owner(array)
    strides = element_strides(memory)
    if min(strides, default=1) < 0 or memory_span(memory.shape, strides, 0) != memory.size:
        raise RuntimeError("share_memory_(): the memory is another library's and has gaps; clone() the tensor first")
    shared = _elements(Arena(memory.nbytes), memory.dtype)
    shared[:] = strided_view(memory, (memory.size,), (1,), 0)
    known = {id(t): t for t in (*storage_of(self).alive_aliases(), self) if owner(t.array) is memory}
    for tensor in known.values():
        start = (address(tensor.array) - address(memory)) // tensor.array.dtype.itemsize
        tensor.array = _view_shared_array(
            shared, tensor.array.dtype, tensor.array.shape, element_strides(tensor.array), start
        )
        ForkingPickler.register(type(tensor), _reduce_shared)
    return self


@method
def is_shared(self: Tensor) -> bool:
    """Return True if processes that get the tensor see the same memory: after `share_memory_()`, or that of a file."""
    return UntypedStorage(owner(self.numpy_view("is_shared()"))).is_shared()


def _elements(arena: Arena, kind: NumpyDtype) -> Array:
    """Return the one array in this process that is all of an arena."""
    for found, known in arenas.values():
        if known is arena and (array := found()) is not None:
            return array
    elements = np.frombuffer(arena.buffer, kind, arena.size // kind.itemsize)
    key = id(elements)
    arenas[key] = weakref.ref(elements, lambda _: arenas.pop(key, None)), arena
    return elements


def _view_shared_array(memory: Array, kind: NumpyDtype, shape: Shape, strides: tuple[int, ...], start: int) -> Array:
    return strided_view(memory if memory.dtype == kind else memory.view(kind), shape, strides, start)


def _reduce_shared(tensor: Tensor) -> Any:
    """Reduce a tensor for another process: to its arena, or to a copy if it is in none."""
    array = tensor.numpy_view("pickle")
    memory = owner(array)
    known = arenas.get(id(memory))
    if known is None:
        return tensor.__reduce_ex__(5)
    start = (address(array) - address(memory)) // array.dtype.itemsize
    where = known[1], memory.dtype, array.dtype, array.shape, element_strides(array), start
    return _rebuild_shared, (type(tensor), where, tensor.requires_grad, tensor.__dict__ or None)


def _rebuild_shared(
    kind: type[Tensor], where: tuple[Any, ...], requires_grad: bool, state: dict[str, object] | None
) -> Tensor:
    arena, whole, *seen = where
    out = rebuild(kind, _view_shared_array(_elements(arena, whole), *seen), requires_grad, state)
    ForkingPickler.register(kind, _reduce_shared)
    return out
