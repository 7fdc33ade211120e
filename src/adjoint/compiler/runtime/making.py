"""`core.making` in native code: what an op call does after its values are computed, without Python between its steps.

A recorded call of a small op spends most of its time there: a tensor, a node and its dozen slots, a walk to the user's
frame. Everything goes through CPython's C interface but the slots themselves, whose offsets `objects` finds out.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from adjoint.compiler.cache import compile_kernel
from adjoint.compiler.llvm.engine import load
from adjoint.compiler.llvm.target import QUICK
from adjoint.compiler.runtime import objects
from adjoint.compiler.runtime.entry import METH_FASTCALL, MethodDef
from adjoint.compiler.runtime.making_code import FUNCTIONS, KNOWN, NAMES, OBJECT_NAMES, text
from adjoint.core import making, site, storage
from adjoint.core.node import Node, tick
from adjoint.core.storage import Storage, View
from adjoint.core.tensor import Tensor

TP_NEW = 65  # of a type's slots, in CPython's stable interface
OBJECTS: dict[str, Any] = {
    "None": None, "True": True, "Tensor": Tensor, "Node": Node, "View": View, "empty": (), "tick": tick,
    "inside": site.inside, "co_filename": "co_filename", "shape": "shape", "dtype": "dtype",
    "NORMALLY": storage.NORMALLY, "prune": Storage.prune,
}  # fmt: skip


def install() -> None:
    """Let native code make what op calls give from here on, where Python is as known."""
    functions = _functions()
    if functions is not None:
        making.make.recorded, making.make.note, making.make.seen = functions


@cache
def _functions() -> tuple[Callable[..., Any], ...] | None:
    if objects.slots() is None:
        return None
    engine = load([compile_kernel(QUICK + text())])
    engine.keep()
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    names = ("recorded", "note", "seen")
    _definitions.extend(
        MethodDef(name.encode(), engine.address(f"adjoint_{name}"), METH_FASTCALL, None) for name in names
    )
    return tuple(make(ctypes.addressof(definition), _words(), None) for definition in _definitions)


_definitions: list[MethodDef] = []  # which the functions point to, and this table
_table = (ctypes.c_void_p * KNOWN)()


@cache
def _words() -> bytes:
    api = ctypes.pythonapi
    functions = [ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0 for name in FUNCTIONS]
    slot = api.PyType_GetSlot
    slot.restype, slot.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    found = [OBJECTS[name] for name in OBJECT_NAMES]
    for each in (*found, _definitions, _table):
        api.Py_IncRef(ctypes.py_object(each))  # ops may be called until the interpreter is gone
    addresses = (*functions, slot(object, TP_NEW), ctypes.addressof(_table), *map(id, found))
    return struct.pack(f"{len(NAMES)}q", *addresses)
