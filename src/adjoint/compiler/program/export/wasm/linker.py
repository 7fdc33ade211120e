"""The linker from one relocatable WebAssembly object to a module that runs: memory laid out, numbers put in place.

The memory holds the stack, which grows down to address 0 so that its overflow is an error, then the object's data, then
the step's memory. Numbers are written in as few bytes as they need: jumps in WebAssembly name blocks, so code may move.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from adjoint.compiler.program.export.wasm.object_file import (
    CODE,
    DATA,
    DATA_SYMBOL,
    FUNCTION,
    FUNCTION_SYMBOL,
    GLOBAL_IMPORT,
    IMPORT,
    TYPE,
    Relocation,
    WasmObject,
    WasmReader,
)

PAGE_BYTES, STACK_BYTES, MAX_MEMORY_BYTES = 65536, 1 << 18, 1 << 32
MEMORY, GLOBAL, EXPORT, DATA_COUNT = 5, 6, 7, 12  # sections of the module
I32, END, I32_CONST, MUTABLE = 0x7F, 0x0B, 0x41, 1
# Relocations: their names begin with R_WASM_.
FUNCTION_INDEX_LEB, MEMORY_ADDR_LEB, MEMORY_ADDR_SLEB, MEMORY_ADDR_I32 = 0, 3, 4, 5
TYPE_INDEX_LEB, GLOBAL_INDEX_LEB = 6, 7
PADDED_BYTES = 5  # of a number that the object leaves room for


class LinkedModule(NamedTuple):
    """A module: its bytes, the functions that it imports, where the step's memory begins, the pages of all memory."""

    content: bytes
    imports: tuple[str, ...]
    base: int
    pages: int


def link_module(object_bytes: bytes, exported: dict[str, str], memory_symbol: str, memory_size: int) -> LinkedModule:
    """Link an object to a module. `exported`: the functions to export, and under which names.

    `memory_symbol` is put behind all data of the object, with `memory_size` bytes.

    Raises: ValueError for what a step's object has no need of: tables of functions, threads, other symbols of data.
        MemoryError where 32 bits cannot address the memory.
    """
    linked = _Layout(WasmObject(object_bytes), memory_symbol)
    end = linked.base + memory_size
    if end > MAX_MEMORY_BYTES:
        raise MemoryError(f"the step needs {end:,} bytes of memory, and WebAssembly has {MAX_MEMORY_BYTES:,} at most")
    pages = -(-end // PAGE_BYTES)
    functions = {s.name: s.number for s in linked.object.symbols if s.kind == FUNCTION_SYMBOL}
    imports = linked.object.imported_functions()
    exports = [encode_name(name) + b"\0" + encode(functions[symbol]) for symbol, name in exported.items()]
    sections = [
        (TYPE, linked.object.sections[TYPE]),
        (IMPORT, encode_vector(encode_name("env") + encode_name(i.name) + b"\0" + encode(i.type) for i in imports)),
        (FUNCTION, linked.object.sections[FUNCTION]),
        (MEMORY, encode_vector([b"\0" + encode(pages)])),
        (GLOBAL, encode_vector([bytes([I32, MUTABLE, I32_CONST]) + encode_signed(STACK_BYTES) + bytes([END])])),
        (EXPORT, encode_vector([encode_name("memory") + bytes([2, 0]), *exports])),
        (DATA_COUNT, encode(len(linked.object.segments))),
        (CODE, linked.code()),
        (DATA, linked.data()),
    ]
    content = b"".join(bytes([kind]) + encode(len(body)) + body for kind, body in sections)
    return LinkedModule(b"\0asm\1\0\0\0" + content, tuple(i.name for i in imports), linked.base, pages)


class _Layout:
    """The places of an object's data, and its bytes with these numbers in them."""

    def __init__(self, whole: WasmObject, memory_symbol: str) -> None:
        self.object, self.memory_symbol = whole, memory_symbol
        for each in whole.imports:
            if each.kind == GLOBAL_IMPORT and each.name != "__stack_pointer":
                raise ValueError(f"the object needs a global that nothing defines: {each.name}")
        end = STACK_BYTES
        self.starts: list[int] = []
        for segment in whole.segments:
            end = -(-end // segment.alignment) * segment.alignment
            self.starts.append(end)
            end += len(segment.content)
        self.base = -(-end // 64) * 64

    def code(self) -> bytes:
        """The code section: each function's size, then its body."""
        body, relocations = self.object.sections[CODE], iter(self._relocations(CODE))
        reader, functions = WasmReader(body), list[bytes]()
        upcoming = next(relocations, None)
        for _ in range(reader.number()):
            size = reader.number()
            parts, at, end = list[bytes](), reader.at, reader.at + size
            while upcoming is not None and upcoming.offset < end:
                number, length = self._resolve(upcoming)
                parts += body[at : upcoming.offset], number
                at, upcoming = upcoming.offset + length, next(relocations, None)
            functions.append(b"".join([*parts, body[at:end]]))
            reader.at = end
        return encode_vector(encode(len(function)) + function for function in functions)

    def data(self) -> bytes:
        """The data section: each segment's address and bytes."""
        content = bytearray(self.object.sections.get(DATA, b""))
        for each in self._relocations(DATA):
            number, length = self._resolve(each)
            content[each.offset : each.offset + length] = number
        segments = []
        for start, segment in zip(self.starts, self.object.segments, strict=True):
            bytes_now = bytes(content[segment.place : segment.place + len(segment.content)])
            place = bytes([0, I32_CONST]) + encode_signed(start) + bytes([END])
            segments.append(place + encode(len(bytes_now)) + bytes_now)
        return encode_vector(segments)

    def _relocations(self, section: int) -> list[Relocation]:
        return sorted(self.object.relocations.get(section, []), key=lambda each: each.offset)

    def _resolve(self, each: Relocation) -> tuple[bytes, int]:
        """The bytes to put into the place of a relocation, and how many they replace."""
        if each.kind == TYPE_INDEX_LEB:
            return encode(each.symbol), PADDED_BYTES
        if each.kind in (FUNCTION_INDEX_LEB, GLOBAL_INDEX_LEB):
            return encode(self.object.symbols[each.symbol].number), PADDED_BYTES
        if each.kind not in (MEMORY_ADDR_LEB, MEMORY_ADDR_SLEB, MEMORY_ADDR_I32):
            raise ValueError(f"the object has a relocation of kind {each.kind}, which no step needs")
        address = self._address(each.symbol) + each.addend
        if each.kind == MEMORY_ADDR_I32:
            return struct.pack("<I", address), 4
        return encode_signed(address) if each.kind == MEMORY_ADDR_SLEB else encode(address), PADDED_BYTES

    def _address(self, number: int) -> int:
        symbol = self.object.symbols[number]
        if symbol.kind == DATA_SYMBOL and symbol.number >= 0:
            return self.starts[symbol.number] + symbol.offset
        if symbol.kind == DATA_SYMBOL and symbol.name == self.memory_symbol:
            return self.base
        raise ValueError(f"the object needs data that nothing defines: {symbol.name}")


def encode(number: int) -> bytes:
    """An unsigned LEB128 number, in as few bytes as it needs."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def encode_signed(number: int) -> bytes:
    """A signed LEB128 number of 32 bits; an address from 2**31 on is a negative one."""
    number -= (number >> 31 & 1) << 32
    out = bytearray()
    while not -64 <= number < 64:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number & 0x7F])


def encode_name(text: str) -> bytes:
    """A name: its length, then its bytes."""
    return encode(len(text.encode())) + text.encode()


def encode_vector(items: Iterable[bytes]) -> bytes:
    """A vector: the count of items, then each."""
    listed = [*items]
    return encode(len(listed)) + b"".join(listed)
