"""Objects linked and made callable without LLVM: what its code generator makes of kernels for x86-64 Linux is simple.

Sections of code and constants, addresses in full, and next to nothing else. Whatever is not known here is left to
LLVM's own loader. Layouts and relocations: System V ABI, AMD64 supplement, and the generic ELF chapters.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

SHT_PROGBITS, SHT_RELA, SHT_SYMTAB, SHT_X86_64_UNWIND = 1, 4, 2, 0x70000001  # kinds of sections
SHF_WRITE, SHF_ALLOC, SHF_TLS = 0x1, 0x2, 0x400  # flags of sections
R_X86_64_64, R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_PC64 = 1, 2, 4, 24  # R_X86_64_64, _PC32, _PLT32, _PC64
SHN_LORESERVE = 0xFF00  # numbers of sections from which on they are none
SUPPORTED_HOST = sys.platform == "linux" and os.uname().machine == "x86_64" and sys.maxsize > 2**32


class UnsupportedObject(Exception):
    """Something that only LLVM's loader knows."""


class Section(NamedTuple):
    """A row of an object's table of sections."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class Symbol(NamedTuple):
    """A row of an object's table of symbols. `section`: 0 if it is another object's."""

    name: str
    is_local: bool
    section: int
    value: int


class ObjectFile:
    """A relocatable object file taken apart."""

    def __init__(self, data: bytes) -> None:
        headers, size, count = struct.unpack_from("<40xQ10xHH", data)
        self.data = data
        rows = (struct.unpack_from("<IIQQQQIIQQ", data, headers + i * size) for i in range(count))
        self.sections = [Section._make(row) for row in rows]
        self.symbols: list[Symbol] = []
        for section in self.sections:
            if section.kind == SHT_SYMTAB:
                names = self.sections[section.link].offset
                self.symbols = [self._symbol(at, names) for at in _rows(section)]

    def _symbol(self, at: int, names: int) -> Symbol:
        name, info, section, value = struct.unpack_from("<IBxHQ", self.data, at)
        start = names + name
        return Symbol(self.data[start : self.data.index(b"\0", start)].decode(), info < 16, section, value)

    def find_loaded_sections(self) -> list[int]:
        """The sections that take part in the program; Unknown if one of them is not just read."""
        found = [i for i, section in enumerate(self.sections) if section.flags & SHF_ALLOC and section.size]
        for i in found:
            if self.sections[i].flags & (SHF_WRITE | SHF_TLS) or self.sections[i].kind not in (
                SHT_PROGBITS,
                SHT_X86_64_UNWIND,
            ):
                raise UnsupportedObject("a section of data")
        return found


class Image:
    """Objects in executable memory."""

    def __init__(self, memory: mmap.mmap, functions: dict[str, int], frames: list[int]) -> None:
        self._memory, self._functions, self._frames = memory, functions, frames

    def get_function_address(self, name: str) -> int:
        """Return the address of a function; 0 if there is none of this name."""
        return self._functions.get(name, 0)

    def close(self) -> None:
        """Give the memory back."""
        if unwinder := _unwinder() if self._frames else None:
            for address in self._frames:
                unwinder[1](ctypes.c_void_p(address))
        self._functions, self._frames = {}, []
        self._memory.close()


def is_object(data: bytes) -> bool:
    """True for ELF of 64 bits, little endian."""
    return data[:6] == b"\x7fELF\x02\x01"


def link(objects: Iterable[bytes]) -> Image | None:
    """Place objects in memory, and tell them where they and the process's functions are; None if LLVM must do it."""
    try:
        return _place_and_relocate([_parse_object(data) for data in objects])
    except (UnsupportedObject, OSError, struct.error):
        return None


def _parse_object(data: bytes) -> ObjectFile:
    if not SUPPORTED_HOST or not is_object(data) or struct.unpack_from("<HH", data, 16) != (1, 62):
        raise UnsupportedObject("no relocatable object for x86-64, or not made here")
    return ObjectFile(data)


def _place_and_relocate(objects: list[ObjectFile]) -> Image:
    places: list[dict[int, int]] = []  # of the sections of each object, in the memory
    size, frames = 0, []
    for each in objects:
        places.append({})
        for i in each.find_loaded_sections():
            section = each.sections[i]
            size = -(-size // max(section.alignment, 1)) * max(section.alignment, 1)
            places[-1][i] = size
            size += section.size
            if section.kind == SHT_X86_64_UNWIND:
                frames.append(places[-1][i])
                size += 4  # a length of 0 ends the list
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    functions: dict[str, int] = {}
    for each, place in zip(objects, places, strict=True):
        for i, at in place.items():
            section = each.sections[i]
            memory[at : at + section.size] = each.data[section.offset : section.offset + section.size]
        for symbol in each.symbols:
            if symbol.section in place and not symbol.is_local:
                functions.setdefault(symbol.name, start + place[symbol.section] + symbol.value)
    for each, place in zip(objects, places, strict=True):
        _relocate(each, place, memory, start, functions)
    if _protect()(start, len(memory), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError("no memory may be executed")
    unwinder = _unwinder() if frames else None
    if unwinder:
        for at in frames:
            unwinder[0](ctypes.c_void_p(start + at))
    return Image(memory, functions, [start + at for at in frames] if unwinder else [])


def _relocate(
    each: ObjectFile, place: dict[int, int], memory: mmap.mmap, start: int, functions: dict[str, int]
) -> None:
    """Write addresses where an object wants them."""
    for section in each.sections:
        if section.info not in place or section.kind != SHT_RELA:
            continue
        for row in _rows(section):
            offset, kind, number, addend = struct.unpack_from("<QIIq", each.data, row)
            symbol = each.symbols[number]
            if symbol.section in place:
                address = start + place[symbol.section] + symbol.value
            elif symbol.section == 0 and symbol.name:
                address = functions.get(symbol.name) or _address(symbol.name)
            else:
                raise UnsupportedObject("a symbol of no section")
            at = place[section.info] + offset
            if kind == R_X86_64_64:
                struct.pack_into("<Q", memory, at, address + addend)
            elif kind == R_X86_64_PC64:
                struct.pack_into("<q", memory, at, address + addend - start - at)
            elif kind in (R_X86_64_PC32, R_X86_64_PLT32):
                struct.pack_into("<i", memory, at, address + addend - start - at)
            else:
                raise UnsupportedObject(f"relocation {kind}")


def _rows(section: Section) -> range:
    """Return the offsets of the rows of a table of symbols or relocations."""
    return range(section.offset, section.offset + section.size, 24)


@cache
def _address(name: str) -> int:
    """Return the address of a function of the process, or of C's mathematics."""
    for library in (None, "libm.so.6"):  # glibc's name
        try:
            return ctypes.cast(ctypes.CDLL(library)[name], ctypes.c_void_p).value or 0
        except (OSError, AttributeError):
            pass
    raise UnsupportedObject(f"the function {name}")


@cache
def _protect() -> Any:
    """Return the function that says what may be done with memory."""
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return protect


@cache
def _unwinder() -> tuple[Any, Any] | None:
    """Return the functions that register and forget unwind tables, which a thread that ends walks."""
    for name in (None, "libgcc_s.so.1"):
        try:
            library = ctypes.CDLL(name)
            return library["__register_frame"], library["__deregister_frame"]
        except (OSError, AttributeError):
            pass
    return None
