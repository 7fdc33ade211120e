"""Names in a file that `load` would refuse, read without making any object."""

from __future__ import annotations

import io
import os
import pickletools
from collections.abc import Iterator
from typing import Any, BinaryIO

from adjoint.serialization.numpy_values import numpy_globals
from adjoint.serialization.safe_globals import PYTHON2_MODULE_NAMES, plain_globals, user_globals
from adjoint.serialization.safetensors import Path
from adjoint.serialization.safetensors_tree import check_binary
from adjoint.serialization.tensor_rebuild import rebuilders
from adjoint.serialization.torch_reader import record_folder
from adjoint.serialization.zip_archive import Archive, FileError

PICKLES_PER_STREAM = 5  # in a stream: two numbers, facts of the system, the value, and the keys of its storages


def get_unsafe_globals_in_checkpoint(f: Path | BinaryIO) -> list[str]:
    """Return the names in a file of `save` or `torch.save` that `load` refuses unless `add_safe_globals` allows them.

    The pickle is read as text: nothing is made or imported.

    Raises: FileError for a file that is not sound.
    """
    check_binary("get_unsafe_globals_in_checkpoint", f, "read")
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    allowed = plain_globals()[0] | numpy_globals()[0] | rebuilders() | user_globals()
    begin = f.tell()
    data = f.read()
    if data.startswith(b"PK"):
        archive = Archive(io.BytesIO(data))
        data = archive.read(f"{record_folder(archive)}/data.pkl")
    f.seek(begin)
    return sorted({name for name in _iterate_names(data) if name not in allowed})


def _iterate_names(data: bytes) -> Iterator[str]:
    """Yield the full names that one pickle, or those of a stream, look up."""
    file = io.BytesIO(data)
    try:
        for _ in range(PICKLES_PER_STREAM):
            if file.read(1) != b"\x80":
                return
            file.seek(-1, os.SEEK_CUR)
            yield from _iterate_pickle_names(file)
    except ValueError as error:
        raise FileError(f"the pickle is damaged: {error}") from None


def _iterate_pickle_names(file: BinaryIO) -> Iterator[str]:
    memo: dict[int, str] = {}
    texts: list[str] = []  # the last ones, two of which name what is looked up on the stack
    operand: Any
    for code, operand, _ in pickletools.genops(file):
        if code.name == "GLOBAL":
            module, _, name = operand.partition(" ")
            yield f"{PYTHON2_MODULE_NAMES.get(module, module)}.{name}"
        elif code.name == "STACK_GLOBAL" and len(texts) > 1:
            yield f"{PYTHON2_MODULE_NAMES.get(texts[-2], texts[-2])}.{texts[-1]}"
        elif "UNICODE" in code.name:
            texts = [*texts[-1:], operand]
        elif code.name == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else ""
        elif code.name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[operand] = texts[-1] if texts else ""
        elif code.name in ("GET", "BINGET", "LONG_BINGET"):
            texts = [*texts[-1:], memo.get(operand, "")]
