"""Memory that NumPy arrays outside of the library see too, and that anybody may write through them.

What backward needs of such memory is kept as a copy from then on (`apart`). What nodes have kept of it before it was
given away is sealed: its checksum is noted, and compared when a node asks for it (`writes.check_unwritten`).

Arrays given away lie on a memoryview. NumPy leads the `base` of their own views to them, not past them, so that they
are alive as long as one of their views; and a reference count tells whether anybody but a tensor sees an array that it
was made of.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.graph.source_location import user_site
from adjoint.core.tensor.as_strided import Region, owner
from adjoint.core.tensor.mutation_log import writes
from adjoint.core.tensor.storage import Storage, storage_of

if TYPE_CHECKING:
    from adjoint.core.graph.tensor_like import TensorLike

ndarray = np.ndarray
PLAIN = (list, tuple, int, float, complex, np.generic)  # arrays made of these are ours alone


class Exposure:
    """Who sees some memory from outside: the arrays that were `handed` out, by id, and the one that was `given`."""

    __slots__ = ("given", "handed", "memory")

    def __init__(self, memory: weakref.ref[Any]) -> None:
        self.memory = memory
        self.given: Callable[[], Any] | None = None
        # with the id of the array that the tensor has, and how often we refer to that
        self.handed: dict[int, tuple[weakref.ref[Any], int, int]] = {}

    def seen(self) -> bool:
        """True if somebody may still write this memory from outside. If not, it is forgotten."""
        if self.handed or self.given_seen():
            return True
        exposed.pop(id(self.memory()), None)
        return False

    def given_seen(self) -> bool:
        """True if somebody may still write the array that a tensor was made of."""
        return self.given is not None and _seen_by_others(self.given)


exposed: dict[int, Exposure] = {}  # by the id of the array that owns the memory


def _exposure_of(memory: Any) -> Exposure:
    key = id(memory)
    found = exposed.get(key)
    if found is None:
        found = exposed[key] = Exposure(weakref.ref(memory, lambda _: exposed.pop(key, None)))
    return found


def hand_out(tensor: TensorLike) -> Any:
    """An array over the memory of `tensor` for the world outside."""
    if not tensor.array.flags.writeable or not tensor.array.size:
        return tensor.array
    memory = owner(tensor.array)
    exposure = _exposure_of(memory)
    del memory
    kept = not exposure.given_seen() and _kept_elsewhere(tensor, exposure)
    seal = writes.seal(tensor.array, user_site()) if kept else None
    storage_of(tensor)
    handed = _lent(tensor.array)
    key, held = id(handed), exposure.handed

    def returned(_: Any) -> None:
        held.pop(key, None)
        if seal is not None:
            writes.unseal(seal)
        if not held and exposure.given is None:
            exposed.pop(id(exposure.memory()), None)

    held[key] = weakref.ref(handed, returned), id(tensor.array), 1 if seal is None else 2
    return handed


def take_over(tensor: TensorLike, data: Any) -> None:
    """Note that `tensor` was just made of `data`, and may share its memory."""
    array = tensor.array
    if type(array) is not ndarray or isinstance(data, PLAIN) or not _may_be_written(array) or not array.size:
        return
    exposure = _exposure_of(owner(array))
    # of two tensors over one memory, each sees the other's array
    known = exposure.given is None and array.dtype.kind != "V"
    exposure.given = weakref.ref(array) if known else _unknown
    tensor.array = _lent(array)
    storage_of(tensor)


def apart(array: Any) -> Any:
    """`array`, or a copy where somebody outside might write it: what a node may keep for backward."""
    return array.copy(order="K") if seen_outside(array) else array


def seen_outside(array: Any) -> bool:
    """True if arrays outside of the library may see the memory of `array`."""
    if type(array) is not ndarray or not exposed:
        return False
    exposure = exposed.get(id(owner(array)))
    return exposure is not None and exposure.seen()


def _lent(array: Any) -> Any:
    """The same memory, in an array that lies on a memoryview."""
    if array.dtype.kind == "V":  # bfloat16, of which there are no memoryviews
        return np.asarray(memoryview(array.view(np.int16))).view(array.dtype)
    return np.asarray(memoryview(array))


def _unknown() -> Any:
    """Stands for several arrays that were given: nobody counts who sees them."""
    return _unknown


def _seen_by_others(given: Callable[[], Any]) -> bool:
    """True if anything but one tensor refers to an array, or to one that it is a view of."""
    if given is _unknown:
        return True
    if given() is None:
        return False
    # one reference is the memoryview's, or that of the array which is a view; one getrefcount's argument
    if getrefcount(given()) > 2:
        return True
    array = given()
    while True:
        if array.base is None or type(array.base) is bytes:
            return False
        if type(array.base) is not ndarray or getrefcount(array.base) > 2:
            return True
        array = array.base


def _may_be_written(array: Any) -> bool:
    """True if there may be a way to write the memory that `array` sees: a read-only view is none, but its base is."""
    while type(array) is ndarray:
        if array.flags.writeable:
            return True
        array = array.base
    return array is not None and type(array) is not bytes


def _kept_elsewhere(tensor: TensorLike, exposure: Exposure) -> bool:
    """True if more refers to the memory of `tensor` than the tensors that are known to see it, so that a node may."""
    seen = [tensor]
    if tensor.memory is not None and (type(tensor.memory) is not Storage or len(tensor.memory.aliases) > 1):
        seen += [t for t in storage_of(tensor).living() if t is not tensor]
    known: dict[int, int] = {}  # how often an array is referred to by what we know
    for t in seen:
        if id(t.array) not in known:
            base = id(t.array.base)
            known[base] = known.get(base, 0) + 1
        known[id(t.array)] = known.get(id(t.array), 0) + 1
    for _, array, references in list(exposure.handed.values()):
        known[array] = known.get(array, 0) + references
    for t in seen:  # one reference more is that of getrefcount's argument
        if getrefcount(t.array) - 1 > known[id(t.array)]:
            return True
        kind = type(t.array.base)
        if kind is Region or (kind is ndarray and getrefcount(t.array.base) - 1 > known[id(t.array.base)]):
            return True
    return False
