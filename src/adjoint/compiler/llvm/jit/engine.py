"""Object code made callable in this process, and given back when its owner lets go of it."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from adjoint.compiler.llvm.jit import elf_loader, target
from adjoint.compiler.llvm.jit.object_symbols import find_undefined_symbols
from adjoint.compiler.llvm.jit.target import binding

# Where C's mathematics are; of Windows also what code with large frames calls. Other systems have them in libm.
MATHEMATICS_LIBRARIES = {"darwin": ("/usr/lib/libSystem.B.dylib",), "win32": ("ucrtbase.dll", "ntdll.dll")}


class Engine:
    """Loaded kernels. Their addresses are valid for as long as this object lives."""

    def __init__(self, code: Any) -> None:
        _open[id(self)] = code

    def address(self, symbol: str) -> int:
        """Return the address of a kernel; KeyError if no object has it."""
        address = int(_open[id(self)].get_function_address(symbol))
        if not address:
            raise KeyError(f"no kernel named {symbol} was loaded")
        return address

    def keep(self) -> None:
        """Have the code stay until the process ends, whatever Python's shutdown takes apart."""
        for held in (self, _open[id(self)]):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Python's shutdown may have taken the names of this module away; the process gives all memory back.
        if is_finalizing():
            return
        code = _open.pop(id(self), None)
        if code is not None:
            code.close()


# An engine of LLVM's that dies in a cycle would be disposed in any order, perhaps after the context it needs: here no
# cycle reaches it.
_open: dict[int, Any] = {}


def load(objects: Iterable[bytes]) -> Engine:
    """Link objects to the process and to each other; LookupError names functions that neither has."""
    objects = list(objects)
    return Engine(elf_loader.link(objects) or _link_with_llvm(objects))


def _link_with_llvm(objects: list[bytes]) -> Any:
    """The same by LLVM, for whatever machine."""
    # LLVM ends the process over a symbol it cannot find, so they are looked up first.
    missing = sorted(symbol for symbol in find_undefined_symbols(objects) if not _has_symbol(symbol))
    if missing:
        raise LookupError(f"compiled code needs functions that this process does not have: {', '.join(missing)}")
    # No lock: llvmlite takes one around each call, and no two of these share an engine.
    engine = target.host().new_engine()
    for data in objects:
        engine.add_object_file(binding().ObjectFileRef.from_data(data))
    engine.finalize_object()
    return engine


def _has_symbol(symbol: str) -> bool:
    if binding().address_of_symbol(symbol):
        return True
    _load_mathematics()
    return bool(binding().address_of_symbol(symbol))


@cache
def _load_mathematics() -> None:
    """Load C's mathematics: an interpreter that is linked without it has it somewhere still."""
    # By name: to ask `ctypes.util` for it starts other programs.
    for library in MATHEMATICS_LIBRARIES.get(sys.platform, ("libm.so.6", "libm.so", "libc.so")):
        try:
            binding().load_library_permanently(library)
        except RuntimeError:
            continue
        return
