"""In which byte order files are read that do not say theirs: those PyTorch wrote before 2.1."""

from __future__ import annotations

import sys
from enum import Enum


class LoadEndianness(Enum):
    """The byte order of a file that does not say it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_default_endianness: list[LoadEndianness | None] = [None]


def get_default_load_endianness() -> LoadEndianness | None:
    """What was set; None for little, as PyTorch takes it."""
    return _default_endianness[0]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Read files that do not say their byte order in this one. Raises TypeError for anything else."""
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _default_endianness[0] = endianness


def assumed_byte_order() -> bytes:
    """`little` or `big`."""
    chosen = _default_endianness[0]
    if chosen is LoadEndianness.NATIVE:
        return sys.byteorder.encode()
    return b"big" if chosen is LoadEndianness.BIG else b"little"
