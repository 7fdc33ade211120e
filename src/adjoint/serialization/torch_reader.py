"""Read PyTorch's files: ZIP archives of a pickle and its storages, and the streams that were written before 1.6."""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any, BinaryIO

import numpy as np

from adjoint.core.dtype.dtype import uint8
from adjoint.serialization.byte_order import assumed_byte_order
from adjoint.serialization.mmap_options import writes_through
from adjoint.serialization.safe_globals import StorageType
from adjoint.serialization.tensor_rebuild import LoadedStorage, make_rules
from adjoint.serialization.unpickler import unpickle
from adjoint.serialization.zip_archive import Archive, FileError, read_into

MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of a stream; then come PROTOCOL, facts of the system, and the value
PROTOCOL = 1001
HOST_IS_LITTLE_ENDIAN = sys.byteorder == "little"


def read_archive(file: BinaryIO, encoding: str, trusted: bool, mapped: bool, absent: bool = False) -> Any:
    """The value that an archive stands for; with `mapped` its tensors are private views of the file.

    They have no values if `absent`.
    """
    archive = Archive(file)
    folder = record_folder(archive)
    access = mmap.ACCESS_WRITE if writes_through() else mmap.ACCESS_COPY
    memory = mmap.mmap(file.fileno(), 0, access=access) if mapped else None
    swapped = _is_byteswapped(archive, folder)
    storages: dict[str, LoadedStorage] = {}

    def load_storage(identity: Any) -> LoadedStorage:
        kind, key, count = _parse_storage_id(identity, 5)
        if key not in storages:
            elements = np.uint8 if kind is None else kind.numpy
            found = archive.read_array(f"{folder}/data/{key}", elements, memory)
            if swapped:
                found.byteswap(inplace=True)
            storages[key] = LoadedStorage(key, found, kind, absent)
            storages[key].check_bools(kind)
        storage = storages[key]
        _check_storage_agrees(storage, kind, count)
        return storage

    pickled = archive.read_array(f"{folder}/data.pkl").data
    archive.verifies_checksums = archive.verifies_checksums and not (
        mapped and writes_through()
    )  # others may have written the storages
    value, end = unpickle(pickled, make_rules(load_storage, encoding, trusted))
    if end != len(pickled):
        raise FileError(f"{len(pickled) - end} bytes follow the pickle")
    return value


def read_stream(file: BinaryIO, encoding: str, trusted: bool, absent: bool = False) -> Any:
    """The value that a stream of pickles and storages stands for, the format before PyTorch 1.6."""
    start = file.tell()
    size = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    storages: dict[str, LoadedStorage] = {}
    taken = 0

    def load_storage(identity: Any) -> LoadedStorage:
        nonlocal taken
        kind, key, count = _parse_storage_id(identity, 6)
        if key not in storages:
            kind = kind or uint8
            taken += count * kind.itemsize
            if taken > size:
                raise FileError(f"storages of {taken} bytes are announced, more than the file's {size}")
            storages[key] = LoadedStorage(key, np.zeros(count, kind.numpy), kind, absent)
        _check_storage_agrees(storages[key], kind, count)
        return storages[key]

    data = memoryview(file.read(size))
    rules = make_rules(load_storage, encoding, trusted)
    magic, at = unpickle(data, rules)
    if type(magic) is not int or magic != MAGIC:
        raise FileError("this is a Python pickle, but none of torch.save: unpickling it could run code")
    protocol, at = unpickle(data, rules, at)
    if type(protocol) is not int or protocol != PROTOCOL:
        raise FileError(f"the stream is not of version {PROTOCOL}, and of no other anything is known")
    system, at = unpickle(data, rules, at)
    value, at = unpickle(data, rules, at)
    keys, at = unpickle(data, rules, at)
    keys = [_key_as_text(key) for key in keys] if isinstance(keys, list) else keys
    if not isinstance(keys, list) or any(type(key) is not str for key in keys) or sorted(keys) != sorted(storages):
        raise FileError("the storages that follow are not those that the tensors need")
    little = not isinstance(system, dict) or system.get("little_endian") is not False
    file.seek(start + at)
    del data  # the storages need the memory
    for key in keys:
        _read_storage(file, storages[key], little)
    return value


def _read_storage(file: BinaryIO, storage: LoadedStorage, little: bool) -> None:
    announced = int.from_bytes(file.read(8), "little" if little else "big")
    if announced != len(storage.memory):
        raise FileError(f"storage {storage.key!r} has {announced} elements, its tensors need {len(storage.memory)}")
    if not read_into(file, storage.memory):
        raise FileError(f"the file ends within storage {storage.key!r}: it is cut short")
    if little is not HOST_IS_LITTLE_ENDIAN:
        storage.memory.byteswap(inplace=True)
    storage.check_bools(storage.dtype)


def record_folder(archive: Archive) -> str:
    """The folder in which all records of the archive lie."""
    found = [name.removesuffix("/data.pkl") for name in archive.records if name.endswith("/data.pkl")]
    folders = [name for name in found if "/" not in name]
    if len(folders) != 1:
        if any(name.endswith(".npy") for name in archive.records):
            raise FileError("this is a NumPy .npz archive. Read it with numpy.load(old, allow_pickle=False)")
        raise FileError("this is a ZIP archive, but none of torch.save: it has no record data.pkl in its one folder")
    if f"{folders[0]}/constants.pkl" in archive.records:
        raise FileError("this is an archive of torch.jit.save, which holds programs: save the state dict instead")
    return folders[0]


def _is_byteswapped(archive: Archive, folder: str) -> bool:
    name = f"{folder}/byteorder"
    order = archive.read(name) if name in archive.records else assumed_byte_order()
    if order not in (b"little", b"big"):
        raise FileError(f"the archive's byte order is {order[:20]!r}, neither little nor big")
    return (order == b"little") is not HOST_IS_LITTLE_ENDIAN


def _parse_storage_id(identity: Any, fields: int) -> tuple[Any, str, int]:
    """Element type, key and length of the storage that a pickle refers to."""
    if isinstance(identity, tuple) and len(identity) == fields and identity[0] in ("storage", b"storage"):
        kind, key, _, count = identity[1:5]
        key = _key_as_text(key)
        if isinstance(kind, StorageType) and type(key) is str and type(count) is int and count >= 0:
            if fields == 6 and identity[5] is not None:
                raise FileError(f"storage {key!r} is a view of another, as none was since PyTorch 0.4")
            return kind.dtype, key, count
    raise FileError("the pickle refers to something outside of it that is no storage")


def _key_as_text(key: Any) -> Any:
    """A key as text: with `encoding="bytes"` those that Python 2 wrote are bytes."""
    return key.decode("latin1") if type(key) is bytes else key


def _check_storage_agrees(storage: LoadedStorage, kind: Any, count: int) -> None:
    """Every mention of a storage must agree with its memory."""
    if storage.dtype is not kind and kind is not None:
        raise FileError(f"storage {storage.key!r} is of type {storage.dtype!r} and of {kind!r}")
    size = count * (1 if kind is None else kind.itemsize)
    if size != storage.memory.nbytes:
        raise FileError(f"storage {storage.key!r} of {size} bytes is announced, but it has {storage.memory.nbytes}")
