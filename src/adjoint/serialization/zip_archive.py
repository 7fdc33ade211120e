"""ZIP archives of uncompressed records, the container of PyTorch's files: written aligned, read with distrust.

Sources: PKWARE's APPNOTE 6.3 for the format; PyTorch puts every storage at a multiple of 64 bytes.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

import numpy as np

from adjoint.core.typing import Array
from adjoint.serialization.atomic import Chunk

ALIGNMENT = 64
LOCAL_HEADER = struct.Struct("<4s5H3I2H")
DIRECTORY_ENTRY = struct.Struct("<4s6H3I5H2I")
END_RECORD = struct.Struct("<4s4H2IH")
ZIP64_END_RECORD = struct.Struct("<4sQ2H2I4Q")
ZIP64_LOCATOR = struct.Struct("<4sIQI")
ZIP64_SIZE = 0xFFFFFFFF  # what is as large stands in fields of 64 bits
ZIP64_COUNT = 0xFFFF
ENCRYPTED, SIZES_FOLLOW, UTF8 = 1, 8, 0x800


class FileError(pickle.UnpicklingError, RuntimeError, ValueError):
    """A file that is not sound, or holds what is not allowed; the message names the file and what is wrong."""


class _SupportsReadInto(Protocol):
    def readinto(self, buffer: memoryview, /) -> int | None: ...


class Record(NamedTuple):
    """Place of a record's bytes in the file, and their checksum."""

    begin: int
    size: int
    crc: int


# A record of ours, in the folder of the others: the checksum of their names, sizes and checksums
CHECKSUM_RECORD = ".checksum"


class Archive:
    """The records of an open file, from its present position on, by name. FileError for one that is not sound."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.start = file.tell()
        self.size = file.seek(0, os.SEEK_END) - self.start
        self.records = _read_directory(self)
        self.verifies_checksums = any(each.crc for each in self.records.values())  # PyTorch may write none
        for name in self.records:  # each may be sound in itself, but of another file
            if name.endswith(f"/{CHECKSUM_RECORD}") and self.read(name) != checksum_records(self.records):
                raise FileError("records are missing, added or exchanged: they do not have the checksum of the whole")

    def at(self, offset: int, count: int) -> bytes:
        """Return the bytes at a place."""
        self.file.seek(self.start + offset)
        found = self.file.read(count)
        if len(found) < count:
            raise FileError(f"the archive ends within the {count} bytes at {offset}: it is cut short")
        return found

    def read(self, name: str) -> bytes:
        """Return a record's bytes."""
        return bytes(self.read_array(name))

    def read_array(self, name: str, kind: Any = np.uint8, mapped: mmap.mmap | None = None) -> Any:
        """Return a record as (n,) elements of a type: new ones, or views of `mapped`, the memory of the file."""
        record = self.records.get(name)
        if record is None:
            raise FileError(f"the archive has no record {name!r}")
        count, rest = divmod(record.size, np.dtype(kind).itemsize)
        if rest:
            raise FileError(f"record {name!r}: {record.size} bytes are no whole number of elements of type {kind}")
        if mapped is not None and count:
            array = np.frombuffer(mapped, kind, count, self.start + record.begin)
        else:
            array = np.empty(count, kind)
            self.file.seek(self.start + record.begin)
            if not read_into(self.file, array):
                raise FileError(f"the archive ends within the record {name!r}: it is cut short")
        if self.verifies_checksums and zlib.crc32(array.view(np.uint8).data) != record.crc:
            raise FileError(
                f"record {name!r}: its bytes do not have the checksum {record.crc:08x}: the file is damaged"
            )
        return array if array.flags.aligned else array.copy()


def read_into(file: BinaryIO, array: Array) -> bool:
    """Fill a contiguous array with the next bytes of a file; False if the file ends before."""
    rest = array.reshape(-1).view(np.uint8).data
    while rest:
        taken = cast("_SupportsReadInto", file).readinto(rest)
        if not taken:
            return False
        rest = rest[taken:]
    return True


def checksum_records(records: Mapping[str, Record]) -> bytes:
    """Return the checksum of all other records as text; folders, which archive tools add, do not count."""
    lines = [
        f"{name} {record.size} {record.crc:08x}\n"
        for name, record in sorted(records.items())
        if not name.endswith(("/", f"/{CHECKSUM_RECORD}"))
    ]
    return f"{zlib.crc32(''.join(lines).encode()):08x}".encode()


def write_archive(records: Iterable[tuple[str, Chunk]], checksum_name: str = "") -> Iterator[Chunk]:
    """Return the archive as chunks, record by record, aligned to 64 bytes; `checksum_name` adds a last record."""
    offset, entries = 0, []
    written: dict[str, Record] = {}
    for name, data in chain(records, _checksum_record(checksum_name, written)):
        title, size, crc = name.encode(), len(data), zlib.crc32(data)
        written[name] = Record(offset, size, crc)
        wide = struct.pack("<2H2Q", 1, 16, size, size) if size >= ZIP64_SIZE else b""
        gap = -(offset + LOCAL_HEADER.size + len(title) + len(wide) + 4) % ALIGNMENT
        extra = wide + struct.pack("<2sH", b"FB", gap) + b"Z" * gap  # an extra field after which the data are aligned
        sizes = (ZIP64_SIZE, ZIP64_SIZE) if wide else (size, size)
        yield LOCAL_HEADER.pack(b"PK\3\4", 45 if wide else 20, UTF8, 0, 0, 33, crc, *sizes, len(title), len(extra))
        yield title + extra
        yield data
        entries.append((title, size, crc, offset))
        offset += LOCAL_HEADER.size + len(title) + len(extra) + size
    directory = b"".join(_directory_entry(*entry) for entry in entries)
    yield directory
    count, length = len(entries), len(directory)
    if count >= ZIP64_COUNT or offset >= ZIP64_SIZE or length >= ZIP64_SIZE:
        yield ZIP64_END_RECORD.pack(b"PK\6\6", ZIP64_END_RECORD.size - 12, 45, 45, 0, 0, count, count, length, offset)
        yield ZIP64_LOCATOR.pack(b"PK\6\7", 0, offset + length, 1)
    counts = min(count, ZIP64_COUNT), min(count, ZIP64_COUNT)
    yield END_RECORD.pack(b"PK\5\6", 0, 0, *counts, min(length, ZIP64_SIZE), min(offset, ZIP64_SIZE), 0)


def _checksum_record(name: str, written: dict[str, Record]) -> Iterator[tuple[str, Chunk]]:
    """The last record, made when all others are written."""
    if name:
        yield name, checksum_records(written)


def _directory_entry(title: bytes, size: int, crc: int, offset: int) -> bytes:
    large = [value for value in (size, size, offset) if value >= ZIP64_SIZE]
    extra = struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""
    need = 45 if large else 20
    least = min(size, ZIP64_SIZE), min(size, ZIP64_SIZE), len(title), len(extra)
    head = DIRECTORY_ENTRY.pack(b"PK\1\2", need, need, UTF8, 0, 0, 33, crc, *least, 0, 0, 0, 0, min(offset, ZIP64_SIZE))
    return head + title + extra


def _read_directory(archive: Archive) -> dict[str, Record]:
    begin, length, count = _read_end_record(archive)
    if count * DIRECTORY_ENTRY.size > length:
        raise FileError(f"the archive's directory of {length} bytes is too short for the {count} records it announces")
    directory = archive.at(begin, length)
    records, places, at = {}, [], 0
    for _ in range(count):
        if at + DIRECTORY_ENTRY.size > length or directory[at : at + 4] != b"PK\1\2":
            raise FileError("the archive's directory is damaged: an entry does not begin as entries do")
        fields = DIRECTORY_ENTRY.unpack_from(directory, at)
        flags, method, crc, packed, size, *lengths = (*fields[3:5], *fields[7:13])
        title = directory[at + DIRECTORY_ENTRY.size : at + DIRECTORY_ENTRY.size + lengths[0]]
        extra = directory[at + DIRECTORY_ENTRY.size + lengths[0] : at + DIRECTORY_ENTRY.size + lengths[0] + lengths[1]]
        name = _decode_name(title)
        packed, size, offset = _read_zip64_fields(name, extra, [packed, size, fields[16]])
        if name in records:
            raise FileError(f"the archive has the record {name!r} twice")
        if method or packed != size or flags & ENCRYPTED:
            raise FileError(
                f"record {name!r} is compressed or encrypted; PyTorch's files are neither: unzip and zip -0"
            )
        data = _check_local_header(archive, name, title, offset, (crc, size), begin)
        records[name] = Record(data, size, crc)
        places.append((offset, data + size, name))
        at += DIRECTORY_ENTRY.size + sum(lengths)
    if at != length:
        raise FileError(f"the archive's directory has {length - at} bytes more than its entries take")
    places.sort()
    for (_, end, name), (following, _, other) in pairwise(places):
        if end > following:
            raise FileError(f"records {name!r} and {other!r} overlap")
    return records


def _read_end_record(archive: Archive) -> tuple[int, int, int]:
    """Return the place of the directory, its length, and the count of its entries."""
    tail = archive.at(
        max(archive.size - END_RECORD.size - ZIP64_COUNT, 0), min(archive.size, END_RECORD.size + ZIP64_COUNT)
    )
    found = tail.rfind(b"PK\5\6")
    if found < 0 or len(tail) - found < END_RECORD.size:
        raise FileError("the archive has no directory at its end: the file is cut short, or was not written to its end")
    place = archive.size - len(tail) + found
    *_, count, length, begin, comment = END_RECORD.unpack_from(tail, found)
    if place + END_RECORD.size + comment != archive.size:
        raise FileError("bytes follow the end of the archive, or it is damaged")
    if (
        place >= ZIP64_LOCATOR.size + ZIP64_END_RECORD.size
        and (marker := archive.at(place - ZIP64_LOCATOR.size, ZIP64_LOCATOR.size))[:4] == b"PK\6\7"
    ):
        place = ZIP64_LOCATOR.unpack(marker)[2]
        if (
            place > archive.size - ZIP64_END_RECORD.size
            or (wide := archive.at(place, ZIP64_END_RECORD.size))[:4] != b"PK\6\6"
        ):
            raise FileError("the archive's end is damaged: its 64-bit part is not where it should be")
        *_, count, length, begin = ZIP64_END_RECORD.unpack(wide)
    if begin + length != place:
        raise FileError(
            f"the archive's directory of {length} bytes at {begin} does not end where the archive's end begins"
        )
    return begin, length, count


def _decode_name(title: bytes) -> str:
    try:
        return title.decode()
    except UnicodeDecodeError:
        raise FileError(f"the archive's directory is damaged: the name {title[:100]!r} is not UTF-8") from None


def _read_zip64_fields(name: str, extra: bytes, values: list[int]) -> list[int]:
    """Return the sizes and the offset; an extra field holds those that need 64 bits."""
    missing = [i for i, value in enumerate(values) if value == ZIP64_SIZE]
    at = 0
    while missing and at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1 and length >= 8 * len(missing) and at + 4 + 8 * len(missing) <= len(extra):
            wide = struct.unpack_from(f"<{len(missing)}Q", extra, at + 4)
            for i, value in zip(missing, wide, strict=True):
                values[i] = value
            return values
        at += 4 + length
    if missing:
        raise FileError(f"record {name!r}: its size or place is missing from the archive's directory")
    return values


def _check_local_header(
    archive: Archive, name: str, title: bytes, offset: int, known: tuple[int, int], limit: int
) -> int:
    """Compare a record's own header with the directory, and return where its data begin."""
    if offset + LOCAL_HEADER.size > limit:
        raise FileError(f"record {name!r}: its place {offset} is outside of the archive")
    head = LOCAL_HEADER.unpack(archive.at(offset, LOCAL_HEADER.size))
    flags, crc, size, length, extra = head[2], head[6], head[8], head[9], head[10]
    data = offset + LOCAL_HEADER.size + length + extra
    if data + known[1] > limit:
        raise FileError(f"record {name!r} of {known[1]} bytes at {data} goes beyond the {limit} bytes of the records")
    same = flags & SIZES_FOLLOW or size == ZIP64_SIZE or (crc, size) == known
    if head[0] != b"PK\3\4" or archive.at(offset + LOCAL_HEADER.size, length) != title or not same:
        raise FileError(f"record {name!r}: its own header does not agree with the archive's directory")
    return data
