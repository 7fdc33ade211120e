"""How `load(..., mmap=True)` maps a file into memory: what is written there stays there, or goes into the file."""

from __future__ import annotations

import mmap
from types import TracebackType

__all__ = ["get_default_mmap_options", "set_default_mmap_options", "writes_through"]

_default_flags = [mmap.MAP_PRIVATE]


def get_default_mmap_options() -> int:
    """What was set: `mmap.MAP_PRIVATE` at first."""
    return _default_flags[0]


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
        self.prev = _default_flags[0]
        _default_flags[0] = flags

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _default_flags[0] = self.prev


def writes_through() -> bool:
    """True if what is written to a mapped file goes into it."""
    return _default_flags[0] == mmap.MAP_SHARED
