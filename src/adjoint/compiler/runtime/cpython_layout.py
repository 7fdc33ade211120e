"""Where CPython and NumPy keep what compiled code looks at, found out on the interpreter that runs it."""

from __future__ import annotations

import ctypes
import sys
import weakref
from functools import cache
from types import MethodType
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
CONTIGUOUS = 1  # the bit of an ndarray's flags


class Slots(NamedTuple):
    """Offsets of the slots of tensors, and of the hooks of their leaves."""

    array: int
    node: int
    grad: int
    hooks: int


class Marks(NamedTuple):
    """Offsets of the slots that tell of writes: of `Write` objects the first three, of a `Storage` the last."""

    order: int
    place: int
    outside: int
    version: int


@cache
def reads_arrays() -> bool:
    """True if an ndarray's data pointer can be read from the object: CPython with its lock, and NumPy as we know it."""
    if sys.implementation.name != "cpython" or "free-threading" in sys.version:
        return False
    probe = np.empty(1)
    return word(id(probe) + DATA) == probe.ctypes.data


@cache
def slots() -> Slots | None:
    """The offsets; None if not all is where it is thought to be."""
    if not reads_arrays() or HEAD != 16 or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    found = Slots(*(offset(*of) for of in ((Tensor, "array"), (Tensor, "node"), (Tensor, "_grad"), (Leaf, "hooks"))))
    return found if _tensors_agree(found) and _containers_agree() and _arrays_agree() else None


@cache
def marks() -> Marks | None:
    """The offsets; None if not all is where it is thought to be."""
    if slots() is None:
        return None
    of = ((Write, "order"), (Write, "place"), (Write, "outside"), (Storage, "version"))
    found = Marks(*(offset(*each) for each in of))
    write = Write(weakref.ref(Tensor(np.zeros(1))))
    storage: Storage[Tensor] = Storage()
    write.order, write.place, write.outside, storage.version = (
        a, b, c, d
    ) = 2**40, Site("", 0, ""), True, 2**41  # fmt: skip
    held = [word(id(write) + at) for at in found[:3]] + [word(id(storage) + found.version)]
    return found if held == [*map(id, (a, b, c, d))] else None


def word(address: int) -> int:
    """The 64 bits at an address."""
    return ctypes.c_uint64.from_address(address).value


def offset(kind: type, name: str) -> int:
    """Where objects of the type have a slot: its descriptor leads to the slot's description, the third word of it."""
    described = word(id(kind.__dict__[name]) + HEAD + 24)
    return word(described + 16) & 0xFFFF_FFFF


def _tensors_agree(found: Slots) -> bool:
    tensor, other = Tensor(np.zeros(2), requires_grad=True), Tensor(np.zeros(2))
    tensor._grad = other
    leaf = tensor.node
    return (
        word(id(tensor) + TYPE) == id(Tensor)
        and word(id(tensor) + found.array) == id(tensor.array)
        and word(id(tensor) + found.node) == id(leaf)
        and word(id(other) + found.node) == id(None) == word(id(leaf) + found.hooks)
        and word(id(tensor) + found.grad) == id(other)
    )


def _containers_agree() -> bool:
    a, b = object(), object()
    things, pair, table = [a, b], (a, b), {a: b}

    def inner() -> Any:
        return a

    cell = (inner.__closure__ or ())[0]
    method = MethodType(inner, a)
    return (
        word(id(things) + LENGTH) == word(id(pair) + LENGTH) == 2
        and word(id(table) + LENGTH) == 1
        and word(word(id(things) + LIST) + 8) == id(b) == word(id(pair) + ITEMS + 8)
        and word(id(cell) + CELL) == id(a)
        and word(id(method) + FUNCTION) == id(inner)
    )


def _arrays_agree() -> bool:
    probe = np.zeros((3, 5), np.float32)
    seen = probe[:, ::2]
    return all(
        word(id(x) + RANK) & 0xFFFF_FFFF == 2
        and [word(word(id(x) + SIZES) + 8 * i) for i in range(2)] == [*x.shape]
        and [word(word(id(x) + STRIDES) + 8 * i) for i in range(2)] == [*x.strides]
        and word(id(x) + DTYPE) == id(x.dtype)
        and bool(word(id(x) + FLAGS) & CONTIGUOUS) is x.flags.c_contiguous
        for x in (probe, seen)
    )
