"""The object cache: what is kept, what is refused, and what happens when the disk or another process interferes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjoint.compiler.cache import disk_cache, object_cache
from adjoint.compiler.cache.object_cache import ObjectCache, entry_key
from adjoint.compiler.llvm.jit import target

KERNEL = "define void @k(ptr %args, i64 %tile, i64 %thread) {\n  ret void\n}\n"
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts compiled, in order; a compilation here takes no time."""
    texts: list[str] = []

    def emit_object(self: target.Target, text: str) -> bytes:
        texts.append(text)
        return b"object of " + text.encode()

    monkeypatch.setattr(target.Target, "emit_object", emit_object)
    return texts


def entries(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if not path.name.startswith("."))


def test_memory_then_disk_then_the_compiler(directory: Path, emitted: list[str]) -> None:
    first = ObjectCache(directory)
    data = first.compile_kernel(KERNEL)
    assert first.compile_kernel(KERNEL) == data
    assert ObjectCache(directory).compile_kernel(KERNEL) == data
    assert emitted == [KERNEL]
    assert ObjectCache(None).compile_kernel(KERNEL) == data
    assert emitted == [KERNEL, KERNEL]
    assert [path.name for path in entries(directory)] == [entry_key(KERNEL)]


def test_real_objects_survive(directory: Path) -> None:
    data = ObjectCache(directory).compile_kernel(KERNEL)
    assert ObjectCache(directory).get(entry_key(KERNEL)) == data == target.host().emit_object(KERNEL)


@posix
def test_the_directory_and_its_files_are_this_users_alone(directory: Path) -> None:
    ObjectCache(directory).compile_kernel(KERNEL)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


def test_the_key_covers_text_machine_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {entry_key(KERNEL), entry_key(KERNEL + "\n")}
    monkeypatch.setattr(target.Target, "fingerprint", lambda self: "another machine")
    keys.add(entry_key(KERNEL))
    monkeypatch.setattr(sys.modules["adjoint"], "__version__", "another version", raising=False)
    keys.add(entry_key(KERNEL))
    assert len(keys) == 4


def mutations(entry: bytes) -> Iterator[bytes]:
    yield b""
    yield entry + b"\0"
    yield entry[len(entry) // 2 :]
    for length in (1, 7, 8, 20, 50, 84, len(entry) - 1):
        yield entry[:length]
    for at in range(len(entry)):
        yield entry[:at] + bytes([entry[at] ^ 1 << at % 8]) + entry[at + 1 :]


def test_an_altered_entry_is_deleted_and_made_again(directory: Path, emitted: list[str]) -> None:
    ObjectCache(directory).compile_kernel(KERNEL)
    (path,) = entries(directory)
    entry = path.read_bytes()
    reader = ObjectCache(directory)
    count = 0
    for altered in mutations(entry):
        path.write_bytes(altered)
        assert reader.get(path.name) is None
        assert not path.exists()
        count += 1
    assert count > 100
    assert ObjectCache(directory).compile_kernel(KERNEL) == b"object of " + KERNEL.encode()
    assert path.read_bytes() == entry


def test_an_entry_under_anothers_name_is_refused(directory: Path, emitted: list[str]) -> None:
    other = KERNEL + "; another\n"
    writer = ObjectCache(directory)
    data, _ = writer.compile_kernel(KERNEL), writer.compile_kernel(other)
    one, two = directory / entry_key(KERNEL), directory / entry_key(other)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert ObjectCache(directory).compile_kernel(KERNEL) == data
    assert emitted == [KERNEL, other, KERNEL]


def test_an_entry_of_another_format_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = ObjectCache(directory)
    monkeypatch.setattr(disk_cache, "_FORMAT", disk_cache._FORMAT + 1)
    writer.put(entry_key(KERNEL), b"of tomorrow")
    assert ObjectCache(directory).get(entry_key(KERNEL)) == b"of tomorrow"
    monkeypatch.undo()
    assert ObjectCache(directory).get(entry_key(KERNEL)) is None


def test_an_entry_made_with_another_secret_is_refused(directory: Path, tmp_path: Path) -> None:
    key, stranger = entry_key(KERNEL), tmp_path / "stranger"
    ObjectCache(stranger).put(key, b"not ours")
    ObjectCache(directory).put(key, b"ours")
    (directory / key).write_bytes((stranger / key).read_bytes())
    assert ObjectCache(directory).get(key) is None


@posix
def test_what_is_no_file_of_ours_is_removed_unread(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, cached = entry_key(KERNEL), ObjectCache(directory)
    cached.put(key, b"data")
    path = directory / key
    whole = path.read_bytes()
    elsewhere = directory.with_name("elsewhere")
    elsewhere.write_bytes(whole)

    def refused() -> bool:
        return ObjectCache(directory).get(key) is None and not os.path.lexists(path)

    path.unlink()
    path.symlink_to(elsewhere)
    assert refused()
    os.mkfifo(path)  # which nobody will ever write: reading it would wait for ever
    assert refused()
    path.mkdir()
    assert refused()
    path.write_bytes(whole)
    path.chmod(0o666)
    assert refused()
    with open(path, "wb") as file:
        file.truncate(2**40)
    assert refused()
    path.write_bytes(whole)
    path.chmod(0o600)
    fstat, reader = os.fstat, ObjectCache(directory)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", lambda fd: os.stat_result((*fstat(fd)[:4], os.getuid() + 1, *fstat(fd)[5:])))
        assert reader.get(key) is None
    assert not path.exists()
    path.write_bytes(whole)
    path.chmod(0o600)
    assert ObjectCache(directory).get(key) == b"data"


@pytest.mark.parametrize("damage", ["removed", "emptied", "cut", "lengthened"])
def test_without_its_secret_the_cache_starts_anew(directory: Path, damage: str) -> None:
    key = entry_key(KERNEL)
    ObjectCache(directory).put(key, b"data")
    secret = directory / ".key"
    whole = secret.read_bytes()
    if damage == "removed":
        secret.unlink()
    else:
        secret.write_bytes({"emptied": b"", "cut": whole[:31], "lengthened": whole + b"\0"}[damage])
    again = ObjectCache(directory)
    assert again.get(key) is None
    again.put(key, b"data")
    assert ObjectCache(directory).get(key) == b"data"
    assert secret.read_bytes() != whole


@posix
def test_a_secret_that_others_could_read_is_replaced(directory: Path) -> None:
    key = entry_key(KERNEL)
    ObjectCache(directory).put(key, b"data")
    (directory / ".key").chmod(0o644)
    assert ObjectCache(directory).get(key) is None
    assert (directory / ".key").stat().st_mode & 0o777 == 0o600


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_directory_others_can_write_is_refused(directory: Path, mode: int, emitted: list[str]) -> None:
    directory.mkdir()
    directory.chmod(mode)
    with pytest.warns(RuntimeWarning, match="can be written by other users"):
        refused = ObjectCache(directory)
    assert refused.compile_kernel(KERNEL)
    assert refused.compile_kernel(KERNEL)
    assert emitted == [KERNEL]
    assert list(directory.iterdir()) == []


@posix
def test_a_link_to_such_a_directory_is_refused_and_one_to_a_good_one_is_not(directory: Path, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.mkdir()
    bad.chmod(0o777)
    good.mkdir(0o700)
    directory.symlink_to(bad)
    with pytest.warns(RuntimeWarning, match="can be written by other users"):
        ObjectCache(directory)
    directory.unlink()
    directory.symlink_to(good)
    ObjectCache(directory).put(entry_key(KERNEL), b"data")
    assert len(entries(good)) == 1


@posix
def test_another_users_directory_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.mkdir(0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        ObjectCache(directory).put(entry_key(KERNEL), b"data")
    assert list(directory.iterdir()) == []


def test_a_file_in_the_directorys_place(directory: Path, emitted: list[str]) -> None:
    directory.write_text("")
    with pytest.warns(RuntimeWarning, match="is no directory"):
        assert ObjectCache(directory).compile_kernel(KERNEL)
    below = ObjectCache(directory / "below")
    assert below.compile_kernel(KERNEL)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a file that is always full")
def test_a_full_disk_costs_nothing_but_the_cache(
    directory: Path, monkeypatch: pytest.MonkeyPatch, emitted: list[str]
) -> None:
    full = ObjectCache(directory)
    opened = os.open

    def no_space(path: object, flags: int, *mode: int) -> int:
        if not flags & os.O_CREAT:
            return opened(path, flags, *mode)
        os.close(opened(path, flags, *mode))
        return opened("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(os, "open", no_space)
    data = full.compile_kernel(KERNEL)
    assert full.compile_kernel(KERNEL) == data
    assert emitted == [KERNEL]
    assert [path.name for path in directory.iterdir()] == [".key"]
    new = ObjectCache(directory / "new")
    assert new.compile_kernel(KERNEL) == data
    assert list((directory / "new").iterdir()) == []


def test_a_read_only_directory_is_read(directory: Path, monkeypatch: pytest.MonkeyPatch, emitted: list[str]) -> None:
    ObjectCache(directory).compile_kernel(KERNEL)
    # As root, no mode of the directory would forbid anything.
    opened = os.open

    def read_only(path: object, flags: int, *mode: int, **at: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(30, "Read-only file system")
        return opened(path, flags, *mode, **at)

    monkeypatch.setattr(os, "open", read_only)
    cached = ObjectCache(directory)
    cached.compile_kernel(KERNEL)
    assert emitted == [KERNEL]
    cached.compile_kernel(KERNEL + "\n")
    cached.compile_kernel(KERNEL + "\n")
    assert emitted == [KERNEL, KERNEL + "\n"]
    assert len(entries(directory)) == 1


def test_a_read_only_directory_without_a_secret(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    cached = ObjectCache(directory)
    cached.put(entry_key(KERNEL), b"data")
    assert cached.get(entry_key(KERNEL)) == b"data"
    assert list(directory.iterdir()) == []


def test_the_oldest_entries_make_room(directory: Path) -> None:
    limited = ObjectCache(directory, limit=10_000)
    keys = [entry_key(str(i)) for i in range(30)]
    for i, key in enumerate(keys):
        limited.put(key, bytes(1000))
        if (directory / key).exists():
            os.utime(directory / key, (i, i))
    left = [key for key in keys if (directory / key).exists()]
    assert left == keys[-len(left) :]
    assert 6 <= len(left) <= 10


def test_the_limit_holds_for_all_processes_together(directory: Path) -> None:
    sharers = [ObjectCache(directory, limit=100_000) for _ in range(8)]
    for i in range(800):
        sharers[i % 8].put(entry_key(str(i)), bytes(1000))
    assert sum(path.stat().st_size for path in entries(directory)) <= 150_000


def test_a_relative_directory_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    cached = ObjectCache(Path("cache"))
    monkeypatch.chdir(elsewhere)
    cached.put(entry_key(KERNEL), b"data")
    assert list(elsewhere.iterdir()) == []
    assert ObjectCache(tmp_path / "cache").get(entry_key(KERNEL)) == b"data"


def test_drafts_of_the_dead_are_swept(directory: Path) -> None:
    ObjectCache(directory)
    old, new = directory / ".0011.tmp", directory / ".2233.tmp"
    for draft in (old, new):
        draft.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    ObjectCache(directory, limit=1000).put(entry_key(KERNEL), b"data")
    assert not old.exists()
    assert new.exists()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "MAX_MEMORY_BYTES", 10_000)
    kept = ObjectCache(None)
    keys = [entry_key(str(i)) for i in range(25)]
    for key in keys:
        kept.put(key, bytes(1000))
    assert kept.get(keys[-1]) == bytes(1000)
    assert sum(kept.get(key) is not None for key in keys) <= 10


@pytest.mark.parametrize(("variables", "want"), [
    ({"ADJOINT_NO_CACHE": "1", "ADJOINT_CACHE_DIR": "/a"}, None),
    ({"ADJOINT_NO_CACHE": "yes", "HOME": "/h"}, None),
    ({"ADJOINT_NO_CACHE": "0", "ADJOINT_CACHE_DIR": "/a"}, Path("/a")),
    ({"ADJOINT_CACHE_DIR": "/a/b", "HOME": "/h"}, Path("/a/b")),
    ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, Path("/x/adjoint")),
    ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, Path("/h/.cache/adjoint")),
    ({"HOME": "/h", "ADJOINT_NO_CACHE": ""}, Path("/h/.cache/adjoint")),
    ({"HOME": ""}, None),
    ({}, None),
])  # fmt: skip
def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], want: Path | None) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("ADJOINT_NO_CACHE", "ADJOINT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert disk_cache.default_directory() == (want and str(want))
