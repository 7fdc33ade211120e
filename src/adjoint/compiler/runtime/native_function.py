"""Native functions that Python calls as its own: compiled on first use, and there until the process ends."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable

from adjoint.compiler.cache.hashing import digest
from adjoint.compiler.cache.object_cache import compile_kernel
from adjoint.compiler.cache.source_fingerprint import source_fingerprint
from adjoint.compiler.kernels.kernel_text import KernelText
from adjoint.compiler.llvm.jit.engine import Engine, load
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.runtime import cpython_layout
from adjoint.core.runtime.fork_safety import CachedProperty
from adjoint.core.typing import Function

METH_FASTCALL = 0x80


class MethodDef(ctypes.Structure):
    """CPython's description of a function in C."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class NativeModule:
    """A module of LLVM assembly, which is written only if an earlier process has not left its object code."""

    def __init__(self, name: str, write: Callable[[], str]) -> None:
        self._name, self._write = name, write
        self._definitions: dict[str, MethodDef] = {}

    @CachedProperty
    def engine(self) -> Engine:
        """The loaded code."""
        layout = (sys.version, cpython_layout.find_slot_offsets(), cpython_layout.find_write_slot_offsets())
        key = digest("\0".join((self._name, source_fingerprint(), host().fingerprint(), repr(layout))))
        engine = load([compile_kernel(KernelText(key, self._write))])
        engine.keep()  # functions of Python's point to it
        return engine

    def function(self, symbol: str, bound: object) -> Function:
        """The METH_FASTCALL function `symbol` as a function for Python, whose `self` is `bound`."""
        definition = self._definitions.get(symbol)
        if definition is None:
            definition = MethodDef(symbol.encode(), self.engine.address(symbol), METH_FASTCALL, None)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))  # functions look at it while they die
            self._definitions[symbol] = definition
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        function: Function = make(ctypes.addressof(definition), bound, None)
        return function


def api_addresses(names: Iterable[str]) -> list[int]:
    """The addresses of functions of CPython's C interface."""
    return [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in names]
