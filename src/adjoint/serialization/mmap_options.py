"""In which byte order files are read that do not say theirs: those PyTorch wrote before 2.1."""

from __future__ import annotations

import mmap
import sys
from enum import Enum
from types import TracebackType

__all__ = ["get_default_mmap_options", "set_default_mmap_options", "shared"]


class LoadEndianness(Enum):
    """The byte order of a file that does not say it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_chosen: list[LoadEndianness | None] = [None]


def get_default_load_endianness() -> LoadEndianness | None:
    """What was set; None for little, as PyTorch takes it."""
    return _chosen[0]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Read files that do not say their byte order in this one. Raises TypeError for anything else."""
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _chosen[0] = endianness


def assumed_order() -> bytes:
    """`little` or `big`."""
    chosen = _chosen[0]
    if chosen is LoadEndianness.NATIVE:
        return sys.byteorder.encode()
    return b"big" if chosen is LoadEndianness.BIG else b"little"


_chosen = [mmap.MAP_PRIVATE]


def get_default_mmap_options() -> int:
    """What was set: `mmap.MAP_PRIVATE` at first."""
    return _chosen[0]


class set_default_mmap_options:
    """Map files as `mmap.MAP_PRIVATE` or `mmap.MAP_SHARED` says, from the call on or until the end of a `with` block.

    Tensors of a shared file write into it, and its checksums are neither looked at nor kept right: loaded without
    `mmap`, it counts as damaged afterwards. Raises ValueError for other flags.
    """

    def __init__(self, flags: int) -> None:
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}"
            )
        self.prev = _chosen[0]
        _chosen[0] = flags

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _chosen[0] = self.prev


def shared() -> bool:
    """True if what is written to a mapped file goes into it."""
    return _chosen[0] == mmap.MAP_SHARED
