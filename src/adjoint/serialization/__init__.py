"""Values on disk: PyTorch's format and safetensors, and atomic replacement of files."""

from __future__ import annotations

import os
import pickle as pickle  # programs name it as torch.serialization.pickle
from typing import Any, BinaryIO

from adjoint.serialization.archive import FileError
from adjoint.serialization.byte_order import (
    LoadEndianness,
    get_default_load_endianness,
    set_default_load_endianness,
)
from adjoint.serialization.checkpoint import load_safetensors, save_safetensors
from adjoint.serialization.files import load, save
from adjoint.serialization.mapping import get_default_mmap_options, set_default_mmap_options
from adjoint.serialization.naming import get_unsafe_globals_in_checkpoint
from adjoint.serialization.safe_globals import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from adjoint.serialization.safetensors import ChecksumError, SafetensorsError

__all__ = [
    "ChecksumError", "FileError", "LoadEndianness", "SafetensorsError", "add_safe_globals", "clear_safe_globals",
    "get_default_load_endianness", "get_default_mmap_options", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load", "load_safetensors", "safe_globals", "save", "save_safetensors",
    "set_default_load_endianness", "set_default_mmap_options",
]  # fmt: skip

FILE_LIKE = str | os.PathLike[str] | BinaryIO
MAP_LOCATION = Any
DEFAULT_PROTOCOL = 2
