"""Functions that object files use and do not define: of ELF, of Mach-O (macOS) and of COFF (Windows).

LLVM ends the process over a function that it cannot find, so these are looked up first. Layouts: System V ABI, Apple's
`mach-o/loader.h` and `mach-o/nlist.h`, and Microsoft's PE format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from adjoint.compiler.llvm.jit import elf_loader

MACH_O = b"\xcf\xfa\xed\xfe"  # of 64 bits, little endian
LC_SYMTAB = 2
N_TYPE, N_EXT, N_STAB = 0x0E, 0x01, 0xE0  # of a symbol's type: whether it is defined, is others' too, is for a debugger
COFF_MACHINES = (0x8664, 0xAA64, 0x14C)  # x86-64, arm64, x86
COFF_SYMBOL_BYTES = 18
EXTERNAL = 2  # storage class of COFF
GLOBAL_OFFSET_TABLE = "_GLOBAL_OFFSET_TABLE_"


def find_undefined_symbols(objects: Iterable[bytes]) -> set[str]:
    """Return the names, as C has them, that objects use and none of them defines; other formats are not read."""
    used, defined = set[str](), set[str]()
    for data in objects:
        for name, is_defined in _read_symbols(data):
            (defined if is_defined else used).add(name)
    return used - defined - {"", GLOBAL_OFFSET_TABLE}


def _read_symbols(data: bytes) -> Iterator[tuple[str, bool]]:
    """Yield the names of an object and whether it defines them."""
    if elf_loader.is_object(data):
        yield from ((symbol.name, symbol.section != 0) for symbol in elf_loader.ObjectFile(data).symbols)
    elif data[:4] == MACH_O:
        yield from _read_mach_o(data)
    elif len(data) >= 20 and struct.unpack_from("<H", data)[0] in COFF_MACHINES:
        yield from _read_coff(data)


def _read_mach_o(data: bytes) -> Iterator[tuple[str, bool]]:
    (commands,) = struct.unpack_from("<16xI", data)
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, at)
        if command == LC_SYMTAB:
            symbols, count, names, _ = struct.unpack_from("<IIII", data, at + 8)
            for i in range(count):
                name, kind, _, _, value = struct.unpack_from("<IBBHQ", data, symbols + 16 * i)
                if kind & N_EXT and not kind & N_STAB:
                    # A common symbol is undefined with a size. The assembler's names begin with an underscore.
                    yield _read_name(data, names + name).removeprefix("_"), bool(kind & N_TYPE or value)
        at += size


def _read_coff(data: bytes) -> Iterator[tuple[str, bool]]:
    symbols, count = struct.unpack_from("<8xII", data)
    names, i = symbols + COFF_SYMBOL_BYTES * count, 0
    while i < count:
        at = symbols + COFF_SYMBOL_BYTES * i
        name, value, section, _, storage, more = struct.unpack_from("<8sIhHBB", data, at)
        if storage == EXTERNAL:
            is_short = name[:4] != b"\0\0\0\0"
            text = name.rstrip(b"\0").decode() if is_short else _read_name(data, names + struct.unpack("<4xI", name)[0])
            yield text, bool(section or value)
        i += 1 + more


def _read_name(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
