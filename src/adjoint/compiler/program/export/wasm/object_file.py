"""Relocatable WebAssembly objects, as LLVM writes them: sections, symbols, relocations.

Source: WebAssembly core specification, "Binary Format"; tool-conventions, "Linking.md".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

CUSTOM, TYPE, IMPORT, FUNCTION, CODE, DATA = 0, 1, 2, 3, 10, 11  # sections
FUNCTION_IMPORT, TABLE_IMPORT, MEMORY_IMPORT, GLOBAL_IMPORT = range(4)
SEGMENT_INFO, SYMBOL_TABLE = 5, 8  # subsections of "linking"
FUNCTION_SYMBOL, DATA_SYMBOL, GLOBAL_SYMBOL, SECTION_SYMBOL, _, TABLE_SYMBOL = range(6)
UNDEFINED, EXPLICIT_NAME = 0x10, 0x40  # flags of symbols
RELOCATIONS_WITH_ADDEND = frozenset({3, 4, 5, 8, 9, 11, 14, 15, 16, 17, 21, 22, 23})
Item = TypeVar("Item")


class WasmImport(NamedTuple):
    """Something that an object takes from outside; of a function, `type` is the number of its type."""

    name: str
    kind: int
    type: int


class WasmSymbol(NamedTuple):
    """A symbol: of a function or global its `number`, of data that of the segment, and the `offset` there.

    The number is -1 for data that are not defined here.
    """

    kind: int
    name: str
    number: int
    offset: int = 0


class Relocation(NamedTuple):
    """A place in a section's bytes, from the section's first on, that a symbol's number is to be put into."""

    kind: int
    offset: int
    symbol: int
    addend: int


class DataSegment(NamedTuple):
    """Bytes of the memory; `place` is where they are in the section."""

    alignment: int
    content: bytes
    place: int


class WasmReader:
    """Reads numbers and names from bytes, one after the other."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        """The next byte."""
        self.at += 1
        return self.data[self.at - 1]

    def number(self, signed: bool = False) -> int:
        """The next LEB128 number."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if signed and byte & 0x40 else value

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        self.at += count
        return self.data[self.at - count : self.at]

    def name(self) -> str:
        """The next name."""
        return self.take(self.number()).decode()

    def items(self, read: Callable[[WasmReader], Item]) -> list[Item]:
        """The next vector, each item of which `read` reads."""
        return [read(self) for _ in range(self.number())]

    def relocation(self) -> Relocation:
        """The next relocation."""
        kind, offset, symbol = self.byte(), self.number(), self.number()
        return Relocation(kind, offset, symbol, self.number(signed=True) if kind in RELOCATIONS_WITH_ADDEND else 0)


class WasmObject:
    """One object: the bytes of its sections, its imports, functions, data, symbols and relocations.

    Raises: ValueError for bytes that are no such object.
    """

    def __init__(self, data: bytes) -> None:
        if data[:8] != b"\0asm\1\0\0\0":
            raise ValueError("no WebAssembly object, version 1")
        self.sections: dict[int, bytes] = {}
        self.relocations: dict[int, list[Relocation]] = {}  # by section
        self.symbols: list[WasmSymbol] = []
        self._alignments: list[int] = []
        order: list[int] = []
        whole = WasmReader(data, 8)
        while whole.at < len(data):
            kind, content = whole.byte(), whole.take(whole.number())
            order.append(kind)
            if kind != CUSTOM:
                self.sections[kind] = content
                continue
            reader = WasmReader(content)
            name = reader.name()
            if name == "linking":
                self._linking = content, reader.at
            elif name.startswith("reloc."):
                section = order[reader.number()]
                self.relocations[section] = reader.items(WasmReader.relocation)
        self.imports = self._items(IMPORT, _import)
        self.function_types = self._items(FUNCTION, WasmReader.number)
        self._read_linking(*self._linking)
        self.segments = self._segments()

    def _items(self, section: int, read: Callable[[WasmReader], Item]) -> list[Item]:
        return WasmReader(self.sections.get(section, b"\0")).items(read)

    def imported_functions(self) -> list[WasmImport]:
        """The functions that the object takes from outside, by their indices."""
        return [each for each in self.imports if each.kind == FUNCTION_IMPORT]

    def _read_linking(self, content: bytes, at: int) -> None:
        reader = WasmReader(content, at)
        if reader.number() != 2:
            raise ValueError("a WebAssembly object whose linking metadata are not of version 2")
        while reader.at < len(content):
            kind, size = reader.byte(), reader.number()
            end = reader.at + size
            if kind == SEGMENT_INFO:
                self._alignments = reader.items(_alignment)
            elif kind == SYMBOL_TABLE:
                self.symbols = reader.items(self._symbol)
            reader.at = end

    def _symbol(self, reader: WasmReader) -> WasmSymbol:
        kind, flags = reader.byte(), reader.number()
        if kind == SECTION_SYMBOL:
            return WasmSymbol(kind, "", reader.number())
        if kind == DATA_SYMBOL:
            name = reader.name()
            if flags & UNDEFINED:
                return WasmSymbol(kind, name, -1)
            segment, offset, _ = reader.number(), reader.number(), reader.number()
            return WasmSymbol(kind, name, segment, offset)
        index = reader.number()
        if not flags & UNDEFINED or flags & EXPLICIT_NAME:
            return WasmSymbol(kind, reader.name(), index)
        imported = {FUNCTION_SYMBOL: FUNCTION_IMPORT, GLOBAL_SYMBOL: GLOBAL_IMPORT, TABLE_SYMBOL: TABLE_IMPORT}[kind]
        return WasmSymbol(kind, [each for each in self.imports if each.kind == imported][index].name, index)

    def _segments(self) -> list[DataSegment]:
        reader = WasmReader(self.sections.get(DATA, b"\0"))
        found = []
        for i in range(reader.number()):
            reader.take(2)  # an active segment of memory 0, at an address that the linker decides: i32.const n, end
            reader.number(signed=True)
            reader.take(1)
            size = reader.number()
            found.append(DataSegment(self._alignments[i], reader.take(size), reader.at - size))
        return found


def _alignment(reader: WasmReader) -> int:
    """The alignment of a segment, whose name and flags are passed over."""
    reader.name()
    exponent, _ = reader.number(), reader.number()
    return 1 << exponent


def _import(reader: WasmReader) -> WasmImport:
    reader.name()
    name, kind = reader.name(), reader.byte()
    if kind == FUNCTION_IMPORT:
        return WasmImport(name, kind, reader.number())
    if kind == GLOBAL_IMPORT:
        return WasmImport(name, kind, reader.take(2)[0])
    if kind == TABLE_IMPORT:
        reader.byte()
    if reader.number() & 1:  # limits: the least, and the most
        reader.number()
    return WasmImport(name, kind, reader.number())
