"""Object code kept between compilations, in memory and on disk.

Loading object code is running it, so only entries that this user wrote are trusted (see disk.py). What is lost or
damaged is compiled again: without a usable disk the cache is memory alone.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING

from adjoint.compiler.cache.disk_cache import MAX_CACHE_BYTES, DiskCache, default_disk_cache
from adjoint.compiler.cache.hashing import digest
from adjoint.compiler.llvm.jit import target
from adjoint.compiler.log import LOGGED, log

if TYPE_CHECKING:
    from adjoint.compiler.kernels.kernel_text import KernelText

MAX_MEMORY_BYTES = 8 * 2**20


def compile_kernel(code: KernelText | str) -> bytes:
    """A module's object code for this machine: from memory, else from disk, else newly made."""
    return _process_cache().compile_kernel(code)


class ObjectCache:
    """Objects by key, in memory and on a disk; `None` for memory only."""

    def __init__(self, disk: DiskCache | str | os.PathLike[str] | None, limit: int = MAX_CACHE_BYTES) -> None:
        self._objects: dict[str, bytes] = {}
        self._size = 0
        self._disk = disk if disk is None or isinstance(disk, DiskCache) else DiskCache.open(disk, limit)

    def compile_kernel(self, code: KernelText | str) -> bytes:
        """Return a module's object code: from memory, else from disk, else newly made."""
        key = entry_key(code if isinstance(code, str) else code.key)
        how = "in memory" if key in self._objects else "on disk"
        data = self.get(key)
        if data is None:
            how, data = "compiled", target.host().emit_object(str(code))
            self.put(key, data)
        if "cache" in LOGGED:
            log("cache", f"kernel {key[:12]}: {how}, {len(data)} bytes")
        return data

    def get(self, key: str) -> bytes | None:
        """The object under a key."""
        data = self._objects.get(key)
        if data is None and self._disk:
            data = self._disk.read(key)
            if data is not None:
                self._remember(key, data)
        return data

    def put(self, key: str, data: bytes) -> None:
        """Keep an object under a key, which must be one of `entry_key`."""
        self._remember(key, data)
        if self._disk:
            self._disk.write(key, data)

    def _remember(self, key: str, data: bytes) -> None:
        # Programs hold their own code, so forgetting all at once costs little, and needs no lock.
        if self._size + len(data) > MAX_MEMORY_BYTES:
            self._objects, self._size = {}, 0
        self._size += 0 if key in self._objects else len(data)
        self._objects[key] = data


def entry_key(text: str) -> str:
    """The digest of what decides the object code: the module or its key, the machine, LLVM's version and Adjoint's."""
    version = getattr(sys.modules.get("adjoint"), "__version__", "")
    return digest(f"{version}\0{target.host().fingerprint()}\0{text}")


@cache
def _process_cache() -> ObjectCache:
    return ObjectCache(default_disk_cache())
