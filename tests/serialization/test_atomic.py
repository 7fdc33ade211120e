"""Replacing a file: whole or not at all, through failures, kills and other writers.

ADJOINT_NIGHTLY=1 kills 200 writers of each kind.
"""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from tests.support.errors import assert_raises

from adjoint import as_tensor
from adjoint.serialization import atomic
from adjoint.serialization.atomic import replace_file
from adjoint.serialization.files import load, save

fcntl = pytest.importorskip("fcntl")

NIGHTLY = os.environ.get("ADJOINT_NIGHTLY") == "1"
KILLS = 200 if NIGHTLY else 5
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")
    return path


def names(path):
    return sorted(os.listdir(path.parent))


def left(path):
    return path.read_bytes(), names(path)


def test_content_is_the_chunks(target):
    replace_file(target, [b"new ", memoryview(b"content"), b""])
    assert left(target) == (b"new content", [target.name])


def test_a_bare_name_is_a_file_of_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    replace_file("x", [b"1"])
    assert (tmp_path / "x").read_bytes() == b"1"


def failing(error):
    yield b"some"
    raise error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), MemoryError(), SystemExit(1)])
def test_a_failure_leaves_the_old_file_and_nothing_else(target, error):
    with pytest.raises(type(error)):
        replace_file(target, failing(error))
    assert left(target) == (b"old", [target.name])


@pytest.mark.parametrize("call", ["write", "fsync", "chmod", "replace"])
def test_a_failing_system_call_leaves_the_old_file_and_nothing_else(target, call, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, call, full)
    assert_raises(OSError, "No space left", replace_file, target, [b"new"])
    monkeypatch.undo()
    assert left(target) == (b"old", [target.name])


def test_a_full_disk_in_the_middle_of_a_save_leaves_the_old_checkpoint(tmp_path):
    """The system itself refuses the bytes beyond a limit, as a full disk does."""
    program = """
import resource, signal, sys, numpy as np
from adjoint import as_tensor
from adjoint.serialization.files import load, save
path = sys.argv[1]
save(as_tensor(np.arange(10.0)), path)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    save(as_tensor(np.zeros(1_000_000)), path)
except OSError:
    assert load(path).array.tolist() == list(range(10))
    print("refused")
"""
    path = tmp_path / "x"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "refused\n"
    assert names(path) == ["x"]


def test_order_of_the_steps(target, monkeypatch):
    """The bytes are on the disk before they get the name, and the name is on the disk before the call returns."""
    steps = []
    fsync, rename = os.fsync, os.replace

    def note_fsync(descriptor):
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def note_replace(source, destination):
        steps.append("replace")
        assert os.path.dirname(source) == os.path.dirname(destination)
        rename(source, destination)

    monkeypatch.setattr(atomic.os, "fsync", note_fsync)
    monkeypatch.setattr(atomic.os, "replace", note_replace)
    replace_file(target, [b"new"])
    assert steps == ["file", "replace", "folder"]


@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o666, 0o755])
def test_permissions_are_kept(target, permissions):
    target.chmod(permissions)
    replace_file(target, [b"new"])
    assert stat.S_IMODE(target.stat().st_mode) == permissions


def test_a_new_file_has_the_usual_permissions(tmp_path):
    with open(tmp_path / "usual", "wb"):
        pass
    replace_file(tmp_path / "new", [b""])
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_the_content_of_a_closed_file_is_never_open_to_others(target):
    target.chmod(0o600)

    def chunks():
        yield b"secret"
        (temporary,) = (name for name in names(target) if name != target.name)
        assert stat.S_IMODE((target.parent / temporary).stat().st_mode) == 0o600

    replace_file(target, chunks())


def test_a_symbolic_link_stays_and_its_target_is_replaced(target):
    link = target.parent / "latest"
    link.symlink_to(target.name)
    replace_file(link, [b"new"])
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_what_is_no_regular_file_is_left_alone(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert_raises(OSError, "not a regular file", lambda: replace_file(tmp_path / "pipe", [b"new"]))
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert_raises(IsADirectoryError, "it is a folder", replace_file, tmp_path, [b"new"])
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "missing" / "x", [b"new"])
    assert names(tmp_path / "pipe") == ["pipe"]


def test_a_write_protected_file_is_left_alone(target, monkeypatch):
    monkeypatch.setattr(atomic.os, "access", lambda path, mode: False)  # for root nothing is protected
    assert_raises(PermissionError, "write-protected", replace_file, target, [b"new"])
    assert target.read_bytes() == b"old"


def test_temporaries_of_dead_writers_are_swept_and_others_are_not(target):
    dead = target.parent / ".adjoint-save-0123456789abcdef.tmp"
    living = target.parent / ".adjoint-save-fedcba9876543210.tmp"
    foreign = target.parent / ".adjoint-save-mine.tmp"
    for path in (dead, living, foreign):
        path.write_bytes(b"part")
    with open(living, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        replace_file(target, [b"new"])
        assert not dead.exists()
        assert living.exists()
        assert foreign.exists()
    replace_file(target, [b"newer"])
    assert names(target) == [foreign.name, target.name]


def test_a_temporary_swept_at_birth_is_made_anew(target, monkeypatch):
    flock, swept = fcntl.flock, []

    def slow(descriptor, flags):
        if not swept:
            (name,) = (name for name in names(target) if name != target.name)
            swept.append(name)
            os.unlink(target.parent / name)
        flock(descriptor, flags)

    monkeypatch.setattr(atomic.fcntl, "flock", slow)
    replace_file(target, [b"new"])
    assert swept
    assert target.read_bytes() == b"new"


def test_a_file_system_without_locks_will_do(target, monkeypatch):
    def refuse(descriptor, flags):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(atomic.fcntl, "flock", refuse)
    replace_file(target, [b"new"])
    assert left(target) == (b"new", [target.name])


ENDLESS = """
import itertools, sys, numpy as np
from adjoint import serialization
from adjoint import as_tensor
path, function, sign = sys.argv[1], getattr(serialization, sys.argv[2]), int(sys.argv[3])
for i in itertools.count(1):
    function({"i": sign * i, "x": as_tensor(np.full(200_000, i, np.int64))}, path)
    print(i, flush=True)
"""


def writer(path, function, sign):
    command = [sys.executable, "-c", ENDLESS, path, function, str(sign)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE)


def killed(process, returned):
    """Kill a writer, and say which of its saves was the last to return."""
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    return int((rest.split() or [returned])[-1])


@pytest.mark.parametrize("function", ["save", "save_safetensors"])
def test_a_killed_writer_never_loses_a_checkpoint(function, tmp_path):
    path = tmp_path / "model"
    for delay in np.random.default_rng(0).uniform(0.0, 0.02, KILLS):
        process = writer(path, function, 1)
        try:
            returned = int(process.stdout.readline())
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(delay)
        finally:
            returned = killed(process, returned)
        loaded = load(path)
        assert loaded["i"] in (returned, returned + 1)
        assert (loaded["x"].array == loaded["i"]).all()
    save(0, path)
    assert names(path) == [path.name]


def test_two_killed_writers_leave_the_last_save_of_one(tmp_path):
    path = tmp_path / "model"
    for delay in np.random.default_rng(1).uniform(0.0, 0.02, KILLS // 2):
        processes = {sign: writer(path, "save", sign) for sign in (1, -1)}
        returned = {sign: int(process.stdout.readline()) for sign, process in processes.items()}
        with pytest.raises(subprocess.TimeoutExpired):
            processes[1].wait(delay)
        last = {sign: killed(process, returned[sign]) for sign, process in processes.items()}
        loaded = load(path)
        sign = 1 if loaded["i"] > 0 else -1
        assert abs(loaded["i"]) in (last[sign], last[sign] + 1)
        assert (loaded["x"].array == abs(loaded["i"])).all()
    save(0, path)
    assert names(path) == [path.name]


ONE_SAVE = """
import sys
import adjoint as ad
ad.save({"x": ad.ones(100_000)}, sys.argv[1])
"""


def test_the_system_sees_the_bytes_synced_then_the_name_then_the_folder(target):
    strace = shutil.which("strace")
    command = [
        strace or "", "-f", "-y", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2", "-o",
        target.parent / "log",
    ]  # fmt: skip
    if strace is None or subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("there is no strace, or it may not trace")
    subprocess.run([*command, sys.executable, "-c", ONE_SAVE, target], env=ENVIRONMENT, check=True)
    calls = [line.split(maxsplit=1)[1] for line in (target.parent / "log").read_text().splitlines()]
    calls = [call for call in calls if str(target.parent) in call]
    assert [call.split("(")[0].rstrip("at2") for call in calls] == ["fsync", "rename", "fsync"]
    assert ".adjoint-save-" in calls[0]
    assert str(target) in calls[1]
    assert f"<{target.parent}>" in calls[2]


SMALL_DISK = """
import sys
import adjoint as ad
from adjoint.serialization import load, save, save_safetensors
for function in (save, save_safetensors):
    path = f"{sys.argv[1]}/{function.__name__}"
    function({"x": ad.arange(10)}, path)
    for _ in range(3):
        try:
            function({"x": ad.zeros(500_000)}, path)
        except OSError as error:
            print(error.strerror)
    assert load(path)["x"].tolist() == list(range(10))
"""


def test_a_disk_that_is_full_in_truth(tmp_path):
    """A file system of 300 kB, where the system lets us mount one."""
    mounted = f'mount -t tmpfs -o size=300k none "{tmp_path}" && '
    unshare = [shutil.which("unshare") or "", "--mount", "--map-root-user", "sh", "-c"]
    if not unshare[0] or subprocess.run([*unshare, mounted + "true"], check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    run = mounted + f'"{sys.executable}" -c "$PROGRAM" "{tmp_path}" && ls -A "{tmp_path}"'
    variables = ENVIRONMENT | {"PROGRAM": SMALL_DISK}
    done = subprocess.run([*unshare, run], env=variables, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["No space left on device"] * 6 + ["save", "save_safetensors"]


def test_readers_and_writers_at_once_see_whole_checkpoints(tmp_path):
    path = tmp_path / "model.safetensors"
    seen, failures, done = set(), [], threading.Event()

    def write(sign):
        for i in range(15):
            save({"i": sign * i, "x": as_tensor(np.full(50_000, sign * i, np.int64))}, path)

    def look(mmap):
        while not done.is_set():
            try:
                loaded = load(path, mmap=mmap)
                seen.add(loaded["i"])
                assert (loaded["x"].array == loaded["i"]).all()
            except BaseException as error:
                failures.append(error)
                raise

    write(1)
    readers = [threading.Thread(target=look, args=(mmap,)) for mmap in (False, True)]
    writers = [threading.Thread(target=write, args=(sign,)) for sign in (1, -1)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert not failures
    assert seen
    assert names(path) == [path.name]
