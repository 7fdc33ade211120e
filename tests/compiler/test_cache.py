"""The object cache: what is kept, what is refused, and what happens when the disk or another process interferes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjoint.compiler import cache
from adjoint.compiler.cache import ObjectCache, entry_key
from adjoint.compiler.llvm import target

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
    monkeypatch.setattr(cache, "_FORMAT", 2)
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


def test_a_full_disk_costs_nothing_but_the_cache(
    directory: Path, monkeypatch: pytest.MonkeyPatch, emitted: list[str]
) -> None:
    full = ObjectCache(directory)

    def fsync(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    data = full.compile_kernel(KERNEL)
    assert full.compile_kernel(KERNEL) == data
    assert emitted == [KERNEL]
    assert [path.name for path in directory.iterdir()] == [".key"]


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


def test_drafts_of_the_dead_are_swept(directory: Path) -> None:
    ObjectCache(directory)
    old, new = directory / ".0011.tmp", directory / ".2233.tmp"
    for draft in (old, new):
        draft.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    ObjectCache(directory).put(entry_key(KERNEL), b"data")
    assert not old.exists()
    assert new.exists()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MEMORY_LIMIT", 10_000)
    kept = ObjectCache(None)
    keys = [entry_key(str(i)) for i in range(25)]
    for key in keys:
        kept.put(key, bytes(1000))
    assert kept.get(keys[-1]) == bytes(1000)
    assert sum(kept.get(key) is not None for key in keys) <= 10


@pytest.mark.parametrize(("variables", "want"), [
    ({"ADJOINT_CACHE": "0", "ADJOINT_CACHE_DIR": "/a"}, None),
    ({"ADJOINT_CACHE_DIR": "/a/b", "HOME": "/h"}, Path("/a/b")),
    ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, Path("/x/adjoint")),
    ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, Path("/h/.cache/adjoint")),
    ({"HOME": "/h", "ADJOINT_CACHE": "1"}, Path("/h/.cache/adjoint")),
    ({"HOME": ""}, None),
    ({}, None),
])  # fmt: skip
def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], want: Path | None) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("ADJOINT_CACHE", "ADJOINT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache.default_directory() == want


WORKER = """
import sys
from pathlib import Path
from adjoint.compiler.cache import ObjectCache, entry_key
cached = ObjectCache(Path(sys.argv[1]))
print("ready", flush=True)
for round in range(int(sys.argv[2])):
    for i in range(40):
        key, data = entry_key(str(i)), str(i).encode() * 500
        found = cached._disk.read(key)
        assert found is None or found == data, (i, found)
        cached.put(key, data)
"""


def start(directory: Path, rounds: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(directory), str(rounds)], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_four_processes_share_a_directory(directory: Path) -> None:
    workers = [start(directory, 3) for _ in range(4)]
    for worker in workers:
        worker.communicate(timeout=100)
        assert worker.returncode == 0
    reader = ObjectCache(directory)
    assert all(reader.get(entry_key(str(i))) == str(i).encode() * 500 for i in range(40))
    assert len(entries(directory)) == 40


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_writer_killed_leaves_whole_entries(directory: Path) -> None:
    for delay in (0.0, 0.003, 0.011, 0.023):
        worker = start(directory, 10_000)
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        time.sleep(delay)
        worker.kill()
        worker.communicate(timeout=100)
        reader = ObjectCache(directory)
        for path in entries(directory):
            assert reader.get(path.name) is not None
