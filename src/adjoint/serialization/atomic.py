"""Atomic replacement of files."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterable

try:
    import fcntl
except ImportError:  # on Windows, and in a browser, where no other process writes
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

Chunk = bytes | memoryview

TEMPORARY = re.compile(r"\.adjoint-save-[0-9a-f]{16}\.tmp")


def replace_file(path: str | os.PathLike[str], chunks: Iterable[Chunk]) -> None:
    """Make `chunks` the content of the file at `path`.

    The bytes go to a temporary file in the same folder, reach the disk, and take the name in one step; a reader meets
    the old file or the new one. Any failure, an interrupt included, leaves the old file as it was and no temporary;
    what a killed writer left behind is removed by the next call in that folder. A symbolic link stays and its target
    is replaced. Permission bits of an existing file are kept.
    Errors: OSError as `open(path, "wb")` gives it, also for a path that is neither free nor a regular file.
    """
    target = os.path.realpath(os.fsdecode(path))
    folder = os.path.dirname(target)
    permissions = _permissions(target)
    _remove_stale_temporaries(folder)
    descriptor, temporary = -1, ""
    try:
        while descriptor < 0:
            temporary = os.path.join(folder, f".adjoint-save-{secrets.token_hex(8)}.tmp")
            # Closed to others until it has the permissions of the file it replaces.
            descriptor = _create_temporary(temporary, 0o666 if permissions is None else 0o600)
        for chunk in chunks:
            write_all(functools.partial(os.write, descriptor), chunk)
        if permissions is not None:
            os.chmod(temporary, permissions)
        os.fsync(descriptor)
        if sys.platform == "win32":  # an open file cannot be renamed there
            os.close(descriptor)
            descriptor = -1
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    _sync_folder(folder)


def write_all(write: Callable[[memoryview], int | None], chunk: Chunk) -> None:
    """Call `write` until the whole chunk is taken; a `write` that returns None has taken all it was given."""
    rest = memoryview(chunk).cast("B")
    while rest:
        taken = write(rest)
        rest = rest[len(rest) if taken is None else taken :]


def _permissions(target: str) -> int | None:
    """Permission bits of the file to be replaced, None when there is none."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"cannot save to {target}: it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(f"cannot save to {target}: it is not a regular file, and replacing it would remove it")
    if not os.access(target, os.W_OK):
        raise PermissionError(f"cannot save to {target}: it is write-protected")
    return stat.S_IMODE(mode)


def _create_temporary(temporary: str, permissions: int) -> int:
    """Open a new file and hold its lock, which tells sweepers that its writer lives; -1 when one was quicker."""
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), permissions)
    if HAS_LOCKS:
        with contextlib.suppress(OSError):  # a file system without locks: its temporaries are never swept
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink == 0:
            os.close(descriptor)
            return -1
    return descriptor


def _remove_stale_temporaries(folder: str) -> None:
    """Remove the temporaries of dead writers: those whose lock is free, for the system frees it when a process ends.

    A lock, unlike a process number, holds across containers and is never mistaken for a newer process.
    """
    if not HAS_LOCKS:
        return
    for name in os.listdir(folder):
        if not TEMPORARY.fullmatch(name):
            continue
        path = os.path.join(folder, name)
        # Sweeping is a courtesy: another user's file, or one that has just gone, is no reason to fail a save.
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(descriptor)


def _sync_folder(folder: str) -> None:
    """Make the renaming itself survive a power cut."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
