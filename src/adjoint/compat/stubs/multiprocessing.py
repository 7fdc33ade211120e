"""`adjoint.multiprocessing`: Python's, whose queues and processes take tensors; each process gets its own copy."""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403
from typing import Any

from adjoint.core.typing import Function

__all__ = multiprocessing.__all__ + [  # noqa: RUF005
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_strategy = ["file_descriptor"]


class ProcessRaisedException(Exception):
    """Failure of a process that `spawn` started."""


def spawn(
    fn: Function,
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Run fn(i, *args) in `nprocs` new processes, and wait for them; the processes themselves if `join` is False.

    Raises ProcessRaisedException if one ends with an error, which it has printed itself.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def start_processes(
    fn: Function,
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Call `spawn` with any of Python's start methods."""
    context: Any = multiprocessing.get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for process in processes:
        process.join()
    for i, process in enumerate(processes):
        if process.exitcode:
            raise ProcessRaisedException(f"process {i} terminated with exit code {process.exitcode}")
    return None


def set_sharing_strategy(new_strategy: str) -> None:
    """Store the name. Raises AssertionError for one that is not among `get_all_sharing_strategies()`."""
    assert new_strategy in get_all_sharing_strategies()
    _strategy[0] = new_strategy


def get_sharing_strategy() -> str:
    """Return the name that was set."""
    return _strategy[0]


def get_all_sharing_strategies() -> set[str]:
    """Return PyTorch's names of the ways in which processes share memory."""
    return {"file_descriptor", "file_system"}
