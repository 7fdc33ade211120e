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

from adjoint.compiler.cache.object_cache import compile_kernel
from adjoint.compiler.llvm.jit.engine import load
from adjoint.compiler.llvm.jit.target import FAST_COMPILE_MARK
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.native_entry import METH_FASTCALL, MethodDef
from adjoint.compiler.runtime.native_recorder_ir import FUNCTIONS, LIBRARY_CODE_SLOTS, OBJECT_NAMES, TABLE_NAMES, text
from adjoint.core.graph import source_location
from adjoint.core.graph.node import Node, next_sequence_nr
from adjoint.core.op import recorder
from adjoint.core.tensor import storage
from adjoint.core.tensor.storage import Storage, View
from adjoint.core.tensor.tensor import Tensor

TP_NEW = 65  # of a type's slots, in CPython's stable interface
OBJECTS: dict[str, Any] = {
    "None": None, "True": True, "Tensor": Tensor, "Node": Node, "View": View, "empty": (), "tick": next_sequence_nr,
    "inside": source_location.library_files, "co_filename": "co_filename", "shape": "shape", "dtype": "dtype",
    "NORMALLY": storage.DEFAULT_CREATION, "prune": Storage.prune,
}  # fmt: skip


def install_native_recorder() -> None:
    """Let native code make what op calls give from here on, where Python is as known."""
    functions = _functions()
    if functions is not None:
        recorder.make.recorded, recorder.make.note, recorder.make.seen = functions


@cache
def _functions() -> tuple[Callable[..., Any], ...] | None:
    if cpython_layout.find_slot_offsets() is None:
        return None
    engine = load([compile_kernel(FAST_COMPILE_MARK + text())])
    engine.keep()
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    names = ("recorded", "note", "seen")
    _definitions.extend(
        MethodDef(name.encode(), engine.address(f"adjoint_{name}"), METH_FASTCALL, None) for name in names
    )
    return tuple(make(ctypes.addressof(definition), _words(), None) for definition in _definitions)


_definitions: list[MethodDef] = []  # which the functions point to, and this table
_table = (ctypes.c_void_p * LIBRARY_CODE_SLOTS)()


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
    return struct.pack(f"{len(TABLE_NAMES)}q", *addresses)
