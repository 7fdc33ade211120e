"""Values on disk: PyTorch's format and safetensors, and atomic replacement of files.

Modules, in reading order:

- `atomic`: Atomic replacement of files.
- `safetensors`: Safetensors: named arrays as plain data, an 8-byte length, a JSON header of that length, then every
  tensor's bytes.
- `zip_archive`: ZIP archives of uncompressed records, the container of PyTorch's files: written aligned, read with
  distrust.
- `numpy_values`: NumPy's arrays and scalars in pickles: numbers only, made without NumPy's own reconstruction.
- `safe_globals`: Classes and functions that files may name: plain ones, those that users allow, and classes that run
  nothing.
- `safetensors_tree`: Tensors and nested Python containers of them in a safetensors file: `save_safetensors(obj, f)`
  and its inverse.
- `torch_writer`: Write files as PyTorch does: a pickle of the value, in which tensors refer to storages, and those
  beside it.
- `unpickler`: Read pickles without Python's own unpickler: a small stack machine that can call nothing but what it is
  given.
- `tensor_rebuild`: Tensors rebuilt as PyTorch's pickles describe them, by a storage, an offset, sizes and strides.
- `torch_reader`: Read PyTorch's files: ZIP archives of a pickle and its storages, and the streams that were written
  before 1.6.
- `files`: `save` and `load`: PyTorch's files, which no file's author can make run code, and safetensors.
- `pickle_globals`: Names in a file that `load` would refuse, read without making any object.
- `load_options`: Process-wide defaults of `load`: the byte order of files that do not say theirs, and how files are
  mapped.
- `dict_keys`: Keys of dicts and sets in files: types whose hash is quick and runs no code, and few that have the
  same.
"""

from __future__ import annotations

import os
import pickle as pickle  # programs name it as torch.serialization.pickle
from typing import Any, BinaryIO

from adjoint.serialization.files import load, save
from adjoint.serialization.load_options import (
    LoadEndianness,
    get_default_load_endianness,
    get_default_mmap_options,
    set_default_load_endianness,
    set_default_mmap_options,
)
from adjoint.serialization.pickle_globals import get_unsafe_globals_in_checkpoint
from adjoint.serialization.safe_globals import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from adjoint.serialization.safetensors import ChecksumError, SafetensorsError
from adjoint.serialization.safetensors_tree import load_safetensors, save_safetensors
from adjoint.serialization.zip_archive import FileError

__all__ = [
    "ChecksumError", "FileError", "LoadEndianness", "SafetensorsError", "add_safe_globals", "clear_safe_globals",
    "get_default_load_endianness", "get_default_mmap_options", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load", "load_safetensors", "safe_globals", "save", "save_safetensors",
    "set_default_load_endianness", "set_default_mmap_options",
]  # fmt: skip

FILE_LIKE = str | os.PathLike[str] | BinaryIO
MAP_LOCATION = Any
DEFAULT_PROTOCOL = 2
