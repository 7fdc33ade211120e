"""Tensors and nested Python containers of them in a safetensors file: `save_safetensors(obj, f)` and its inverse.

A checkpoint is a safetensors file. Tensors lie flat under dotted names, `model.0.weight`; the structure they came from
is JSON in the metadata, where plain values stand for themselves and everything else is an object with one key:

    {"tensor": name}  {"dict": [[key, value], ...]}  {"OrderedDict": ...}  {"tuple": [...]}  {"int": hex}
    {"float": "nan"}

Loading interprets nothing but these: the file is data.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, BinaryIO, NoReturn

import numpy as np

from adjoint.core.dtype.dtype import DTYPES
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array
from adjoint.serialization import safetensors
from adjoint.serialization.atomic import Chunk, replace_file, write_all
from adjoint.serialization.dict_keys import KeyHashes
from adjoint.serialization.safetensors import Path, SafetensorsError

STRUCTURE_KEY = "adjoint.structure"
DEPTH_LIMIT = 100  # of nesting, well within what JSON readers take
MAX_EXACT_INTEGER = 2**53  # up to here every JSON reader agrees


def save_safetensors(obj: Any, f: Path | BinaryIO) -> None:
    """Save a tensor, or a nested dict, OrderedDict, list or tuple of tensors, str, int, float, bool and None.

    `f` is a path, whose file is replaced whole or, on any failure, not at all; or an open binary file, which is just
    written to. A state dict saved alone has its keys as tensor names, for other tools to read. Values are stored and
    nothing else: neither requires_grad nor graphs nor which tensors share memory. Each tensor has a checksum. Another
    thread must not write the tensors meanwhile; if it does, loading reports it.

    Raises: TypeError naming place and type for anything else, before anything is written; OSError from the file.
    """
    tensors: dict[str, Array] = {}
    structure = _encode_structure(obj, (), tensors, ())
    # Readers that know PyTorch's layout of weights only by this key ask for it.
    chunks = safetensors.write(tensors, {"format": "pt", STRUCTURE_KEY: json.dumps(structure, separators=(",", ":"))})
    write_file("save_safetensors", f, chunks)


def load_safetensors(f: Path | BinaryIO, *, mmap: bool = False) -> Any:
    """Return the value that `save_safetensors` wrote, with new tensors; of another tool's file, a dict of its tensors.

    With `mmap` (paths only) tensors are private views of the file, which are read once for their checksums and copied
    where they are written; the file must not be cut short while they live, `save` never does.

    Raises: SafetensorsError (a ValueError) for a file that is not sound, ChecksumError for a damaged one.
    """
    check_binary("load_safetensors", f, "read")
    arrays, metadata = safetensors.read(f, mapped=mmap)
    file = os.fspath(f) if isinstance(f, (str, os.PathLike)) else "<file object>"
    tensors = {name: _wrap_array(file, name, array) for name, array in arrays.items()}
    if STRUCTURE_KEY not in metadata:
        return tensors
    try:
        value = _decode_structure(json.loads(metadata[STRUCTURE_KEY]), tensors, DEPTH_LIMIT)
    except (ValueError, RecursionError) as error:
        raise SafetensorsError(f"{file}: the structure in its metadata is not sound: {error}") from None
    if tensors:
        raise SafetensorsError(f"{file}: tensor {next(iter(tensors))!r} has no place in the structure in its metadata")
    return value


def write_file(function: str, f: Path | BinaryIO, chunks: Iterable[Chunk]) -> None:
    """Replace the file at a path, or write to an open one, so that others who open it see all of it."""
    if isinstance(f, (str, os.PathLike)):
        replace_file(f, chunks)
        return
    check_binary(function, f, "write")
    for chunk in chunks:
        write_all(f.write, chunk)
    if hasattr(f, "flush"):
        f.flush()


def check_binary(function: str, f: Any, method: str) -> None:
    """Raise AttributeError unless `f` is a path or an open file, TypeError for one of text."""
    if isinstance(f, (str, os.PathLike)):
        return
    if not hasattr(f, method):
        raise AttributeError(
            f"{function}: f must be a path or an open binary file, with a {method!r} attribute, not a "
            f"{type(f).__name__}"
        )
    if isinstance(f, io.TextIOBase):
        raise TypeError(f"{function}: the file is open in text mode; open it in binary mode")


def _encode_structure(value: Any, path: tuple[Any, ...], tensors: dict[str, Array], parents: tuple[int, ...]) -> Any:
    """Return the JSON that stands for `value`, which lies at `path`; its tensors are added to `tensors`."""
    kind = type(value)
    if isinstance(value, Tensor):
        name = _free_name(path, tensors)
        tensors[name] = value.numpy_view("save()")
        return {"tensor": name}
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if abs(value) <= MAX_EXACT_INTEGER else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind not in (list, tuple, dict, OrderedDict):
        _refuse(path, f"a {kind.__module__}.{kind.__qualname__}{_conversion_hint(value)}")
    if id(value) in parents:
        _refuse(path, f"a {kind.__name__} that contains itself")
    if len(parents) >= DEPTH_LIMIT:
        _refuse(path, f"a {kind.__name__} nested more than {DEPTH_LIMIT} deep")
    parents = (*parents, id(value))
    if kind is list or kind is tuple:
        items = [_encode_structure(item, (*path, i), tensors, parents) for i, item in enumerate(value)]
        return items if kind is list else {"tuple": items}
    for key in value:
        if key is not None and type(key) not in (str, int, float, bool):
            _refuse(path, f"a {kind.__name__} with the key {key!r}, a {type(key).__name__}, not a string or number")
    pairs = [
        [_encode_structure(key, path, tensors, ()), _encode_structure(item, (*path, key), tensors, parents)]
        for key, item in value.items()
    ]
    return {kind.__name__: pairs}


def _refuse(path: tuple[Any, ...], what: str) -> NoReturn:
    where = "obj" + "".join(f"[{key!r}]" for key in path)
    raise TypeError(
        f"save_safetensors: {where} is {what}; a checkpoint holds tensors, str, int, float, bool, None, "
        "and dict, OrderedDict, list or tuple of these"
    )


def _conversion_hint(value: Any) -> str:
    if isinstance(value, np.generic):
        return " (value.item() is the Python number)"
    if isinstance(value, np.ndarray):
        return " (adjoint.from_numpy makes it a tensor)"
    for plain in (OrderedDict, dict, list, tuple, str, int, float):
        if isinstance(value, plain):
            return f" ({plain.__name__}(value) is a plain one)"
    return ""


def _free_name(path: tuple[Any, ...], tensors: dict[str, Array]) -> str:
    """Return the dotted keys that lead to a tensor, with a number behind where two tensors would have one name."""
    name = ".".join(map(str, path)) if path else "tensor"
    name = name.encode(errors="backslashreplace").decode()  # half a surrogate pair is no Unicode text
    unique, number = name, 2
    while unique in tensors or unique == safetensors.METADATA_KEY:
        unique, number = f"{name}#{number}", number + 1
    return unique


def _wrap_array(file: str, name: str, array: Array) -> Tensor:
    if DTYPES.find(array.dtype) is None:
        raise SafetensorsError(
            f"{file}: tensor {name!r} has elements of type {array.dtype.name}, which tensors cannot hold; "
            "read it with the safetensors package and convert it"
        )
    return wrap(array)


def _decode_structure(node: Any, tensors: dict[str, Tensor], depth: int) -> Any:
    """Return the value that a JSON node stands for; the tensors it names are taken out of `tensors`."""
    if depth < 0:
        raise ValueError(f"it is nested more than {DEPTH_LIMIT} deep")
    if isinstance(node, list):
        return [_decode_structure(item, tensors, depth - 1) for item in node]
    if not isinstance(node, dict):
        return node
    if len(node) != 1:
        raise ValueError("an object has one key, which says what it is")
    ((kind, content),) = node.items()
    if kind in ("int", "float", "tensor") and isinstance(content, str):
        if kind == "int":
            return int(content, 16)
        if kind == "float":
            return float(content)
        if content not in tensors:
            raise ValueError(f"it names the tensor {content[:100]!r}, which is missing or was named before")
        return tensors.pop(content)
    if kind == "tuple" and isinstance(content, list):
        return tuple(_decode_structure(item, tensors, depth - 1) for item in content)
    if kind in ("dict", "OrderedDict") and isinstance(content, list):
        return _decode_dict(dict if kind == "dict" else OrderedDict, content, tensors, depth)
    raise ValueError(f"{kind[:100]!r} with a {type(content).__name__} stands for nothing")


def _decode_dict(kind: type[dict[Any, Any]], pairs: list[Any], tensors: dict[str, Tensor], depth: int) -> Any:
    values, hashes = kind(), KeyHashes()
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError(f"a {kind.__name__} is a list of pairs")
        key = _decode_structure(pair[0], {}, 0)
        if isinstance(key, (list, tuple, dict)):
            raise ValueError(f"a {kind.__name__} has a key that is neither string nor number")
        hashes.check_key(key)
        if key in values:
            raise ValueError(f"a {kind.__name__} has the key {str(key)[:100]!r} twice")
        values[key] = _decode_structure(pair[1], tensors, depth - 1)
    return values
