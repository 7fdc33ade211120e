"""Object code made callable in this process, and given back when its owner lets go of it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Iterator
from functools import cache

import llvmlite.binding as llvm

from adjoint.compiler.llvm import target


class Engine:
    """Loaded kernels. Their addresses are valid for as long as this object lives."""

    def __init__(self, engine: llvm.ExecutionEngine) -> None:
        _open[id(self)] = engine

    def address(self, symbol: str) -> int:
        """Where a kernel starts; KeyError if no object has it."""
        address = int(_open[id(self)].get_function_address(symbol))
        if not address:
            raise KeyError(f"no kernel named {symbol} was loaded")
        return address

    def keep(self) -> None:
        """Have the code stay until the process ends, whatever Python's shutdown takes apart."""
        for held in (self, _open[id(self)]):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))

    def __del__(self) -> None:
        engine = _open.pop(id(self), None)
        if engine is not None:
            engine.close()


# An engine that dies in a cycle would be disposed in any order, perhaps after the context it needs: here no cycle
# reaches it.
_open: dict[int, llvm.ExecutionEngine] = {}


def load(objects: Iterable[bytes]) -> Engine:
    """Link objects to the process and to each other; LookupError names functions that neither has."""
    objects = list(objects)
    # LLVM ends the process over a symbol it cannot find, so they are looked up first.
    missing = sorted(symbol for symbol in _undefined(objects) if not _find(symbol))
    if missing:
        raise LookupError(f"compiled code needs functions that this process does not have: {', '.join(missing)}")
    # No lock: llvmlite takes one around each call, and no two of these share an engine.
    engine = target.host().new_engine()
    for data in objects:
        engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    return Engine(engine)


def _find(symbol: str) -> bool:
    if llvm.address_of_symbol(symbol):
        return True
    _load_mathematics()
    return bool(llvm.address_of_symbol(symbol))


@cache
def _load_mathematics() -> None:
    """Load C's mathematics: an interpreter that is linked without it has it somewhere still."""
    try:
        llvm.load_library_permanently("libm.so.6")  # glibc's: to ask for the name takes another process
    except RuntimeError:
        import ctypes.util

        library = ctypes.util.find_library("m")
        if library:
            llvm.load_library_permanently(library)


def _undefined(objects: Iterable[bytes]) -> set[str]:
    """The functions that ELF objects use and none of them defines; other formats are not read."""
    used, defined = set[str](), set[str]()
    for data in objects:
        if data[:6] == b"\x7fELF\x02\x01":
            for name, section in _symbols(data):
                (used if section == 0 else defined).add(name)
    return used - defined - {"", "_GLOBAL_OFFSET_TABLE_"}


def _symbols(data: bytes) -> Iterator[tuple[str, int]]:
    """Names in the symbol table and the section each is in, 0 for none (ELF-64, little endian)."""
    headers, size, count = struct.unpack_from("<40xQ10xHH", data)
    symbol_table = 2
    for i in range(count):
        kind, offset, length, strings = struct.unpack_from("<4xI16xQQI", data, headers + i * size)
        if kind != symbol_table:
            continue
        names = struct.unpack_from("<24xQ", data, headers + strings * size)[0]
        for at in range(offset, offset + length, 24):
            name, section = struct.unpack_from("<I2xH", data, at)
            yield data[names + name : data.index(b"\0", names + name)].decode(), section
