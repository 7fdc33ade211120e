"""`python -m adjoint.distributed.run`: torchrun's options, and each rank started as `python -m adjoint.run` starts it.

When a rank fails all end, and may be started again.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

from adjoint.core.runtime.launcher_variables import (
    DEFAULT_PORT,
    LOST_RANK_STATUS,
    count_processors,
    threads_per_rank,
)
from adjoint.distributed.rendezvous import KEY_VARIABLE

USAGE = "python -m adjoint.distributed.run [options] script.py|-m module [arguments]"
IGNORED = ("rdzv-backend", "rdzv-id", "rdzv-conf", "log-dir", "role", "monitor-interval", "start-method", "tee")
PER_PROCESSOR = ("cpu", "gpu", "auto")
GRACE_SECONDS = 3.0  # between the request to end and the kill
POLL_SECONDS = 0.02
FAILED = 1



@dataclass(frozen=True)
class LaunchOptions:
    """Options of a start: ranks of this machine, of how many machines, where rank 0 is met, and how often again."""

    ranks_per_node: int
    nodes: int
    node_rank: int
    master_address: str
    master_port: int
    max_restarts: int
    hosts: tuple[str, ...]
    program: tuple[str, ...]  # script.py, or -m module, and its arguments
    stands_in: bool  # whether `import torch` means adjoint


def read_options(arguments: Sequence[str]) -> LaunchOptions:
    """Read the command line. Raises SystemExit with a usage line for what it does not know."""
    parser = argparse.ArgumentParser(usage=USAGE, description=__doc__, allow_abbrev=False)
    _add(parser, "nproc-per-node", "ranks of this machine: a number, or cpu, gpu or auto for one a processor", "1")
    _add(parser, "nnodes", "machines; of a range such as 1:4 the first number counts", "1")
    _add(parser, "node-rank", "number of this machine, 0 for the one at master-addr", "0")
    _add(parser, "master-addr", "where rank 0 is met", "")
    _add(parser, "master-port", "its port; with one machine a free one is taken", "")
    _add(parser, "max-restarts", "how often all ranks are started again after one has failed", "0")
    _add(parser, "hosts", "machines by name, separated by commas: the ranks of each are started by ssh", "")
    _add(parser, "rdzv-endpoint", "host:port, in place of master-addr and master-port", "")
    for name in IGNORED:
        _add(parser, name, argparse.SUPPRESS, "")
    parser.add_argument("--standalone", action="store_true", help="one machine")
    parser.add_argument("--no-python", "--no_python", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--adjoint", action="store_true", help="leave `import torch` to mean PyTorch")
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    if not given.program:
        parser.error("a script, or -m and a module, is missing")
    hosts = tuple(filter(None, given.hosts.split(",")))
    nodes = len(hosts) if hosts else int(given.nnodes.partition(":")[0])
    host, _, port = given.rdzv_endpoint.rpartition(":") if given.rdzv_endpoint else (given.master_addr, "", "")
    alone = given.standalone or nodes == 1
    return LaunchOptions(
        ranks_per_node=count_processors() if given.nproc_per_node in PER_PROCESSOR else int(given.nproc_per_node),
        nodes=nodes,
        node_rank=int(given.node_rank),
        master_address=host or (hosts[0] if hosts else "127.0.0.1"),
        master_port=int(given.master_port or port or (find_free_port() if alone else DEFAULT_PORT)),
        max_restarts=int(given.max_restarts),
        hosts=hosts,
        program=(*(("-m",) if given.module else ()), *given.program),
        stands_in=not given.adjoint,
    )


def _add(parser: argparse.ArgumentParser, name: str, text: str, default: str) -> None:
    parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", help=text, default=default)


def find_free_port() -> int:
    """Return a port at which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class SignalForwarding:
    """Context in which SIGINT and SIGTERM end the ranks; `came` lists those that came, the last at `last`."""

    def __init__(self, ranks: Sequence[subprocess.Popen[bytes]]) -> None:
        self.ranks = ranks
        self.came: list[int] = []
        self.last = 0.0

    def __enter__(self) -> SignalForwarding:
        self.before = {number: signal.signal(number, self._forward) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self.came.append(number)
        self.last = time.monotonic()
        for process in self.ranks:
            if process.poll() is None and number != signal.SIGINT:  # the terminal sends SIGINT to the ranks, too
                process.send_signal(number)


def main(arguments: Sequence[str]) -> int:
    """Start the ranks, wait for them, and return the exit status."""
    options = read_options(arguments)
    os.environ.setdefault(KEY_VARIABLE, secrets.token_hex(16))
    if options.hosts:
        return start_on_hosts(options)
    for attempt in range(options.max_restarts + 1):
        status = run_once(options, attempt)
        if status in {0, 128 + signal.SIGINT, 128 + signal.SIGTERM}:
            return status
        if attempt < options.max_restarts:
            sys.stderr.write(f"adjoint: all ranks are started again ({attempt + 1} of {options.max_restarts})\n")
    return status


def run_once(options: LaunchOptions, attempt: int) -> int:
    """Start the ranks of this machine, and wait until all have ended; return 0, or the status of the first failure."""
    port = options.master_port
    if attempt and options.nodes == 1:
        port = find_free_port()  # the one before may still be taken
    ranks = [start_rank(options, local, port, attempt) for local in range(options.ranks_per_node)]
    with SignalForwarding(ranks) as forwarding:
        status = _wait_for_ranks(options, ranks, forwarding)
    return 128 + forwarding.came[0] if forwarding.came else status


def start_rank(options: LaunchOptions, local: int, port: int, attempt: int) -> subprocess.Popen[bytes]:
    """Start a rank, with torchrun's variables."""
    rank = options.node_rank * options.ranks_per_node + local
    environment = os.environ | {
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(options.nodes * options.ranks_per_node),
        "LOCAL_WORLD_SIZE": str(options.ranks_per_node),
        "GROUP_RANK": str(options.node_rank),
        "ROLE_RANK": str(rank),
        "MASTER_ADDR": options.master_address,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "adjoint",
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
    }
    threads = threads_per_rank(environment)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    runner = ("-m", "adjoint.run") if options.stands_in else ()
    return subprocess.Popen([sys.executable, *runner, *options.program], env=environment)


def _wait_for_ranks(
    options: LaunchOptions, ranks: Sequence[subprocess.Popen[bytes]], forwarding: SignalForwarding
) -> int:
    """Wait until all have ended, or one has failed; then end the others, and tell which one it was."""
    first = options.node_rank * options.ranks_per_node
    while True:
        statuses = [process.poll() for process in ranks]
        # ranks that end because another was lost say so by their status: that one is to be named
        failed = [i for i, status in enumerate(statuses) if status not in {None, 0, LOST_RANK_STATUS}]
        followers = [i for i, status in enumerate(statuses) if status == LOST_RANK_STATUS]
        if forwarding.came:
            failed = []
        if failed or (followers and all(status is not None for status in statuses)):
            local = (failed or followers)[0]
            sys.stderr.write(f"adjoint: rank {first + local} {describe_status(statuses[local] or 0)}\n")
            end_ranks(ranks)
            status = statuses[local] or FAILED
            return status if status > 0 else 128 - status
        if all(status == 0 for status in statuses) or (forwarding.came and None not in statuses):
            return 0
        if forwarding.came and time.monotonic() > forwarding.last + GRACE_SECONDS:
            end_ranks(ranks)
            return FAILED
        time.sleep(POLL_SECONDS)


def describe_status(status: int) -> str:
    """Return in words how a process ended."""
    if status == LOST_RANK_STATUS:
        return "ended because a rank of another machine was lost"
    if status >= 0:
        return f"failed with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"


def end_ranks(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask the ranks that still run to end, and kill those that do not."""
    end = time.monotonic() + GRACE_SECONDS
    for process in ranks:
        if process.poll() is None:
            process.terminate()
    for process in ranks:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_on_hosts(options: LaunchOptions) -> int:
    """Start this launcher on each host by ssh, in this folder, and wait for all; the key goes by standard input."""
    port = options.master_port
    processes = []
    for number, host in enumerate(options.hosts):
        command = [
            sys.executable, "-m", "adjoint.distributed.run", "--nnodes", str(options.nodes), "--node-rank", str(number),
            "--nproc-per-node", str(options.ranks_per_node), "--master-addr", options.master_address,
            "--master-port", str(port), "--max-restarts", str(options.max_restarts),
            *(() if options.stands_in else ("--adjoint",)), *options.program,
        ]
        told = {name: os.environ[name] for name in ("PYTHONPATH", "OMP_NUM_THREADS") if name in os.environ}
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in told.items())
        read_key = f"read -r {KEY_VARIABLE}; export {KEY_VARIABLE}"
        line = f"{read_key}; cd {shlex.quote(os.getcwd())} && env {settings} {shlex.join(command)}"
        process = subprocess.Popen(["ssh", "-o", "BatchMode=yes", host, line], stdin=subprocess.PIPE)
        if process.stdin is not None:
            process.stdin.write(f"{os.environ[KEY_VARIABLE]}\n".encode())
            process.stdin.close()
        processes.append(process)
    with SignalForwarding(processes):
        statuses = [process.wait() for process in processes]
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
