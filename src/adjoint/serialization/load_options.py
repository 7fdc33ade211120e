"""Process-wide defaults of `load`: the byte order of files that do not say theirs, and how files are mapped."""

from __future__ import annotations

import mmap
import sys
from enum import Enum
from types import TracebackType


class LoadEndianness(Enum):
    """The byte order of a file that does not say it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_default_endianness: list[LoadEndianness | None] = [None]


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the byte order that is set; None stands for little, as in PyTorch."""
    return _default_endianness[0]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Read files that do not say their byte order in this one. Raises TypeError for anything else."""
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _default_endianness[0] = endianness


def assumed_byte_order() -> bytes:
    """Return the byte order of files that do not say theirs, `little` or `big`: PyTorch wrote such before 2.1."""
    chosen = _default_endianness[0]
    if chosen is LoadEndianness.NATIVE:
        return sys.byteorder.encode()
    return b"big" if chosen is LoadEndianness.BIG else b"little"


_default_flags = [mmap.MAP_PRIVATE]


def get_default_mmap_options() -> int:
    """Return the flags that are set, `mmap.MAP_PRIVATE` at first."""
    return _default_flags[0]


class set_default_mmap_options:
    """Map files as `mmap.MAP_PRIVATE` or `mmap.MAP_SHARED` says, from the call on or until the end of a `with` block.

    Tensors of a shared file write into it. Nothing reads or updates its checksums, so that a later load without `mmap`
    finds it damaged.

    Raises: ValueError for other flags.
    """

    def __init__(self, flags: int) -> None:
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}"
            )
        self.prev = _default_flags[0]
        _default_flags[0] = flags

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _default_flags[0] = self.prev


def writes_through() -> bool:
    """True if writes to a mapped tensor go into the file."""
    return _default_flags[0] == mmap.MAP_SHARED
