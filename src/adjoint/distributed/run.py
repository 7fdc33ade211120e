"""`python -m adjoint.distributed.run`: torchrun's options, and each rank started as `python -m adjoint.run` starts it.

When a rank fails all end, and may be started again.
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

from adjoint.core.runtime.launcher_variables import LOST_RANK_STATUS, MET_BY_MPI, threads_per_rank
from adjoint.distributed.launch_options import LaunchOptions, find_free_port, read_options
from adjoint.distributed.rank_output import STREAM_NAMES, RankOutput
from adjoint.distributed.rendezvous import KEY_VARIABLE

GRACE_SECONDS = 3.0  # between the request to end and the kill
POLL_SECONDS = 0.02
FAILED = 1
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalForwarding:
    """Context in which SIGINT, SIGTERM and SIGHUP end the ranks; `came` lists those that came, the last at `last`."""

    def __init__(self, ranks: Sequence[subprocess.Popen[bytes]]) -> None:
        self.ranks = ranks
        self.came: list[int] = []
        self.last = 0.0

    def __enter__(self) -> SignalForwarding:
        heard = [number for number in ENDING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # as nohup asks
        self.before = {number: signal.signal(number, self._forward) for number in heard}
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
    if options.is_one_of_hosts:
        threading.Thread(target=_end_with_input, daemon=True).start()
    os.environ.setdefault(KEY_VARIABLE, secrets.token_hex(16))
    if options.hosts and not options.is_one_of_hosts:
        return start_on_hosts(options, arguments)
    for attempt in range(options.max_restarts + 1):
        status, is_ended_by_signal = run_once(options, attempt)
        if status == 0 or is_ended_by_signal:
            return status
        if attempt < options.max_restarts:
            sys.stderr.write(f"adjoint: all ranks are started again ({attempt + 1} of {options.max_restarts})\n")
    return status


def run_once(options: LaunchOptions, attempt: int) -> tuple[int, bool]:
    """Start the ranks of this machine, and wait until all have ended.

    Returns 0, or the status of the first failure; and whether a signal to this process ended them.
    """
    port = options.master_port
    if attempt and options.nodes == 1:
        port = find_free_port()  # the one before may still be taken
    outputs = [RankOutput(options, local, attempt) for local in range(options.ranks_per_node)]
    ranks: list[subprocess.Popen[bytes]] = []
    with SignalForwarding(ranks) as forwarding:
        for local, output in enumerate(outputs):
            ranks.append(start_rank(options, local, port, attempt, output))
        status = _wait_for_ranks(options, ranks, forwarding)
    for output in outputs:
        output.finish()
    if forwarding.came:
        sys.stderr.write(f"adjoint: {signal.Signals(forwarding.came[0]).name} came, and all ranks have ended\n")
        return 128 + forwarding.came[0], True
    return status, False


def start_rank(
    options: LaunchOptions, local: int, port: int, attempt: int, output: RankOutput
) -> subprocess.Popen[bytes]:
    """Start a rank, with torchrun's variables."""
    rank = options.node_rank * options.ranks_per_node + local
    # a launcher of MPI's that started this one started no ranks
    kept = {name: value for name, value in os.environ.items() if name not in MET_BY_MPI}
    environment = kept | dict.fromkeys(("RANK", "ROLE_RANK"), str(rank))
    environment |= dict.fromkeys(("WORLD_SIZE", "ROLE_WORLD_SIZE"), str(options.nodes * options.ranks_per_node))
    environment |= {"LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(options.ranks_per_node)}
    environment |= {"GROUP_RANK": str(options.node_rank), "GROUP_WORLD_SIZE": str(options.nodes)}
    environment |= {"MASTER_ADDR": options.master_address, "MASTER_PORT": str(port), "ROLE_NAME": options.role}
    environment |= {"TORCHELASTIC_RUN_ID": options.run_id, "TORCHELASTIC_RESTART_COUNT": str(attempt)}
    environment["TORCHELASTIC_MAX_RESTARTS"] = str(options.max_restarts)
    threads = threads_per_rank(environment)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    out, error = (output.destination(name) for name in STREAM_NAMES)
    given = subprocess.DEVNULL if options.is_one_of_hosts else None  # there it is the launcher's
    process = subprocess.Popen(_rank_command(options, local), env=environment, stdin=given, stdout=out, stderr=error)
    output.begin(process)
    return process


def _rank_command(options: LaunchOptions, local: int) -> list[str]:
    program = list(options.program)
    if options.passes_local_rank:
        program.insert(2 if program[0] == "-m" else 1, f"--local-rank={local}")
    if options.is_command:
        return program
    # what a rank printed must not be lost when it is ended: adjoint.run lets it write line by line
    runner = ("-m", "adjoint.run") if options.stands_in else ("-u",)
    cuda = (f"--cuda={options.cuda}",) if options.cuda else ()
    return [sys.executable, *runner, *cuda, *program]


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
            failed = followers = []
        # the MPI of a rank that reads a killed one's memory may end it with a status of its own
        failed.sort(key=lambda i: (statuses[i] or 0) > 0)
        if failed or (followers and all(status is not None for status in statuses)):
            local = (failed or followers)[0]
            sys.stderr.write(f"adjoint: rank {first + local} {describe_status(statuses[local] or 0)}\n")
            end_ranks(ranks)
            status = statuses[local] or FAILED
            return status if status > 0 else 128 - status
        if all(status == 0 for status in statuses) or (forwarding.came and None not in statuses):
            return 0
        if forwarding.came and time.monotonic() > forwarding.last + GRACE_SECONDS:
            end_ranks(ranks, options.shutdown_seconds)  # a rank may save what it has first
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


def end_ranks(ranks: Sequence[subprocess.Popen[bytes]], grace: float = GRACE_SECONDS) -> None:
    """Ask the ranks that still run to end, and kill those that do not in `grace` seconds."""
    end = time.monotonic() + grace
    for process in ranks:
        if process.poll() is None:
            process.terminate()
    for process in ranks:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_on_hosts(options: LaunchOptions, arguments: Sequence[str]) -> int:
    """Start this launcher on each host by ssh, in this folder, and wait for all.

    The key goes by standard input, whose end ends the ranks there: ssh passes no signals on.
    """
    processes = []
    for number, host in enumerate(options.hosts):
        command = [sys.executable, "-m", "adjoint.distributed.run", "--host-number", str(number), *arguments]
        told = {name: os.environ[name] for name in ("PYTHONPATH", "OMP_NUM_THREADS") if name in os.environ}
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in told.items())
        read_key = f"read -r {KEY_VARIABLE}; export {KEY_VARIABLE}"
        line = f"{read_key}; cd {shlex.quote(os.getcwd())} && exec env {settings} {shlex.join(command)}"
        process = subprocess.Popen(["ssh", "-o", "BatchMode=yes", host, line], stdin=subprocess.PIPE)
        if process.stdin is not None:
            process.stdin.write(f"{os.environ[KEY_VARIABLE]}\n".encode())
            process.stdin.flush()
        processes.append(process)
    with SignalForwarding(processes) as forwarding:
        while any(process.poll() is None for process in processes):
            if forwarding.came and time.monotonic() > forwarding.last + GRACE_SECONDS:
                end_ranks(processes)
            time.sleep(POLL_SECONDS)
    if forwarding.came:
        return 128 + forwarding.came[0]
    return next((process.returncode for process in processes if process.returncode), 0)


def _end_with_input() -> None:
    """End the ranks, as SIGTERM does, when standard input ends: the launcher at the other end has gone."""
    with suppress(OSError):
        while os.read(0, 1 << 16):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
