"""Read PyTorch's files: ZIP archives of a pickle and its storages, and the streams that were written before 1.6."""

from __future__ import annotations

import mmap
import os
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from adjoint.core.dtype.dtype import uint8
from adjoint.core.typing import Function
from adjoint.serialization.load_options import assumed_byte_order, writes_through
from adjoint.serialization.numpy_values import NumpyType, fill_array, numpy_globals
from adjoint.serialization.safe_globals import (
    StorageType,
    find_inert_class,
    find_inert_function,
    full_name,
    plain_globals,
    user_globals,
)
from adjoint.serialization.tensor_rebuild import LoadedStorage, rebuild_parameter, rebuilders
from adjoint.serialization.unpickler import Rules, unpickle
from adjoint.serialization.zip_archive import Archive, FileError, read_into

MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of a stream; then come PROTOCOL, facts of the system, and the value
PROTOCOL = 1001
HOST_IS_LITTLE_ENDIAN = sys.byteorder == "little"
WHOLE_OBJECT_ERROR = (
    "The file has {} whole: save its state_dict() instead, and give what load returns to load_state_dict()"
)
UNSUPPORTED_LAYOUT_ERROR = (
    "The file has a {} tensor, and there are strided and sparse ones only: make it dense in PyTorch and save that"
)
ADVICE_BY_PREFIX = {  # for names that files of PyTorch have
    "torch.nn.modules.": WHOLE_OBJECT_ERROR.format("a module of PyTorch"),
    "torch.optim.": WHOLE_OBJECT_ERROR.format("an optimizer or a schedule"),
    "adjoint.optim.": WHOLE_OBJECT_ERROR.format("an optimizer or a schedule"),
    "torch._utils._rebuild_qtensor": UNSUPPORTED_LAYOUT_ERROR.format("quantised"),
    "torch._utils._rebuild_nested_tensor": UNSUPPORTED_LAYOUT_ERROR.format("nested"),
}


def read_archive(file: BinaryIO, encoding: str, trusted: bool, mapped: bool, absent: bool = False) -> Any:
    """Return the value of an archive; `mapped` tensors are private views of the file, `absent` ones have no values."""
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
    if mapped and writes_through():  # others may have written the storages
        archive.verifies_checksums = False
    value, end = unpickle(pickled, _make_rules(load_storage, encoding, trusted))
    if end != len(pickled):
        raise FileError(f"{len(pickled) - end} bytes follow the pickle")
    return value


def read_stream(file: BinaryIO, encoding: str, trusted: bool, absent: bool = False) -> Any:
    """Return the value of a stream of pickles and storages, the format before PyTorch 1.6."""
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
    rules = _make_rules(load_storage, encoding, trusted)
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
    """Return the folder of all records of the archive."""
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
    """Return element type, key and length of the storage that a pickle refers to."""
    if isinstance(identity, tuple) and len(identity) == fields and identity[0] in ("storage", b"storage"):
        kind, key, _, count = identity[1:5]
        key = _key_as_text(key)
        if isinstance(kind, StorageType) and type(key) is str and type(count) is int and count >= 0:
            if fields == 6 and identity[5] is not None:
                raise FileError(f"storage {key!r} is a view of another, as none was since PyTorch 0.4")
            return kind.dtype, key, count
    raise FileError("the pickle refers to something outside of it that is no storage")


def _key_as_text(key: Any) -> Any:
    """Return a key as text: with `encoding="bytes"` the keys of Python 2 are bytes."""
    return key.decode("latin1") if type(key) is bytes else key


def _check_storage_agrees(storage: LoadedStorage, kind: Any, count: int) -> None:
    """Raise FileError where a mention of a storage disagrees with its memory."""
    if storage.dtype is not kind and kind is not None:
        raise FileError(f"storage {storage.key!r} is of type {storage.dtype!r} and of {kind!r}")
    size = count * (1 if kind is None else kind.itemsize)
    if size != storage.memory.nbytes:
        raise FileError(f"storage {storage.key!r} of {size} bytes is announced, but it has {storage.memory.nbytes}")


def _make_rules(persistent_load: Callable[[Any], Any], encoding: str, trusted: bool) -> Rules:
    """Return the rules for the pickle of a file of tensors.

    `trusted` files may also name classes that are imported already and whose instances run nothing when they are made.
    """
    (named, calls), (arrays, makers) = plain_globals(), numpy_globals()
    tensors = rebuilders()
    named |= tensors | arrays
    parameter = named["torch.nn.Parameter"]
    calls |= {rebuild: rebuild for rebuild in tensors.values() if rebuild is not parameter} | makers
    news = dict(calls) | {parameter: rebuild_parameter}
    allowed = {name: given for name, given in user_globals().items() if name not in arrays}  # read with more care
    named |= allowed
    for given in allowed.values():
        calls[given] = given
        if isinstance(given, type):
            news[given] = _make_bare_constructor(given)

    def find(module: str, name: str) -> Any:
        full = full_name(module, name)
        if full in named:
            return named[full]
        if trusted and (found := find_inert_class(module, name)) is not None:
            news[found] = calls[found] = _make_bare_constructor(found)
            return found
        if trusted and (function := find_inert_function(module, name)) is not None:
            return function
        refused = _refusal_message(full, not trusted and find_inert_class(module, name) is not None)
        raise FileError(refused if trusted else f"Weights only load failed. {refused}")

    def build(instance: Any, state: Any) -> Any:
        if type(instance) is NumpyType:
            instance.set_order(state)
            return instance
        if type(instance) is np.ndarray:
            fill_array(instance, state)
            return instance
        if type(instance) is OrderedDict or type(instance) in news:
            return _set_instance_state(instance, state, slotted=type(instance) in allowed.values())
        raise FileError(f"the pickle sets the state of a {type(instance).__name__}, which is not allowed")

    return Rules(find, calls, news, build, persistent_load, encoding)


def _refusal_message(full: str, inert: bool) -> str:
    """Explain why the file may not name this, and what to do; `inert` if a trusted file might."""
    name = full.removeprefix("builtins.")[:200]
    refused = f"Unsupported global: GLOBAL {name} was not an allowed global by default, so that no file can run code. "
    for part, advice in ADVICE_BY_PREFIX.items():
        if name.startswith(part):
            return refused + advice
    other = "load(..., weights_only=False) allows classes that are imported and run nothing, as this. " if inert else ""
    allowing = (
        f"If you trust it with any arguments, use adjoint.serialization.add_safe_globals([{name}]) or the context "
        f"manager adjoint.serialization.safe_globals([{name}])"
    )
    return refused + other + allowing


def _make_bare_constructor(kind: Any) -> Function:
    def make(*arguments: Any) -> Any:
        return kind.__new__(kind, *arguments)

    return make


def _set_instance_state(instance: Any, state: Any, slotted: bool) -> Any:
    """Set an instance's attributes as pickles do, `slotted` ones through descriptors of its class, and return it."""
    if hasattr(type(instance), "__setstate__"):
        instance.__setstate__(state)
        return instance
    slots = None
    if slotted and isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    for attributes in (state, slots):
        if attributes is not None and (type(attributes) is not dict or any(type(k) is not str for k in attributes)):
            raise FileError("the state of an object is something else than a dict of its attributes")
    if state:
        instance.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)
    return instance
