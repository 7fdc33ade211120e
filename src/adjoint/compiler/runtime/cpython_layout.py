"""The memory layout of CPython's and NumPy's objects, found out on the interpreter that runs."""

from __future__ import annotations

import ctypes
import sys
import weakref
from functools import cache
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.graph.source_location import Site
from adjoint.core.tensor.mutation_log import Write
from adjoint.core.tensor.storage import Storage
from adjoint.core.tensor.tensor import Tensor

HEAD = object.__basicsize__  # of every object: its references, and at TYPE its type
TYPE = HEAD - 8
CONTENTS = bytes.__basicsize__ - 1  # of a bytes object
ITEMS = tuple.__basicsize__  # of a tuple
LENGTH = HEAD  # of a list, tuple or dict
DATA, RANK, SIZES, STRIDES, DTYPE, FLAGS = (HEAD + at for at in (0, 8, 16, 24, 40, 48))  # of an ndarray
CELL = HEAD  # what a cell holds
LIST = HEAD + 8  # the address of a list's items
FUNCTION = HEAD  # of a bound method
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400  # bits of an ndarray's flags


class SlotOffsets(NamedTuple):
    """Offsets of the slots of tensors, and of the hooks of their leaves."""

    array: int
    node: int
    grad: int
    storage: int
    hooks: int


class WriteSlotOffsets(NamedTuple):
    """Offsets of the slots that tell of writes: of `Write` objects the first three, of a `Storage` the last."""

    order: int
    place: int
    outside: int
    version: int


@cache
def can_read_arrays() -> bool:
    """True if an ndarray's data pointer can be read from the object: CPython with its lock, and NumPy as we know it."""
    if sys.implementation.name != "cpython" or "free-threading" in sys.version:
        return False
    probe = np.empty(1)
    return read_word(id(probe) + DATA) == probe.ctypes.data


@cache
def find_slot_offsets() -> SlotOffsets | None:
    """The offsets; None if not all is where it is thought to be."""
    if not can_read_arrays() or HEAD != 16 or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    of = ((Tensor, "array"), (Tensor, "node"), (Tensor, "_grad"), (Tensor, "storage_"), (Leaf, "hooks"))
    found = SlotOffsets(*(slot_offset(*each) for each in of))
    return found if _tensors_agree(found) and _containers_agree() and _arrays_agree() else None


@cache
def find_write_slot_offsets() -> WriteSlotOffsets | None:
    """The offsets; None if not all is where it is thought to be."""
    if find_slot_offsets() is None:
        return None
    of = ((Write, "sequence_nr"), (Write, "place"), (Write, "outside"), (Storage, "version"))
    found = WriteSlotOffsets(*(slot_offset(*each) for each in of))
    write = Write(weakref.ref(Tensor(np.zeros(1))))
    storage: Storage[Tensor] = Storage()
    values = (2**40, Site("", 0, ""), True, 2**41)
    write.sequence_nr, write.place, write.outside, storage.version = values
    held = [read_word(id(write) + at) for at in found[:3]] + [read_word(id(storage) + found.version)]
    return found if held == [*map(id, values)] else None


def read_word(address: int) -> int:
    """The 64 bits at an address."""
    return ctypes.c_uint64.from_address(address).value


def slot_offset(kind: type, name: str) -> int:
    """Return the offset of a slot in objects of a type: the third word of what its descriptor points to."""
    described = read_word(id(kind.__dict__[name]) + HEAD + 24)
    return read_word(described + 16) & 0xFFFF_FFFF


@cache
def function_field_offsets() -> dict[str, int]:
    """The offsets of the fields of a function that may be replaced, by attribute; of those that are found."""

    def probe(a: object = (), *, b: object = ()) -> None: ...

    fields = ("__code__", "__defaults__", "__kwdefaults__")
    words = [read_word(id(probe) + at) for at in range(HEAD, FunctionType.__basicsize__, 8)] if HEAD == 16 else []
    held = {name: id(getattr(probe, name)) for name in fields}
    return {name: HEAD + 8 * words.index(at) for name, at in held.items() if words.count(at) == 1}


@cache
def class_version_offset() -> int | None:
    """The offset of a class's `tp_version_tag`: a number that is 0 when an attribute of it was set, then another."""

    class Probe:
        pass

    def words() -> list[int]:
        return [read_word(id(Probe) + at) for at in range(HEAD, 480, 8)] if HEAD == 16 else []

    getattr(Probe, "any", None)
    before = words()
    type.__setattr__(Probe, "any", 1)
    forgotten = words()
    getattr(Probe, "any", None)
    found = [
        HEAD + 8 * i
        for i, (a, b, c) in enumerate(zip(before, forgotten, words(), strict=True))
        if a and not b and c not in (0, a) and max(a, c) < 2**32
    ]
    return found[0] if len(found) == 1 else None


def _tensors_agree(found: SlotOffsets) -> bool:
    tensor, other = Tensor(np.zeros(2), requires_grad=True), Tensor(np.zeros(2))
    tensor._grad = other
    leaf = tensor.node
    return (
        read_word(id(tensor) + TYPE) == id(Tensor)
        and read_word(id(tensor) + found.array) == id(tensor.array)
        and read_word(id(tensor) + found.node) == id(leaf)
        and read_word(id(other) + found.node) == id(None) == read_word(id(leaf) + found.hooks)
        and read_word(id(tensor) + found.grad) == id(other)
        and read_word(id(tensor) + found.storage) == id(tensor.storage_)
    )


def _containers_agree() -> bool:
    a, b = object(), object()
    things, pair, table = [a, b], (a, b), {a: b}

    def inner() -> Any:
        return a

    cell = (inner.__closure__ or ())[0]
    method = MethodType(inner, a)
    return (
        read_word(id(things) + LENGTH) == read_word(id(pair) + LENGTH) == 2
        and read_word(id(table) + LENGTH) == 1
        and read_word(read_word(id(things) + LIST) + 8) == id(b) == read_word(id(pair) + ITEMS + 8)
        and read_word(id(cell) + CELL) == id(a)
        and read_word(id(method) + FUNCTION) == id(inner)
    )


def _arrays_agree() -> bool:
    probe = np.zeros((3, 5), np.float32)
    seen = probe[:, ::2]
    fixed = np.broadcast_to(probe, probe.shape)  # may not be written
    askew = np.zeros(9, np.uint8)[1:].view(np.float64).reshape(1, 1)
    return all(
        read_word(id(x) + RANK) & 0xFFFF_FFFF == 2
        and [read_word(read_word(id(x) + SIZES) + 8 * i) for i in range(2)] == [*x.shape]
        and [read_word(read_word(id(x) + STRIDES) + 8 * i) for i in range(2)] == [*x.strides]
        and read_word(id(x) + DTYPE) == id(x.dtype)
        and bool(read_word(id(x) + FLAGS) & CONTIGUOUS) is x.flags.c_contiguous
        and bool(read_word(id(x) + FLAGS) & ALIGNED) is x.flags.aligned
        and bool(read_word(id(x) + FLAGS) & WRITEABLE) is x.flags.writeable
        for x in (probe, seen, fixed, askew)
    )
