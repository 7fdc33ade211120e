"""Memory that NumPy arrays outside of the library see too, and that anybody may write through them.

What backward needs of such memory is kept as a copy from then on (`copy_if_aliased`). What nodes have kept of it before
it was given away is sealed: its checksum is noted, and compared when a node asks for it
(`mutation_log.check_unwritten`).

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
from adjoint.core.tensor.as_strided import StridedInterface, owner
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.storage import Storage, storage_of

if TYPE_CHECKING:
    from adjoint.core.graph.tensor_like import TensorLike

ndarray = np.ndarray
SOURCES_NEVER_SHARED = (list, tuple, int, float, complex, np.generic)  # arrays made of these are ours alone


class ExternalAliases:
    """Who sees some memory from outside: the arrays that were `exported_arrays` out, by id, and the one that was
    `source_array`.
    """

    __slots__ = ("source_array", "exported_arrays", "memory")

    def __init__(self, memory: weakref.ref[Any]) -> None:
        self.memory = memory
        self.source_array: Callable[[], Any] | None = None
        # with the id of the array that the tensor has, and how often we refer to that
        self.exported_arrays: dict[int, tuple[weakref.ref[Any], int, int]] = {}

    def can_be_written_outside(self) -> bool:
        """True if somebody may still write this memory from outside. If not, it is forgotten."""
        if self.exported_arrays or self.can_source_be_written():
            return True
        externally_aliased.pop(id(self.memory()), None)
        return False

    def can_source_be_written(self) -> bool:
        """True if somebody may still write the array that a tensor was made of."""
        return self.source_array is not None and _has_other_references(self.source_array)


externally_aliased: dict[int, ExternalAliases] = {}  # by the id of the array that owns the memory


def _external_aliases_of(memory: Any) -> ExternalAliases:
    key = id(memory)
    found = externally_aliased.get(key)
    if found is None:
        found = externally_aliased[key] = ExternalAliases(
            weakref.ref(memory, lambda _: externally_aliased.pop(key, None))
        )
    return found


def export_array(tensor: TensorLike) -> Any:
    """An array over the memory of `tensor` for the world outside."""
    if not tensor.array.flags.writeable or not tensor.array.size:
        return tensor.array
    memory = owner(tensor.array)
    exposure = _external_aliases_of(memory)
    del memory
    kept = not exposure.can_source_be_written() and _is_referenced_elsewhere(tensor, exposure)
    seal = mutation_log.take_checksum(tensor.array, user_site()) if kept else None
    storage_of(tensor)
    handed = _view_on_memoryview(tensor.array)
    key, held = id(handed), exposure.exported_arrays

    def on_export_freed(_: Any) -> None:
        held.pop(key, None)
        if seal is not None:
            mutation_log.drop_checksum(seal)
        if not held and exposure.source_array is None:
            externally_aliased.pop(id(exposure.memory()), None)

    held[key] = weakref.ref(handed, on_export_freed), id(tensor.array), 1 if seal is None else 2
    return handed


def import_array(tensor: TensorLike, data: Any) -> None:
    """Note that `tensor` was just made of `data`, and may share its memory."""
    array = tensor.array
    if (
        type(array) is not ndarray
        or isinstance(data, SOURCES_NEVER_SHARED)
        or not _can_be_written(array)
        or not array.size
    ):
        return
    exposure = _external_aliases_of(owner(array))
    # of two tensors over one memory, each sees the other's array
    known = exposure.source_array is None and array.dtype.kind != "V"
    exposure.source_array = weakref.ref(array) if known else _unknown_source
    tensor.array = _view_on_memoryview(array)
    storage_of(tensor)


def copy_if_aliased(array: Any) -> Any:
    """`array`, or a copy where somebody outside might write it: what a node may keep for backward."""
    return array.copy(order="K") if is_externally_aliased(array) else array


def is_externally_aliased(array: Any) -> bool:
    """True if arrays outside of the library may see the memory of `array`."""
    if type(array) is not ndarray or not externally_aliased:
        return False
    exposure = externally_aliased.get(id(owner(array)))
    return exposure is not None and exposure.can_be_written_outside()


def _view_on_memoryview(array: Any) -> Any:
    """The same memory, in an array that lies on a memoryview."""
    if array.dtype.kind == "V":  # bfloat16, of which there are no memoryviews
        return np.asarray(memoryview(array.view(np.int16))).view(array.dtype)
    return np.asarray(memoryview(array))


def _unknown_source() -> Any:
    """Stands for several arrays that were given: nobody counts who sees them."""
    return _unknown_source


def _has_other_references(given: Callable[[], Any]) -> bool:
    """True if anything but one tensor refers to an array, or to one that it is a view of."""
    if given is _unknown_source:
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


def _can_be_written(array: Any) -> bool:
    """True if there may be a way to write the memory that `array` sees: a read-only view is none, but its base is."""
    while type(array) is ndarray:
        if array.flags.writeable:
            return True
        array = array.base
    return array is not None and type(array) is not bytes


def _is_referenced_elsewhere(tensor: TensorLike, exposure: ExternalAliases) -> bool:
    """True if more refers to the memory of `tensor` than the tensors that are known to see it, so that a node may."""
    seen = [tensor]
    if tensor.memory is not None and (type(tensor.memory) is not Storage or len(tensor.memory.aliases) > 1):
        seen += [t for t in storage_of(tensor).alive_aliases() if t is not tensor]
    known: dict[int, int] = {}  # how often an array is referred to by what we know
    for t in seen:
        if id(t.array) not in known:
            base = id(t.array.base)
            known[base] = known.get(base, 0) + 1
        known[id(t.array)] = known.get(id(t.array), 0) + 1
    for _, array, references in list(exposure.exported_arrays.values()):
        known[array] = known.get(array, 0) + references
    for t in seen:  # one reference more is that of getrefcount's argument
        if getrefcount(t.array) - 1 > known[id(t.array)]:
            return True
        kind = type(t.array.base)
        if kind is StridedInterface or (kind is ndarray and getrefcount(t.array.base) - 1 > known[id(t.array.base)]):
            return True
    return False
