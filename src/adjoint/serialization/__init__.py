"""Values on disk: PyTorch's format and safetensors, and atomic replacement of files."""

from __future__ import annotations

from adjoint.serialization.archive import FileError
from adjoint.serialization.checkpoint import load_safetensors, save_safetensors
from adjoint.serialization.files import load, save
from adjoint.serialization.safe_globals import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from adjoint.serialization.safetensors import ChecksumError, SafetensorsError

__all__ = [
    "ChecksumError", "FileError", "SafetensorsError", "add_safe_globals", "clear_safe_globals", "get_safe_globals",
    "load", "load_safetensors", "safe_globals", "save", "save_safetensors",
]  # fmt: skip
