"""Leave to use tile registers (AMX): Linux keeps their 8 KiB only for a process that has asked for them.

Linux kernel documentation, "Using XSTATE features in user space applications".
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

ARCH_PRCTL, REQUEST, TILE_DATA = 158, 0x1023, 18  # of x86-64


def usable_features(features: str) -> str:
    """The features of the processor without those that this process may not use, which it asks for now."""
    if "+amx-tile" not in features or may_use_tiles():
        return features
    return features.replace("+amx-", "-amx-")


@cache
def may_use_tiles() -> bool:
    """Ask Linux for tile registers; true if the threads of this process, and its forks, may use them from here on."""
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return False
    return int(ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST, TILE_DATA)) == 0
