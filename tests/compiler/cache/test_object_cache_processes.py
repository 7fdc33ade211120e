"""The object cache between processes: damaged entries, many at work in one directory, killed ones, full disks.

ADJOINT_NIGHTLY=1 runs them at full size.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")
from adjoint.compiler.cache.object_cache import ObjectCache, entry_key

NIGHTLY = os.environ.get("ADJOINT_NIGHTLY") == "1"
posix = pytest.mark.skipif(os.name != "posix", reason="signals, limits and owners are POSIX's")

PROGRAMS = """
import hashlib, sys
import adjoint as ad
from adjoint.compiler.llvm.jit.target import Target
made = []
emit = Target.emit_object
Target.emit_object = lambda self, text: (made.append(text), emit(self, text))[1]
digest = hashlib.sha256()
x = ad.arange(60.0).reshape(6, 10) / 7
for i in range(int(sys.argv[1])):
    step = ad.compile(lambda x: ((x * (i + 1)).exp().sum(1), (x - i).tanh()))
    for result in step(x):
        digest.update(result.numpy().tobytes())
print(digest.hexdigest(), len(made))
"""

WORKER = """
import sys
from pathlib import Path
from adjoint.compiler.cache.object_cache import ObjectCache, entry_key
cached = ObjectCache(Path(sys.argv[1]))
print("ready", flush=True)
for round in range(int(sys.argv[2])):
    for i in range(40):
        key, data = entry_key(str(i)), str(i).encode() * 500
        found = cached._disk.read(key)
        assert found is None or found == data, (i, found)
        cached.put(key, data)
"""


def start(directory: Path, program: str, *arguments: object, **more: str) -> subprocess.Popen[str]:
    variables = {key: value for key, value in os.environ.items() if key != "ADJOINT_NO_CACHE"}
    variables |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "ADJOINT_CACHE_DIR": str(directory), **more}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outcome(process: subprocess.Popen[str]) -> tuple[str, int]:
    """The bits that the programs gave, and how many kernels were made anew for them."""
    said, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint
    digest, made = said.split()
    return digest, int(made)


def entries(directory: Path) -> list[Path]:
    """The objects, without what is kept of the machine and of plans."""
    return sorted(path for path in directory.iterdir() if "." not in path.name)


def damaged(whole: bytes, other: bytes, kind: str, draw: random.Random) -> bytes:
    if kind == "flipped":
        at = draw.randrange(len(whole))
        return whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :]
    if kind == "cut":
        return whole[: draw.randrange(len(whole))]
    if kind == "older":
        return whole[:8] + bytes(4) + whole[12:]  # the format's number
    return {"empty": b"", "swapped": other, "longer": whole + b"\0"}[kind]


KINDS = ["flipped", "cut", "empty", "swapped", "older", "longer"]


def test_a_fresh_process_meets_damaged_entries(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    cold = outcome(start(directory, PROGRAMS, 2))
    warm = outcome(start(directory, PROGRAMS, 2))
    originals = {path: path.read_bytes() for path in entries(directory)}
    assert warm == (cold[0], 0)
    assert len(originals) == cold[1]
    for seed in range(84 if NIGHTLY else 1):  # of six kinds: 504 for each entry
        for kind in KINDS if NIGHTLY else KINDS[:4]:
            draw = random.Random(seed)
            for (path, whole), other in zip(originals.items(), reversed(originals.values()), strict=True):
                path.write_bytes(damaged(whole, other, kind, draw))
            changed = sum(path.read_bytes() != whole for path, whole in originals.items())
            assert outcome(start(directory, PROGRAMS, 2)) == (cold[0], changed), (seed, kind)
            assert {path: path.read_bytes() for path in entries(directory)} == originals


def test_entries_of_another_machine_are_not_looked_at(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    patch = "from adjoint.compiler.llvm.jit.target import Target\nTarget.fingerprint = lambda self: 'another'\n"
    other = f"{patch}{PROGRAMS}"
    digest, made = outcome(start(directory, other, 1))
    assert outcome(start(directory, PROGRAMS, 1)) == (digest, made)
    assert len(entries(directory)) == 2 * made


def test_processes_at_work_on_one_empty_directory(tmp_path: Path) -> None:
    directory, programs = tmp_path / "cache", 50 if NIGHTLY else 4
    outcomes = [outcome(p) for p in [start(directory, PROGRAMS, programs) for _ in range(8 if NIGHTLY else 4)]]
    digest, made = outcome(start(directory, PROGRAMS, programs))
    assert made == 0
    assert {bits for bits, _ in outcomes} == {digest}
    assert [path.name for path in directory.iterdir() if path.name.endswith(".tmp")] == []


@posix
@pytest.mark.parametrize("mode", [0o777, 0o702])
def test_a_directory_of_everybodys_is_refused_with_one_warning(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "cache"
    directory.mkdir()
    directory.chmod(mode)
    process = start(directory, PROGRAMS, 2)
    said, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint
    assert int(said.split()[1]) > 0
    assert complaint.count("can be written by other users") == 1
    assert list(directory.iterdir()) == []


def test_without_a_cache_nothing_is_written(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    digest, made = outcome(start(directory, PROGRAMS, 1, ADJOINT_NO_CACHE="1"))
    assert made > 0
    assert not directory.exists()
    assert outcome(start(directory, PROGRAMS, 1)) == (digest, made)


@posix
def test_a_disk_that_fills_up_in_the_middle_of_an_entry(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    limited = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))\n{PROGRAMS}"
    digest, made = outcome(start(directory, limited, 2))
    assert [path.name for path in directory.iterdir()] == [".key"]
    assert outcome(start(directory, PROGRAMS, 2)) == (digest, made)


def test_four_processes_write_the_same_entries(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    for worker in [start(directory, WORKER, directory, 3) for _ in range(4)]:
        _, complaint = worker.communicate(timeout=300)
        assert worker.returncode == 0, complaint
    reader = ObjectCache(directory)
    assert all(reader.get(entry_key(str(i))) == str(i).encode() * 500 for i in range(40))
    assert len(entries(directory)) == 40


@posix
def test_a_writer_killed_leaves_whole_entries(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    draw = random.Random(0)
    for _ in range(100 if NIGHTLY else 4):
        worker = start(directory, WORKER, directory, 10_000)
        assert worker.stdout.readline() == "ready\n"
        time.sleep(draw.random() * 0.02)
        worker.kill()
        worker.communicate(timeout=300)
        reader = ObjectCache(directory)
        for path in entries(directory):
            assert reader.get(path.name) is not None
