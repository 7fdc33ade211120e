"""Memory that NumPy arrays outside the library share, through which anybody may write it.

Values that backward needs from such memory are saved as a copy (`copy_if_aliased`). For values saved before the memory
was exported, a checksum is taken and compared when a node reads them (`mutation_log.check_version`).

An exported array's `.base` is a memoryview. NumPy points the `.base` of every view at the array, so it lives as long as
any view does. If its reference count is 1, nobody outside holds the memory.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.graph.source_location import user_site
from adjoint.core.tensor.as_strided import StridedInterface, owner
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.storage import Storage, storage_of
from adjoint.core.typing import Array, Function, Operand

if TYPE_CHECKING:
    from adjoint.core.graph.tensor_like import TensorLike

ndarray = np.ndarray
SOURCES_NEVER_SHARED = (list, tuple, int, float, complex, np.generic)  # arrays made of these are ours alone


class ExternalAliases:
    """The outside arrays over some memory: the `exported_arrays` by id, and the `source_array` of a tensor."""

    __slots__ = ("source_array", "exported_arrays", "memory")

    def __init__(self, memory: weakref.ref[Any]) -> None:
        self.memory = memory
        self.source_array: Callable[[], Any] | None = None
        # with the id of the array that the tensor has, and how often we refer to that
        self.exported_arrays: dict[int, tuple[weakref.ref[Any], int, int]] = {}

    def can_be_written_outside(self) -> bool:
        """Return whether somebody may still write this memory from outside; if not, its entry is removed."""
        if self.exported_arrays or self.can_source_be_written():
            return True
        externally_aliased.pop(id(self.memory()), None)
        return False

    def can_source_be_written(self) -> bool:
        """Return whether somebody may still write the array from which a tensor was made."""
        return self.source_array is not None and _has_other_references(self.source_array)


externally_aliased: dict[int, ExternalAliases] = {}  # by the id of the array that owns the memory


def _external_aliases_of(memory: Array) -> ExternalAliases:
    key, entries = id(memory), externally_aliased  # at exit memory may be freed after the module's globals
    found = entries.get(key)
    if found is None:
        found = entries[key] = ExternalAliases(weakref.ref(memory, lambda _: entries.pop(key, None)))
    return found


def export_array(tensor: TensorLike) -> Array:
    """Return an array over the memory of `tensor` for use outside the library."""
    if not tensor.array.flags.writeable or not tensor.array.size:
        return tensor.array
    memory = tensor.array
    if memory.base is None and tensor.storage_ is None and id(memory) not in externally_aliased:
        kept = getrefcount(memory) > 3  # as `_is_referenced_elsewhere` has it; one is this function's
        exposure = _external_aliases_of(memory)
    else:
        memory = owner(memory)
        exposure = _external_aliases_of(memory)
        del memory
        kept = not exposure.can_source_be_written() and _is_referenced_elsewhere(tensor, exposure)
    seal = mutation_log.take_checksum(tensor.array, user_site()) if kept else None
    storage_of(tensor)
    handed = _view_on_memoryview(tensor.array)
    key, held, entries, is_finalizing = id(handed), exposure.exported_arrays, externally_aliased, sys.is_finalizing

    def on_export_freed(_: Function) -> None:
        held.pop(key, None)
        if seal is not None and not is_finalizing():  # nothing reads it any more, and modules are gone
            mutation_log.drop_checksum(seal)
        if not held and exposure.source_array is None:
            entries.pop(id(exposure.memory()), None)

    held[key] = weakref.ref(handed, on_export_freed), id(tensor.array), 1 if seal is None else 2
    return handed


def import_array(tensor: TensorLike, data: Any) -> None:
    """Register that `tensor` was made from `data`, and may share its memory."""
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


def copy_if_aliased(array: Operand) -> Operand:
    """Return `array`, or a copy if somebody outside might write it, for a node to save."""
    if type(array) is not ndarray:
        return array
    base = array.base
    memory = array if base is None else base
    if id(memory) not in externally_aliased and (base is None or (type(base) is ndarray and base.base is None)):
        return array  # only the library sees its memory
    return array.copy(order="K") if is_externally_aliased(array) else array


def is_externally_aliased(array: Operand) -> bool:
    """Return whether arrays outside the library may share the memory of `array`."""
    if type(array) is not ndarray or not externally_aliased:
        return False
    exposure = externally_aliased.get(id(owner(array)))
    return exposure is not None and exposure.can_be_written_outside()


def _view_on_memoryview(array: Operand) -> Operand:
    """Return an array over the same memory whose base is a memoryview."""
    if array.dtype.kind == "V":  # bfloat16, of which there are no memoryviews
        return np.asarray(memoryview(array.view(np.int16))).view(array.dtype)
    return np.asarray(memoryview(array))


def _unknown_source() -> Any:
    """Stand for several source arrays, whose references are not counted."""
    return _unknown_source


def _has_other_references(given: Callable[[], Any]) -> bool:
    """Return whether anything but one tensor refers to an array, or to its base."""
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


def _can_be_written(array: Operand) -> bool:
    """Return whether the memory of `array` may be writable, by the array itself or its base."""
    while type(array) is ndarray:
        if array.flags.writeable:
            return True
        array = array.base
    return array is not None and type(array) is not bytes


def _is_referenced_elsewhere(tensor: TensorLike, exposure: ExternalAliases) -> bool:
    """Return whether the memory of `tensor` has more references than its known tensors, such as by a node."""
    held = tensor.storage_
    is_alone = held is None or (type(held) is Storage and len(held.aliases) == 1 and held.aliases[0]() is tensor)
    if is_alone and tensor.array.base is None and not exposure.exported_arrays:
        return getrefcount(tensor.array) > 2  # the tensor's, and that of getrefcount's argument
    seen = [tensor]
    if tensor.storage_ is not None and (type(tensor.storage_) is not Storage or len(tensor.storage_.aliases) > 1):
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
