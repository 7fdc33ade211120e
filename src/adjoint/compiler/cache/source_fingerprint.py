"""The state of this package's source files, which tells what one version of it made from what another would make."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

from adjoint.compiler.cache.hashing import digest
from adjoint.core.graph.source_location import PACKAGE

FINGERPRINT_LAYERS = ("core", "ops", "compiler")  # of the package, by which a kernel's text is decided


@cache
def source_fingerprint(*more: str) -> str:
    """Hash the names, sizes and times of the files of LAYERS, and of more layers."""
    return digest("".join(map(_layer_state, (*FINGERPRINT_LAYERS, *more))))


@cache
def _layer_state(layer: str) -> str:
    return repr(sorted(_scan_files(os.path.join(PACKAGE, layer))))


def _scan_files(folder: str) -> Iterator[tuple[str, int, int]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:  # the package is no folder: its version says what it is
        return
    for entry in entries:
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _scan_files(entry.path)
        elif entry.name.endswith(".py"):
            status = entry.stat()
            yield entry.path[len(PACKAGE) :], status.st_size, status.st_mtime_ns


source_fingerprint()  # now, as the modules are loaded: later the files may be others than those that run
