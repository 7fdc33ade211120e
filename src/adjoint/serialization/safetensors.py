"""Safetensors: named arrays as plain data, an 8-byte length, a JSON header of that length, then every tensor's bytes.

The header maps a name to {"dtype", "shape", "data_offsets": [begin, end]} and "__metadata__" to strings. Offsets count
from the end of the header; together the tensors cover the rest of the file once, without holes.
Source: the format section of the safetensors project's README.
"""

from __future__ import annotations

import importlib
import io
import itertools
import json
import math
import mmap
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from adjoint.core.typing import Array, NumpyDtype
from adjoint.serialization.atomic import Chunk
from adjoint.serialization.zip_archive import read_into

Path: TypeAlias = str | os.PathLike[str]

NUMBER_SIZES = {"F": (8, 4, 2), "I": (8, 4, 2, 1), "U": (8, 4, 2, 1)}
DTYPES = {f"{kind}{8 * size}": f"{kind.lower()}{size}" for kind, sizes in NUMBER_SIZES.items() for size in sizes}
DTYPES |= {"BOOL": "b1", "C64": "c8"}
NAMES = {code: name for name, code in DTYPES.items()}
METADATA_KEY = "__metadata__"
HEADER_LIMIT = 100_000_000  # bytes, the format's own limit
SIZE_LIMIT = 2**63 - 1
RANK_LIMIT = 64  # NumPy's
TORCH_ADVICE = "adjoint.load reads files of torch.save"
NUMPY_ADVICE = "Read it with numpy.load(old, allow_pickle=False) and save its arrays, each as a tensor"
CHECKSUM_KEY = "adjoint.crc32"  # of names, shapes, dtypes and metadata; with ":NAME" behind it, of a tensor's bytes


class SafetensorsError(ValueError):
    """A file that is not sound; the message names the file, the tensor and what is wrong."""


class ChecksumError(SafetensorsError):
    """Bytes that are not those which were written."""


class TensorEntry(NamedTuple):
    """Dtype, shape and place of a tensor; `begin` and `end` count from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read(source: Path | bytes | BinaryIO, *, mapped: bool = False) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays by name, in the header's order, and the metadata of a file given by path, content or itself.

    Arrays are writable, in native byte order, and share no memory. With `mapped` (paths only) they are private views of
    the file, which must then not be cut short while they live. Sizes are checked against the file before memory is
    taken, checksums where the file has them.

    Raises: SafetensorsError (a ValueError), ChecksumError for damaged data; OSError from the file itself.
    """
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            return _read_named(file, os.fspath(source), mapped)
    if mapped:
        raise ValueError("only a file given by its path can be mapped into memory")
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _read_named(io.BytesIO(source), "<bytes>", mapped)
    name = getattr(source, "name", None)
    if not (source.seekable() and hasattr(source, "readinto")):
        source = io.BytesIO(source.read())
    return _read_named(source, name if isinstance(name, str) else "<file object>", mapped)


def write(tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> Iterator[Chunk]:
    """Return the file as chunks, header first; all checks precede the first chunk.

    Every array is stored whole, also where arrays share memory, in little-endian C order; larger element sizes lie
    first, so that each tensor is aligned. An array changed before its chunk is taken no longer fits its checksum.

    Raises: TypeError for a dtype that the format lacks, and for names or metadata that are not strings. ValueError for
    reserved or unencodable ones, and for a header over 100 MB.
    """
    stored = {_check_writable_name(name): _encode_array(name, array) for name, array in tensors.items()}
    order = sorted(stored, key=lambda name: -stored[name][1].itemsize)
    ends = list(itertools.accumulate(stored[name][1].nbytes for name in order))
    places = {name: (end - stored[name][1].nbytes, end) for name, end in zip(order, ends, strict=True)}
    entries = {name: TensorEntry(dtype, array.shape, *places[name]) for name, (dtype, array) in stored.items()}
    notes = _check_writable_metadata(metadata or {})
    sums = {f"{CHECKSUM_KEY}:{name}": _checksum(_as_bytes(stored[name][1])) for name in stored}
    header: dict[str, Any] = {METADATA_KEY: notes | {CHECKSUM_KEY: _header_checksum(entries, notes)} | sums}
    for name, entry in entries.items():
        header[name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [entry.begin, entry.end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise ValueError(f"the names and metadata take {len(text)} bytes, more than the {HEADER_LIMIT} of the format")
    return itertools.chain([len(text).to_bytes(8, "little") + text], (_as_bytes(stored[name][1]) for name in order))


def _read_named(file: BinaryIO, name: str, mapped: bool) -> tuple[dict[str, Array], dict[str, str]]:
    try:
        return _read(file, mapped)
    except SafetensorsError as error:
        raise type(error)(f"{name}: {error}") from None


def _read(file: BinaryIO, mapped: bool) -> tuple[dict[str, Array], dict[str, str]]:
    start = file.tell()
    size = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    header, length = _read_header(file, size)
    metadata = _check_metadata(header.pop(METADATA_KEY, {}))
    entries = {name: _parse_entry(name, value, size - 8 - length) for name, value in header.items()}
    order = sorted(entries, key=lambda name: (entries[name].begin, entries[name].end))
    _check_cover([(name, entries[name]) for name in order], size - 8 - length)
    sums = _take_checksums(metadata, entries)
    view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if mapped else None
    arrays = {}
    for name in order:
        array = _read_array(file, entries[name]) if view is None else _map_array(view, entries[name], 8 + length)
        if array is None:
            raise SafetensorsError(f"tensor {_quote(name)}: the file ended while it was read")
        if name in sums and _checksum(_as_bytes(array)) != sums[name]:
            raise ChecksumError(
                f"tensor {_quote(name)}: its bytes do not have the checksum {_quote(sums[name])} that was "
                "stored with them: the file is damaged, or another tool changed the tensor and kept the old metadata"
            )
        if entries[name].dtype == "BOOL" and array.size and array.view(np.uint8).max() > 1:
            raise SafetensorsError(f"tensor {_quote(name)}: a BOOL byte is neither 0 nor 1")
        arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return {name: arrays[name] for name in entries}, metadata


def _read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """Return the parsed header, and its length in bytes."""
    start = file.read(min(size, 128))
    if len(start) < 8:
        raise SafetensorsError(f"{len(start)} bytes are too few for a safetensors file, which has 8 and a header")
    length = int.from_bytes(start[:8], "little")
    if length > min(HEADER_LIMIT, size - 8) or start[8 : 8 + length][:1] != b"{":
        raise SafetensorsError(_describe_foreign(start) or _describe_bad_start(length, size))
    file.seek(8 - len(start), os.SEEK_CUR)
    text = file.read(length)
    if len(text) < length:
        raise SafetensorsError("the file ended while its header was read")
    try:
        header = json.loads(text.decode(), object_pairs_hook=_build_unique_dict, parse_constant=_refuse_constant)
    except SafetensorsError:
        raise
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, a number too long, nesting too deep
        raise SafetensorsError(f"the header is not valid JSON: {error}") from None
    return header, length


def _describe_foreign(start: bytes) -> str | None:
    """Describe the other format whose files begin with these bytes (128 suffice); None for an unknown one."""
    if start.startswith(b"PK\x03\x04"):
        if b".npy" in start:
            return f"this is a NumPy .npz archive, not a safetensors file. {NUMPY_ADVICE}"
        by_torch = b"/data.pkl" in start or b"/.format_version" in start
        kind = "a ZIP archive of torch.save" if by_torch else "a ZIP archive, perhaps of torch.save"
        return f"this is {kind}, not a safetensors file. {TORCH_ADVICE}"
    if start[:1] == b"\x80" and 2 <= start[1] <= 5:
        return (
            "this is a Python pickle, perhaps of torch.save, not a safetensors file; unpickling runs code that the "
            f"file chooses. {TORCH_ADVICE}"
        )
    if start.startswith(b"\x93NUMPY"):
        return f"this is a NumPy .npy file, not a safetensors file. {NUMPY_ADVICE}"
    if start.startswith(b"\x89HDF"):
        return "this is an HDF5 file, not a safetensors file. Read it with h5py and save its arrays as tensors"
    if start.startswith(b"version https://git-lfs"):
        return "this is a Git LFS pointer, not the file itself. Fetch the file with `git lfs pull`"
    return None


def _describe_bad_start(length: int, size: int) -> str:
    if length > HEADER_LIMIT:
        return f"not a safetensors file: a header of {length} bytes is announced, at most {HEADER_LIMIT} are allowed"
    if length > size - 8:
        return f"a header of {length} bytes is announced, but only {size - 8} bytes follow: the file is cut short"
    return "not a safetensors file: its header does not start with '{'"


def _build_unique_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise SafetensorsError(f"the header has the key {_quote(key)} twice")
        if not key.isascii() and not _is_encodable(key):
            raise SafetensorsError(f"the header's key {_quote(key)} is not valid Unicode")
        values[key] = value
    return values


def _refuse_constant(text: str) -> None:
    raise SafetensorsError(f"the header is not valid JSON: it has the number {text}")


def _check_metadata(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise SafetensorsError(f"{METADATA_KEY} must map strings to strings, it is a {type(value).__name__}")
    for key, text in value.items():
        if not isinstance(text, str):
            raise SafetensorsError(
                f"{METADATA_KEY} must map strings to strings, {_quote(key)} is a {type(text).__name__}"
            )
        if not text.isascii() and not _is_encodable(text):
            raise SafetensorsError(f"{METADATA_KEY}: the text of {_quote(key)} is not valid Unicode")
    return dict(value)


def _parse_entry(name: str, value: Any, size: int) -> TensorEntry:
    """Check one tensor's header entry, against the `size` of the data too; Python's integers cannot overflow."""
    where = f"tensor {_quote(name)}"
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise SafetensorsError(f"{where}: its entry must have exactly dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str):
        raise SafetensorsError(f"{where}: its dtype must be a string")
    itemsize = _parse_dtype(dtype, where).itemsize
    if not isinstance(shape, list) or not all(_is_size(length) for length in shape):
        raise SafetensorsError(f"{where}: its shape must be a list of integers from 0 to 2**63 - 1")
    if len(shape) > RANK_LIMIT:
        raise SafetensorsError(f"{where}: it has {len(shape)} dimensions, at most {RANK_LIMIT} are supported")
    # NumPy refuses such shapes even when another length is 0 and no byte is needed.
    if math.prod(length for length in shape if length) * itemsize > SIZE_LIMIT:
        raise SafetensorsError(f"{where}: the size of shape {shape} overflows 64 bits")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_size(offset) for offset in offsets):
        raise SafetensorsError(f"{where}: its data_offsets must be two integers from 0 to 2**63 - 1")
    begin, end = offsets
    if not begin <= end <= size:
        raise SafetensorsError(f"{where}: its data_offsets {offsets} do not lie in order within the {size} data bytes")
    if end - begin != math.prod(shape) * itemsize:
        raise SafetensorsError(
            f"{where}: {dtype} of shape {shape} takes {math.prod(shape) * itemsize} bytes, "
            f"its data_offsets {offsets} span {end - begin}"
        )
    return TensorEntry(dtype, tuple(shape), begin, end)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= SIZE_LIMIT


def _parse_dtype(name: str, where: str) -> NumpyDtype:
    if name == "BF16":
        try:
            bfloat16: NumpyDtype = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
        except ImportError:
            raise SafetensorsError(
                f"{where}: NumPy has no BF16: the package ml_dtypes adds it, install that or convert the file to F32"
            ) from None
        return bfloat16
    if name not in DTYPES:
        raise SafetensorsError(f"{where}: dtype {_quote(name)} is not supported, only {', '.join(DTYPES)}, BF16 are")
    return np.dtype("<" + DTYPES[name])


def _check_cover(entries: list[tuple[str, TensorEntry]], size: int) -> None:
    """Entries in the order of their offsets must follow each other from 0 to the end of the file."""
    covered, before = 0, ""
    for name, entry in entries:
        if entry.begin < covered:
            raise SafetensorsError(f"tensors {_quote(before)} and {_quote(name)} overlap at data byte {entry.begin}")
        if entry.begin > covered:
            raise SafetensorsError(f"tensor {_quote(name)}: a hole of {entry.begin - covered} bytes lies before it")
        covered, before = entry.end, name
    if covered < size:
        raise SafetensorsError(f"the last {size - covered} bytes of the file belong to no tensor")


def _read_array(file: BinaryIO, entry: TensorEntry) -> Array | None:
    """Return the next array of the file, or None if the file ends within it."""
    array = np.empty(entry.shape, _parse_dtype(entry.dtype, ""))
    return array if read_into(file, array) else None


def _map_array(view: mmap.mmap, entry: TensorEntry, start: int) -> Array:
    dtype = _parse_dtype(entry.dtype, "")
    if entry.begin == entry.end:
        return np.empty(entry.shape, dtype)
    array = np.frombuffer(view, dtype, math.prod(entry.shape), start + entry.begin).reshape(entry.shape)
    return array if array.flags.aligned else array.copy()


def _take_checksums(metadata: dict[str, str], entries: Mapping[str, TensorEntry]) -> dict[str, str]:
    """Remove the checksums from `metadata`, check the header's, and return those of the tensors by name."""
    whole = metadata.pop(CHECKSUM_KEY, None)
    keys = [key for key in metadata if key.startswith(f"{CHECKSUM_KEY}:")]
    sums = {key.removeprefix(f"{CHECKSUM_KEY}:"): metadata.pop(key) for key in keys}
    for name in sums:
        if name not in entries:
            raise ChecksumError(f"tensor {_quote(name)}: its checksum is in the file, the tensor is not")
    if whole is None and not sums:
        return sums
    if whole is None:
        raise ChecksumError("the checksum of the header is missing, though tensors have theirs")
    for name in entries:
        if name not in sums:
            raise ChecksumError(f"tensor {_quote(name)}: it has no checksum, though the file has one for its header")
    if whole != _header_checksum(entries, metadata):
        raise ChecksumError(
            f"the names, shapes, dtypes and metadata do not have the checksum {_quote(whole)} that was stored with "
            "them: the file is damaged, or another tool changed it and kept the old metadata"
        )
    return sums


def _check_writable_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a tensor's name must be a string, not {name!r}")
    if name == METADATA_KEY or not _is_encodable(name):
        raise ValueError(f"a tensor cannot have the name {name!r}: it is reserved or not valid Unicode")
    return name


def _check_writable_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    pairs: Iterable[tuple[object, object]] = metadata.items()
    for key, text in pairs:
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(f"metadata must map strings to strings, not {key!r} to a {type(text).__name__}")
        if key == CHECKSUM_KEY or key.startswith(f"{CHECKSUM_KEY}:") or not _is_encodable(key + text):
            raise ValueError(f"metadata cannot have the key {key!r}: it is reserved, or its text is not valid Unicode")
    return dict(metadata)


def _encode_array(name: str, array: Array) -> tuple[str, Array]:
    """Return the format's dtype name, and the array in little-endian C order, copied only if needed."""
    dtype = "BF16" if array.dtype.name == "bfloat16" else NAMES.get(array.dtype.str[1:])
    if dtype is None:
        raise TypeError(f"tensor {name!r}: a safetensors file cannot hold dtype {array.dtype}")
    return dtype, array.astype(array.dtype.newbyteorder("<"), order="C", copy=False, subok=False)


def _as_bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _checksum(data: Chunk) -> str:
    return f"{zlib.crc32(data):08x}"


def _header_checksum(entries: Mapping[str, TensorEntry], metadata: Mapping[str, str]) -> str:
    """Offsets are left out: layout is checked by itself, and a tool may lay the same tensors out anew."""
    tensors = {name: [entry.dtype, entry.shape] for name, entry in entries.items()}
    return _checksum(json.dumps([tensors, dict(metadata)], sort_keys=True).encode())


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _quote(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:100] + "…")
