"""Run a program on several ranks, over real MPI, and tell how each ended."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest
from tests.support.scripts import PATHS, Done

MAX_SECONDS = 120
MPIEXEC = str(Path(sys.prefix, "bin", "mpiexec"))
needs_mpi = pytest.mark.usefixtures("working_mpi")  # skips where plain MPI, without adjoint, does not work


@cache
def why_mpi_fails() -> str:
    """Return why two processes of plain MPI cannot meet here; an empty string if they can."""
    if find_spec("mpi4py") is None or not Path(sys.prefix, "bin", "mpiexec").exists():
        return "mpi4py, or an MPI beside it, is not installed: pip install 'adjoint-autograd[mpi]'"
    program = "from mpi4py import MPI; MPI.COMM_WORLD.allgather(b'x' * 100_000)"
    command = [MPIEXEC, "-n", "2", sys.executable, "-c", program]
    try:
        done = subprocess.run(
            command, env=environment_of_ranks(), capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"MPI does not work on this machine: {error}"
    return f"MPI does not work on this machine: {done.stderr.strip()[-200:]}" if done.returncode else ""


def run_ranks(folder: Path, count: int, program: str, *arguments: str, **variables: str) -> list[Done]:
    """Start `count` processes with torchrun's variables, and no launcher; return how each ended, by rank."""
    path = folder / "program.py"
    path.write_text(dedent(program), encoding="utf-8")
    port = str(free_ports())
    processes = []
    for rank in range(count):
        told = {
            "RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        }  # fmt: skip
        environment = environment_of_ranks() | told | variables
        command = [sys.executable, "-W", "error", str(path), *arguments]
        files = [(folder / f"{name}{rank}").open("w+", encoding="utf-8") for name in ("out", "error")]
        processes.append((subprocess.Popen(command, env=environment, stdout=files[0], stderr=files[1]), files))
    done = []
    try:
        for process, files in processes:
            status = process.wait(MAX_SECONDS)
            texts = [Path(file.name).read_text(encoding="utf-8").strip() for file in files]
            done.append(Done(status, *texts))
    finally:
        for process, files in processes:
            process.kill()
            process.wait()
            for file in files:
                file.close()
    return done


def run_mpiexec(folder: Path, count: int, program: str, *arguments: str) -> Done:
    """Start the program by mpiexec."""
    return _run(folder, [MPIEXEC, "-n", str(count), sys.executable], program, *arguments)


def run_launcher(folder: Path, program: str, *options: str, status: int = 0) -> Done:
    """Start the program by `python -m adjoint.distributed.run`, and hold that it ends with `status`."""
    done = _run(folder, [sys.executable, "-m", "adjoint.distributed.run", *options], program)
    assert done.status == status, done
    return done


def outputs(done: list[Done]) -> list[str]:
    """Return what the ranks have printed, where all have ended well."""
    assert [each.status for each in done] == [0] * len(done), "\n".join(each.error for each in done)
    return [each.out for each in done]


def _run(folder: Path, command: list[str], program: str, *arguments: str) -> Done:
    path = folder / "program.py"
    path.write_text(dedent(program), encoding="utf-8")
    done = subprocess.run(
        [*command, str(path), *arguments], env=environment_of_ranks(), cwd=folder, capture_output=True, text=True,
        check=False, timeout=MAX_SECONDS,
    )  # fmt: skip
    return Done(done.returncode, done.stdout.strip(), done.stderr.strip())


def environment_of_ranks() -> dict[str, str]:
    """Return the variables of a process that is to become a rank, or to start ranks: those of no other launcher."""
    # the launchers' variables are none of these ranks'; lines that are written in pieces mix with those of other ranks
    dropped = ("PMI", "OMPI", "TORCHELASTIC", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    own = {"PYTHONPATH": os.pathsep.join([*PATHS, str(Path(__file__).parents[2])]), "OMP_NUM_THREADS": "1"}
    own["MPIR_CVAR_ENABLE_HEAVY_YIELD"] = "1"  # ranks that wait sleep: there are more of them than processors
    return {**kept, **own}


def free_ports(count: int = 1) -> int:
    """Return the first of some ports in a row at which nobody listens."""
    while True:
        with ExitStack() as opened:
            listeners = [opened.enter_context(socket.socket()) for _ in range(count)]
            listeners[0].bind(("127.0.0.1", 0))
            first = int(listeners[0].getsockname()[1])
            try:
                for i, listener in enumerate(listeners[1:], 1):
                    listener.bind(("127.0.0.1", first + i))
            except OSError:
                continue
            return first
