"""Files which only this user can have written: entries by key in a directory, each with a code that shows it whole.

Each entry carries a code made with a key that only this user can read. Whatever does not verify is deleted. Nothing
here fails: a directory that cannot be used, or must not be trusted, is as good as none.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import sys
import time
import warnings
from functools import cache

from adjoint.compiler.cache.hashing import DIGEST_BYTES, sign
from adjoint.core.graph.source_location import user_site

MAX_CACHE_BYTES = 256 * 2**20

_MAGIC = b"adjoint\0"
_FORMAT = 2
_HEADER = struct.Struct("<8sI32sQ")  # magic, format, key, length of the content
_STALE_SECONDS = 3600
_MAX_FILE_BYTES = 64 * 2**20  # of a file that is read: no entry comes near it


@cache
def default_disk_cache() -> DiskCache | None:
    """The directory of this process."""
    directory = default_directory()
    return DiskCache.open(directory) if directory else None


class DiskCache:
    """A directory of entries: header, authentication code over header and content, content."""

    def __init__(self, directory: str, secret: bytes, limit: int) -> None:
        self._directory, self._secret, self._limit = directory, secret, limit
        self._writable = True
        # Bytes to write before the directory is read again: one of eight processes does so at once, as a directory of
        # many small entries takes a second.
        self._bytes_until_scan = limit // 64 if os.urandom(1)[0] % 8 else 0

    @classmethod
    def open(cls, directory: str | os.PathLike[str], limit: int = MAX_CACHE_BYTES) -> DiskCache | None:
        """The directory, made if it is missing; None where it cannot be used or must not be trusted."""
        directory = os.path.abspath(directory)  # wherever this process goes later
        try:
            os.makedirs(os.path.dirname(directory), exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory, mode=0o700)
            if fault := _why_untrusted(directory):
                complaint = f"compiled code is not cached on disk: {directory} {fault}"
                warnings.warn_explicit(complaint, RuntimeWarning, *user_site()[:2])
                return None
            return cls(directory, _load_or_make_secret(directory), limit)
        except OSError:
            return None

    def read(self, key: str, kind: str = "") -> bytes | None:
        """The content under a key, a digest of 32 bytes in hexadecimal digits; `kind` ends the names of its files."""
        path = os.path.join(self._directory, key + kind)
        try:
            entry = _read_own_file(path)
        except FileNotFoundError:
            return None
        except OSError:
            entry = b""
        start = _HEADER.size + DIGEST_BYTES
        header, code, data = entry[: _HEADER.size], entry[_HEADER.size : start], entry[start:]
        if header == _make_header(key, data) and code == sign(self._secret, header + data):
            with contextlib.suppress(OSError):
                os.utime(path)  # the oldest to be used goes first
            return data
        _remove(path)
        return None

    def write(self, key: str, data: bytes, kind: str = "") -> None:
        """Keep content under a key."""
        if not self._writable:
            return
        header = _make_header(key, data)
        entry = header + sign(self._secret, header + data) + data
        try:
            self._make_room(len(entry))
            _write_atomically(os.path.join(self._directory, key + kind), entry)
        except OSError:
            # Full or read-only: it will be so for the next entry too.
            self._writable = False

    def _make_room(self, needed: int) -> None:
        """Remove the oldest entries where the limit is passed; the directory is read at first and now and then."""
        if needed <= self._bytes_until_scan:
            self._bytes_until_scan -= needed
            return
        entries = []
        for entry in os.scandir(self._directory):
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if not entry.name.startswith("."):
                    entries.append((status.st_mtime, status.st_size, entry.path))
                elif entry.name.endswith(".tmp") and abs(time.time() - status.st_mtime) > _STALE_SECONDS:
                    os.unlink(entry.path)
        size = sum(length for _, length, _ in entries) + needed
        if size > self._limit:
            # To three quarters, so that not every write from here on comes to this.
            for _, length, path in sorted(entries):
                if size <= self._limit * 3 // 4:
                    break
                _remove(path)
                size -= length
        # Other processes write too: of what is left, each takes a part before it looks again.
        self._bytes_until_scan = (self._limit - size) // 16


def default_directory() -> str | None:
    """`$ADJOINT_CACHE_DIR`, else `adjoint` where this platform keeps caches.

    None if `$ADJOINT_NO_CACHE` is set, to anything but 0, or if there is no home.
    """
    if os.environ.get("ADJOINT_NO_CACHE", "0") not in ("", "0"):
        return None
    if given := os.environ.get("ADJOINT_CACHE_DIR"):
        return given
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA")
        return os.path.join(root, "adjoint") if root else None
    if (root := os.environ.get("XDG_CACHE_HOME")) and os.path.isabs(root):
        return os.path.join(root, "adjoint")
    home = os.environ.get("HOME")
    if not home or not os.path.isabs(home):
        return None
    return os.path.join(home, *(["Library", "Caches"] if sys.platform == "darwin" else [".cache"]), "adjoint")


def _make_header(key: str, data: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, _FORMAT, bytes.fromhex(key), len(data))


def _why_untrusted(directory: str) -> str | None:
    """Why others could put code into the directory, if they could."""
    for status in (os.lstat(directory), os.stat(directory)):
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            return "belongs to another user"
        if stat.S_ISLNK(status.st_mode):
            continue
        if not stat.S_ISDIR(status.st_mode):
            return "is no directory"
        if os.name == "posix" and status.st_mode & 0o022:
            return "can be written by other users"
    return None


def _load_or_make_secret(directory: str) -> bytes:
    """This user's key, made at the first use."""
    path = os.path.join(directory, ".key")
    for _ in range(3):
        if secret := _read_secret(path):
            return secret
        # Linked into place when it is whole, so that of two processes both read the key of the first.
        draft = os.path.join(directory, f".{os.urandom(8).hex()}.tmp")
        try:
            _write_new(draft, os.urandom(32))
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            _remove(draft)
    raise OSError("no key could be made")


def _read_secret(path: str) -> bytes | None:
    """The key, or None if there is none; one that others could have read or written is removed."""
    try:
        secret = _read_own_file(path, private=0o077)
    except FileNotFoundError:
        return None
    except OSError:
        secret = b""
    if len(secret) == 32:
        return secret
    os.unlink(path)
    return None


def _read_own_file(path: str, private: int = 0o022) -> bytes:
    """The content of a plain file of this user's; OSError for any other, or if its mode has a bit of `private`."""
    # Not blocking: what lies there may be a pipe.
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        own = os.name != "posix" or (status.st_uid == os.getuid() and not status.st_mode & private)
        if not own or not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_FILE_BYTES:
            raise PermissionError(f"{path} is not this user's alone, or no plain file")
        return file.read()


def _remove(path: str) -> None:
    """Remove whatever has an entry's name, an empty directory too."""
    for remove in (os.unlink, os.rmdir):
        with contextlib.suppress(OSError):
            remove(path)
            return


def _write_atomically(path: str, content: bytes) -> None:
    """Leave the old file or the whole new one, whatever happens between."""
    draft = os.path.join(os.path.dirname(path), f".{os.urandom(8).hex()}.tmp")
    try:
        _write_new(draft, content)
        os.replace(draft, path)
    except BaseException:
        _remove(draft)
        raise


def _write_new(path: str, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)  # without fsync: what a lost page damages does not verify
