"""Damaged and hostile files made from sound ones: what accidents do to bytes, and what people write to do harm."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

from tests.support.files.pickles import hostile_pickle

from adjoint.serialization.zip_archive import Archive, write_archive

EXTREMES = (
    0, 1, 2, 7, 0x7F, 0x80, 0xFF, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
MARKS = (b"PK\1\2", b"PK\3\4", b"PK\5\6", b"data_offsets", b"shape", b"dtype", b"storage", b"ctorch", b"__metadata__")


def hurt(data: bytes, draw: random.Random) -> bytes:
    """`data` after one to three accidents."""
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        data = draw.choice(ACCIDENTS)(data, draw) if data else data
    return data


def crafted(data: bytes, draw: random.Random) -> bytes:
    """A file of the format of `data` which somebody wrote on purpose, its checksums being right where it has any."""
    if data.startswith(b"PK"):
        return draw.choice([_records, _records, _pickled, _pickled, _pickled, _zipped])(data, draw)
    return _stream(data, draw) if data.startswith(b"\x80") else _header(data, draw)


def exchanged(data: bytes, draw: random.Random) -> bytes:
    """A sound archive in which records have each other's names, or one is missing."""
    records = _read(data)
    names = [name for name in records if not name.endswith("version")]
    one, other = draw.sample(names, 2)
    if draw.random() < 0.5:
        records[one], records[other] = records[other], records[one]
    else:
        del records[one]
    return _joined(write_archive(records.items()))


def _place(data: bytes, draw: random.Random) -> int:
    """Where damage tells most: at a part's beginning, near either end; or anywhere."""
    kind = draw.randrange(4)
    if kind == 0 and (
        found := [at for at in (data.find(mark, draw.randrange(len(data))) for mark in MARKS) if at >= 0]
    ):
        return min(draw.choice(found) + draw.randrange(46), len(data) - 1)
    if kind == 1:
        return len(data) - 1 - min(draw.randrange(300), len(data) - 1)
    return min(draw.randrange(300), len(data) - 1) if kind == 2 else draw.randrange(len(data))


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: _place(data, draw)]


def _flip(data: bytes, draw: random.Random) -> bytes:
    found = bytearray(data)
    found[_place(data, draw)] ^= 1 << draw.randrange(8)
    return bytes(found)


def _overwrite(data: bytes, draw: random.Random) -> bytes:
    """Noise, zeros, ones, or an extreme number of two, four or eight bytes."""
    at, length = _place(data, draw), draw.choice([1, 2, 4, 8, 64, 512, 4096])
    number = (draw.choice([*EXTREMES, len(data), len(data) - 1, len(data) + 1]) & 2**64 - 1).to_bytes(8, "little")
    new = draw.choice([bytes(length), b"\xff" * length, draw.randbytes(length), number[:length], number[:length][::-1]])
    return data[:at] + new[: len(data) - at] + data[at + len(new) :]


def _remove(data: bytes, draw: random.Random) -> bytes:
    at = _place(data, draw)
    return data[:at] + data[at + draw.choice([1, 2, 4, 8, 64, 512]) :]


def _repeat(data: bytes, draw: random.Random) -> bytes:
    at, length = _place(data, draw), draw.choice([1, 4, 8, 30, 46, 64, 512])
    return data[: at + length] + data[at:]


def _insert(data: bytes, draw: random.Random) -> bytes:
    at, source = _place(data, draw), _place(data, draw)
    new = draw.choice([data[source : source + draw.choice([1, 8, 64, 512])], draw.randbytes(draw.choice([1, 4, 64]))])
    return data[:at] + new + data[at:]


def _exchange(data: bytes, draw: random.Random) -> bytes:
    """Two blocks of equal length in each other's places."""
    length = draw.choice([1, 4, 16, 64, 512])
    one, other = sorted((_place(data, draw), _place(data, draw)))
    if one + length > other or other + length > len(data):
        return data
    middle = data[one + length : other]
    return data[:one] + data[other : other + length] + middle + data[one : one + length] + data[other + length :]


def _surround(data: bytes, draw: random.Random) -> bytes:
    more = draw.choice([b"\0", b"\n", draw.randbytes(40), bytes(4096), data[-22:], data[:64]])
    return more + data if draw.random() < 0.5 else data + more


ACCIDENTS = (_cut, _flip, _flip, _overwrite, _overwrite, _remove, _repeat, _insert, _exchange, _surround)


def _read(data: bytes) -> dict[str, bytes]:
    archive = Archive(io.BytesIO(data))
    return {name: archive.read(name) for name in archive.records}


def _joined(chunks: Any) -> bytes:
    return b"".join(bytes(chunk) for chunk in chunks)


NAMES: list[Callable[[str], str]] = [
    lambda name: f"../../../../tmp/{name}", lambda name: f"/{name}", lambda name: name.replace("/", "\\"),
    lambda name: f"{name}\0.txt", lambda name: name.upper(), lambda name: f"./{name}", lambda name: name + "/",
    lambda name: name.replace("archive", "archive/.."), lambda name: "", lambda name: name * 500,
    lambda name: "\x1b[31m" + name, lambda name: "archive/constants.pkl", lambda name: "other/data.pkl",
    lambda name: "archive/data/-1", lambda name: "archive/data/" + "9" * 400, lambda name: "\u202e" + name,
]  # fmt: skip


def _records(data: bytes, draw: random.Random) -> bytes:
    """Records that are renamed, doubled, missing, resized, or one of the others."""
    records = [*_read(data).items()]
    for _ in range(draw.choice([1, 1, 2, 5])):
        at, other = draw.randrange(len(records)), draw.randrange(len(records))
        name, content = records[at]
        records[at] = draw.choice(
            [
                (draw.choice(NAMES)(name), content),
                (name, records[other][1]),
                (name, content[: draw.randrange(len(content) + 1)]),
                (name, content + draw.randbytes(draw.choice([1, 3, 64]))),
                (name, draw.randbytes(len(content))),
                (name, hurt(content, draw)),
                records[other],
            ]
        )
        if draw.random() < 0.2 and len(records) > 1:
            del records[at]
    return _joined(write_archive(records))


def _pickled(data: bytes, draw: random.Random) -> bytes:
    records = _read(data)
    name = next(name for name in records if name.endswith("/data.pkl"))
    kept = {key: content for key, content in records.items() if not key.endswith("/.checksum")}
    program = hostile_pickle(draw) if draw.random() < 0.6 else hurt(records[name], draw)
    return _joined(write_archive((kept | {name: program}).items()))


def _zipped(data: bytes, draw: random.Random) -> bytes:
    """What Python's zipfile makes of it: compressed, with comments, bombs, folders; or entries that lead elsewhere."""
    file = io.BytesIO()
    how = draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(file, "w", how) as target:
        for name, content in _read(data).items():
            target.writestr(name, content)
        if draw.random() < 0.3:
            target.writestr("archive/data/99", bytes(300_000), zipfile.ZIP_DEFLATED)
        if draw.random() < 0.3:
            target.comment = draw.choice([b"PK\5\6" + bytes(18), b"PK\5\6" * 100, draw.randbytes(60)])
    found = bytearray(file.getvalue())
    entries = [at for at in range(len(found)) if found.startswith(b"PK\1\2", at)]
    for _ in range(draw.choice([0, 1, 2, len(entries)])):  # at 8 flags, 10 method, 16 crc, 20 and 24 sizes, 42 place
        field, form = draw.choice([(8, "<H"), (10, "<H"), (16, "<I"), (20, "<I"), (24, "<I"), (28, "<H"), (42, "<I")])
        at = draw.choice(entries) + field
        other = struct.unpack_from(form, found, draw.choice(entries) + field)[0]
        number = draw.choice([*EXTREMES, other]) % (1 << 8 * struct.calcsize(form))
        struct.pack_into(form, found, at, number)
    return bytes(found)


def _stream(data: bytes, draw: random.Random) -> bytes:
    """The three pickles before the value as they are, and others after them."""
    start = data.index(b"}q\0(X")  # the facts of the system
    end = data.index(b".", data.index(b"long", start)) + 1
    return data[:end] + hostile_pickle(draw) + draw.choice([b"\x80\2].", data[end:], b"\x80\2]X\1\0\0\0" + b"0a.", b""])


VALUES: list[Any] = [
    None, True, -1, 0, 1, 1.5, 1e308, "", "F32", "x" * 3000, [], {}, [[]], {"a": {}}, [0, 0], [1, 0], [-1, 4],
    [2**40, 2**40], [2**63], [0, 2**63 - 1], [True, 8], [1] * 70, ["0", "8"], [0.0, 8.0], "O", "BF16", "F64", "U8",
    "BOOL", "f4", "\ud800", "\0", [10**400],
]  # fmt: skip


def _header(data: bytes, draw: random.Random) -> bytes:
    """A safetensors file whose header is JSON still, and says something else."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    if draw.random() < 0.5:
        header.pop("__metadata__", None)
    for _ in range(draw.choice([1, 1, 2, 4])):
        name = draw.choice([*header]) if header else "x"
        entry = header.get(name)
        if isinstance(entry, dict) and entry and draw.random() < 0.7:
            entry[draw.choice([*entry, "strides", "adjoint.crc32", "adjoint.structure"])] = draw.choice(VALUES)
        elif draw.random() < 0.5 and isinstance(entry, dict):
            header[draw.choice(["", "../x", "/etc/x", "x" * 5000, "\x1b[2J", "__metadata__", "x"])] = dict(entry)
        else:
            header[name] = draw.choice(VALUES)
    text = json.dumps(header, ensure_ascii=draw.random() < 0.9).encode(errors="surrogatepass")
    if draw.random() < 0.2:
        key = json.dumps(draw.choice([*header])) if header else '"x"'
        text = text[:-1] + f",{key}:{draw.choice(DEEP)}}}".encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


DEEP = [
    "[" * 9000, "[" * 9000 + "]" * 9000, '{"a":' * 9000, "9" * 9000, "NaN", "null", "-" * 50,
    '"' + "\\u0000" * 900 + '"',
]  # fmt: skip
