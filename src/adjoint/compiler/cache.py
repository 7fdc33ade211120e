"""Object code kept between compilations, in memory and on disk.

Loading object code is running it, so an entry is trusted only if this user wrote it: the directory must be this
user's alone, and each entry carries a code made with a key that only this user can read. Whatever does not verify is
deleted and compiled again. Nothing here fails a compilation: without a usable disk the cache is memory alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
import struct
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from adjoint.compiler.llvm import target
from adjoint.core.site import user_site

if TYPE_CHECKING:
    from adjoint.compiler.kernels.code import Code

LIMIT = 256 * 2**20
MEMORY_LIMIT = 8 * 2**20

_MAGIC = b"adjoint\0"
_FORMAT = 1
_HEADER = struct.Struct("<8sI32sQ")  # magic, format, key, length of the object
_CODE_SIZE = hashlib.sha256().digest_size
_STALE_SECONDS = 3600
_LONGEST = 64 * 2**20  # of a file that is read: no object comes near it


def compile_kernel(code: Code | str) -> bytes:
    """A module's object code for this machine: from memory, else from disk, else newly made."""
    return _process_cache().compile_kernel(code)


class ObjectCache:
    """Objects by key, in memory and in a directory; `None` for memory only."""

    def __init__(self, directory: Path | None, limit: int = LIMIT) -> None:
        self._objects: dict[str, bytes] = {}
        self._size = 0
        self._disk = _Disk.open(directory, limit) if directory else None

    def compile_kernel(self, code: Code | str) -> bytes:
        """As the function of this name."""
        key = entry_key(code if isinstance(code, str) else code.key)
        data = self.get(key)
        if data is None:
            data = target.host().emit_object(str(code))
            self.put(key, data)
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
        if self._size + len(data) > MEMORY_LIMIT:
            self._objects, self._size = {}, 0
        self._size += 0 if key in self._objects else len(data)
        self._objects[key] = data


def entry_key(text: str) -> str:
    """SHA-256 of what decides the object code: the module or its key, the machine, LLVM's version and Adjoint's."""
    version = getattr(sys.modules.get("adjoint"), "__version__", "")
    return hashlib.sha256(f"{version}\0{target.host().fingerprint()}\0{text}".encode()).hexdigest()


def default_directory() -> Path | None:
    """`$ADJOINT_CACHE_DIR`, else `adjoint` where this platform keeps caches.

    None if `$ADJOINT_NO_CACHE` is set, to anything but 0, or if there is no home.
    """
    if os.environ.get("ADJOINT_NO_CACHE", "0") not in ("", "0"):
        return None
    if given := os.environ.get("ADJOINT_CACHE_DIR"):
        return Path(given)
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA")
        return Path(root) / "adjoint" if root else None
    if (root := os.environ.get("XDG_CACHE_HOME")) and os.path.isabs(root):
        return Path(root) / "adjoint"
    home = os.environ.get("HOME")
    if not home or not os.path.isabs(home):
        return None
    return Path(home, *(["Library", "Caches"] if sys.platform == "darwin" else [".cache"]), "adjoint")


@cache
def _process_cache() -> ObjectCache:
    return ObjectCache(default_directory())


class _Disk:
    """A directory of entries: header, authentication code over header and object, object."""

    def __init__(self, directory: Path, secret: bytes, limit: int) -> None:
        self._directory, self._secret, self._limit = directory, secret, limit
        self._writable = True
        self._room = 0  # bytes to write before the directory is read again

    @classmethod
    def open(cls, directory: Path, limit: int) -> _Disk | None:
        """The directory, made if it is missing; None where it cannot be used or must not be trusted."""
        directory = Path(os.path.abspath(directory))  # wherever this process goes later
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                directory.mkdir(mode=0o700)
            if fault := _fault(directory):
                complaint = f"compiled code is not cached on disk: {directory} {fault}"
                warnings.warn_explicit(complaint, RuntimeWarning, *user_site()[:2])
                return None
            return cls(directory, _secret(directory), limit)
        except OSError:
            return None

    def read(self, key: str) -> bytes | None:
        path = self._directory / key
        try:
            entry = _read_own(path)
        except FileNotFoundError:
            return None
        except OSError:
            entry = b""
        start = _HEADER.size + _CODE_SIZE
        header, code, data = entry[: _HEADER.size], entry[_HEADER.size : start], entry[start:]
        if header == _header(key, data) and hmac.compare_digest(code, self._code(header, data)):
            with contextlib.suppress(OSError):
                os.utime(path)  # the oldest to be used goes first
            return data
        _remove(path)
        return None

    def write(self, key: str, data: bytes) -> None:
        if not self._writable:
            return
        header = _header(key, data)
        entry = header + self._code(header, data) + data
        try:
            self._make_room(len(entry))
            _write_atomically(self._directory / key, entry)
        except OSError:
            # Full or read-only: it will be so for the next entry too.
            self._writable = False

    def _code(self, header: bytes, data: bytes) -> bytes:
        return hmac.digest(self._secret, header + data, "sha256")

    def _make_room(self, needed: int) -> None:
        """Remove the oldest entries where the limit is passed; the directory is read at first and now and then."""
        if needed <= self._room:
            self._room -= needed
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
                _remove(Path(path))
                size -= length
        # Other processes write too: of what is left, each takes a part before it looks again.
        self._room = (self._limit - size) // 16


def _header(key: str, data: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, _FORMAT, bytes.fromhex(key), len(data))


def _fault(directory: Path) -> str | None:
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


def _secret(directory: Path) -> bytes:
    """This user's key, made at the first use."""
    path = directory / ".key"
    for _ in range(3):
        if secret := _read_secret(path):
            return secret
        # Linked into place when it is whole, so that of two processes both read the key of the first.
        draft = directory / f".{secrets.token_hex(8)}.tmp"
        try:
            _write_new(draft, secrets.token_bytes(32))
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            _remove(draft)
    raise OSError("no key could be made")


def _read_secret(path: Path) -> bytes | None:
    """The key, or None if there is none; one that others could have read or written is removed."""
    try:
        secret = _read_own(path, private=0o077)
    except FileNotFoundError:
        return None
    except OSError:
        secret = b""
    if len(secret) == 32:
        return secret
    path.unlink()
    return None


def _read_own(path: Path, private: int = 0o022) -> bytes:
    """The content of a plain file of this user's; OSError for any other, or if its mode has a bit of `private`."""
    # Not blocking: what lies there may be a pipe.
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        own = os.name != "posix" or (status.st_uid == os.getuid() and not status.st_mode & private)
        if not own or not stat.S_ISREG(status.st_mode) or status.st_size > _LONGEST:
            raise PermissionError(f"{path} is not this user's alone, or no plain file")
        return file.read()


def _remove(path: Path) -> None:
    """Remove whatever has an entry's name, an empty directory too."""
    for remove in (os.unlink, os.rmdir):
        with contextlib.suppress(OSError):
            remove(path)
            return


def _write_atomically(path: Path, content: bytes) -> None:
    """Leave the old file or the whole new one, whatever happens between."""
    draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        _write_new(draft, content)
        os.replace(draft, path)
    except BaseException:
        _remove(draft)
        raise


def _write_new(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)  # without fsync: what a lost page damages does not verify
