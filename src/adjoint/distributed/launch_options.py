"""Options of the launcher, which are torchrun's."""

from __future__ import annotations

import argparse
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from adjoint.core.runtime.launcher_variables import DEFAULT_PORT, count_processors

USAGE = "python -m adjoint.distributed.run [options] script.py|-m module [arguments]"
# options of torchrun that change nothing here, with a value and without
IGNORED = """
    rdzv-backend rdzv-conf monitor-interval start-method event-log-handler logs-specs numa-binding signals-to-handle
    local-addr duplicate-stdout-filters duplicate-stderr-filters
"""
IGNORED_FLAGS = ("run-path", "virtual-local-rank")
PER_PROCESSOR = ("cpu", "gpu", "auto", "xpu")
STREAMS = {0: (), 1: ("stdout",), 2: ("stderr",), 3: ("stdout", "stderr")}  # torchrun's numbers of what goes to files


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
    program: tuple[str, ...]  # script.py, or -m module, or with `is_command` a command, and its arguments
    is_command: bool
    passes_local_rank: bool  # as the first argument of the program: torch.distributed.launch does
    stands_in: bool  # whether `import torch` means adjoint
    cuda: str  # "cpu" to let programs that ask for CUDA have the CPU
    run_id: str
    role: str
    log_folder: str
    redirected: dict[int, tuple[str, ...]]  # by rank of this machine: streams that go to files
    copied: dict[int, tuple[str, ...]]  # and those that go to files and are shown
    shown: frozenset[int] | None  # ranks of this machine whose output is shown; None for all
    shutdown_seconds: float  # for ranks to end after a signal to the launcher, before they are killed
    is_one_of_hosts: bool  # whether another launcher started this one by ssh; then the end of input ends the ranks


def read_options(arguments: Sequence[str]) -> LaunchOptions:
    """Read the command line; $PET_NNODES and the like stand for options that are not given, as for torchrun.

    Raises SystemExit with a usage line for what it does not know.
    """
    parser = argparse.ArgumentParser(usage=USAGE, description=__doc__, allow_abbrev=False)
    _add(parser, "nproc-per-node", "ranks of this machine: a number, or cpu, gpu or auto for one a processor", "1")
    _add(parser, "nnodes", "machines; of a range such as 1:4 the first number counts", "1")
    _add(parser, "node-rank", "number of this machine, 0 for the one at master-addr", "0")
    _add(parser, "master-addr", "where rank 0 is met", "")
    _add(parser, "master-port", "its port; with one machine a free one is taken", "")
    _add(parser, "max-restarts", "how often all ranks are started again after one has failed", "0")
    _add(parser, "hosts", "machines by name, separated by commas: the ranks of each are started by ssh", "")
    _add(parser, "rdzv-endpoint", "host:port, in place of master-addr and master-port", "")
    _add(parser, "rdzv-id", "a name for the job", "adjoint")
    _add(parser, "role", "a name for the ranks", "default")
    _add(parser, "cuda", "cpu: programs that ask for CUDA have the CPU", "")
    _add(parser, "log-dir", "folder of the files of --redirects and --tee", "logs")
    _add(parser, "redirects", "what goes to files: 1 stdout, 2 stderr, 3 both, or 0:1,1:3 by local rank", "0", "-r")
    _add(parser, "tee", "what goes to files and is shown, likewise", "0", "-t")
    _add(parser, "local-ranks-filter", "local ranks whose output is shown, such as 0,1", "")
    _add(parser, "shutdown-timeout", "seconds for ranks to end after a signal, before they are killed", "30")
    _add(parser, "host-number", argparse.SUPPRESS, "")
    for name in IGNORED.split():
        _add(parser, name, argparse.SUPPRESS, "")
    for name in IGNORED_FLAGS:
        parser.add_argument(*_spellings(name), action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--standalone", action="store_true", help="one machine")
    parser.add_argument(*_spellings("no-python"), action="store_true", help="the program is a command")
    parser.add_argument("--passes-local-rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(*_spellings("use-env"), action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--adjoint", action="store_true", help="leave `import torch` to mean PyTorch")
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    _check(parser, given)
    hosts = tuple(filter(None, given.hosts.split(",")))
    nodes = len(hosts) or (1 if given.standalone else int(given.nnodes.partition(":")[0]))
    endpoint = "" if given.standalone else given.rdzv_endpoint or ""
    host, _, port = endpoint.rpartition(":") if re.search(r":\d+$", endpoint) else (endpoint, "", "")
    port = "" if port == "0" else port
    return LaunchOptions(
        ranks_per_node=count_processors() if given.nproc_per_node in PER_PROCESSOR else int(given.nproc_per_node),
        nodes=nodes,
        node_rank=int(given.host_number or given.node_rank),
        master_address=host or given.master_addr or (hosts[0].rpartition("@")[2] if hosts else "127.0.0.1"),
        master_port=int(given.master_port or port or (find_free_port() if nodes == 1 else DEFAULT_PORT)),
        max_restarts=int(given.max_restarts),
        hosts=hosts,
        program=(*(("-m",) if given.module else ()), *given.program),
        is_command=given.no_python,
        passes_local_rank=given.passes_local_rank and not given.use_env,
        stands_in=not given.adjoint,
        cuda=given.cuda,
        run_id=given.rdzv_id,
        role=given.role,
        log_folder=given.log_dir,
        redirected=_read_streams(parser, given.redirects),
        copied=_read_streams(parser, given.tee),
        shown=frozenset(map(int, given.local_ranks_filter.split(","))) if given.local_ranks_filter else None,
        shutdown_seconds=float(given.shutdown_timeout),
        is_one_of_hosts=bool(given.host_number),
    )


def _add(parser: argparse.ArgumentParser, name: str, text: str, default: str, *short: str) -> None:
    variable = f"PET_{name.replace('-', '_').upper()}"
    parser.add_argument(*short, *_spellings(name), help=text, default=os.environ.get(variable, default))


def _spellings(name: str) -> tuple[str, ...]:
    return f"--{name}", f"--{name.replace('-', '_')}"


def _check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """End with a usage line where options are no numbers, or contradict one another."""
    if not given.program:
        parser.error("a script, or -m and a module, is missing")
    if not (given.nproc_per_node in PER_PROCESSOR or given.nproc_per_node.isdecimal()):
        kinds = ", ".join(PER_PROCESSOR)
        parser.error(f"--nproc-per-node={given.nproc_per_node}: a number of ranks, or one of {kinds}")
    if not re.fullmatch(r"[1-9]\d*(:\d+)?", given.nnodes):
        parser.error(f"--nnodes={given.nnodes}: a number of machines, or a range such as 1:4")
    for name in ("node_rank", "max_restarts", "master_port", "shutdown_timeout", "host_number"):
        if not (getattr(given, name) or "0").isdecimal():
            parser.error(f"--{name.replace('_', '-')}={getattr(given, name)}: a number")
    if given.module and given.no_python:
        parser.error("--module and --no-python: a program is a module or a command")
    if given.cuda and (given.no_python or given.adjoint):
        parser.error("--cuda is for programs in which `import torch` means adjoint")


def _read_streams(parser: argparse.ArgumentParser, text: str) -> dict[int, tuple[str, ...]]:
    """Read torchrun's notation of streams: a number for all ranks, under -1, or pairs of rank and number."""
    try:
        if ":" not in text:
            return {-1: STREAMS[int(text)]}
        pairs = (pair.split(":") for pair in text.split(","))
        return {int(rank): STREAMS[int(number)] for rank, number in pairs}
    except (ValueError, KeyError):
        parser.error(f"{text!r}: 0, 1, 2 or 3, or pairs of rank and number such as 0:1,1:3")


def find_free_port() -> int:
    """Return a port at which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
