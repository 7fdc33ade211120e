"""A program of ranks that fails at a chosen moment, and what is left of it afterwards."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from tests.support.ranks import environment_of_ranks

MARK = "ADJOINT_TEST_FAULT"  # a variable by which the processes of one run are found
MAX_SECONDS = 120
PROGRAM = """
    import os, signal, subprocess, sys, time
    from datetime import timedelta

    moment, victim = sys.argv[1], int(sys.argv[2])
    rank, folder = int(os.environ["RANK"]), os.path.dirname(sys.argv[0])

    def note():
        with open(f"{folder}/failed.tmp", "w") as file:
            file.write(str(time.time()))
        os.replace(f"{folder}/failed.tmp", f"{folder}/failed")

    def die(here, seconds=0.0):  # by another process if later: MPI_Init holds the interpreter's lock
        if (moment, rank) == (here, victim):
            note()
            if not seconds:
                os.kill(os.getpid(), signal.SIGKILL)
            subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -9 {os.getpid()}"])

    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    die("start")
    import adjoint as ad
    import adjoint.distributed as dist
    from adjoint.distributed.rank_watch import find_shared_files

    die("meeting", 0.03)
    dist.init_process_group("gloo", timeout=timedelta(seconds=2 if moment == "stuck" else 60))
    with open(f"{folder}/shared{rank}", "w") as file:
        file.write("\\n".join(find_shared_files()))
    model = ad.nn.parallel.DistributedDataParallel(ad.nn.Linear(200, 200))
    optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
    path = f"{folder}/checkpoint.pt"
    step = ad.load(path)["step"] if os.path.exists(path) else 0
    model.module.weight.register_hook(lambda gradient: die("backward") if step == 5 and is_first else None)
    until = float("inf") if moment in {"any", "signal"} else 10
    while step < until:
        if (moment, rank, step) == ("exception", victim, 5):
            note()
            raise KeyError("here")
        if (moment, rank, step) == ("stuck", victim, 5):
            note()
            time.sleep(1000)
        optimizer.zero_grad()
        model(ad.ones(4, 200)).sum().backward()
        optimizer.step()
        step += 1
        if rank == 0:
            if step == 5:
                die("save", 0.02)
            for _ in range(100 if (moment, step, victim) == ("save", 5, 0) else 1):
                ad.save({"step": step, "model": model.module.state_dict()}, path)
        elif step == 5:
            die("save")
        if step == 3:
            open(f"{folder}/trains{rank}", "w").close()
    dist.destroy_process_group()
    die("exit")
    if rank == 0:
        print("ended at step", step)
"""


@dataclass(frozen=True)
class Remains:
    """What a run left: its end, and what should not be there."""

    status: int
    out: str
    error: str
    seconds: float  # from the failure to the end of the last process
    processes: list[int]
    shared_files: list[str]


class FaultyRun:
    """Ranks under the launcher, one of which fails at a moment."""

    def __init__(self, folder: Path, moment: str, victim: int, *options: str, ranks: int = 3) -> None:
        self.folder, self.mark = folder, secrets.token_hex(8)
        path = folder / "program.py"
        path.write_text(dedent(PROGRAM), encoding="utf-8")
        command = [sys.executable, "-m", "adjoint.distributed.run", f"--nproc-per-node={ranks}", *options]
        self.error = (folder / "error").open("w+")
        self.out = (folder / "out").open("w+")
        self.launcher = subprocess.Popen(
            [*command, str(path), moment, str(victim)],
            env=environment_of_ranks() | {MARK: self.mark}, cwd=folder, stdout=self.out, stderr=self.error,
            start_new_session=True,
            preexec_fn=hear_signals,  # noqa: PLW1509  no threads here
        )  # fmt: skip
        self.count = ranks

    def wait_for_training(self) -> None:
        """Wait until all ranks train."""
        self._wait(lambda: len(list(self.folder.glob("trains*"))) == self.count or self.launcher.poll() is not None)
        assert self.launcher.poll() is None, (self.folder / "error").read_text()

    def note_failure(self) -> None:
        """Note that the run is made to fail now."""
        (self.folder / "failed").write_text(str(time.time()))

    def kill_rank(self, rank: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a rank."""
        for process in self.find_processes():
            variables = _variables_of(process)
            if f"RANK={rank}".encode() in variables and b"rendezvous_server" not in _command_of(process):
                self.note_failure()
                os.kill(process, number)
                return

    def find_processes(self) -> list[int]:
        """Return the processes of this run that have not ended, the rendezvous among them."""
        found = (int(name) for name in os.listdir("/proc") if name.isdecimal())
        return [process for process in found if f"{MARK}={self.mark}".encode() in _variables_of(process)]

    def finish(self) -> Remains:
        """Wait until all have ended, and return what is left."""
        try:
            status = self.launcher.wait(MAX_SECONDS)
            self._wait(lambda: not self.find_processes() and not self._shared_files(), seconds=15)
        finally:
            end, left = time.time(), self.find_processes()
            for process in left:
                os.kill(process, signal.SIGKILL)
            self.out.close()
            self.error.close()
        failed = self.folder / "failed"
        began = float(failed.read_text()) if failed.exists() else end
        out, error = ((self.folder / name).read_text() for name in ("out", "error"))
        return Remains(status, out, error, end - began, left, self._shared_files())

    def _shared_files(self) -> list[str]:
        names = {name for path in self.folder.glob("shared*") for name in path.read_text().split()}
        return sorted(filter(os.path.exists, names))

    @staticmethod
    def _wait(is_true: Callable[[], bool], seconds: float = MAX_SECONDS) -> None:
        end = time.monotonic() + seconds
        while not is_true() and time.monotonic() < end:
            time.sleep(0.02)


def hear_signals() -> None:
    """Have the process that begins hear the signals that one in the background ignores."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _variables_of(process: int) -> list[bytes]:
    try:
        return Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # it has ended


def _command_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""
