"""`adjoint.multiprocessing`: Python's, whose queues and processes take tensors; each process gets its own copy."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import traceback
from multiprocessing import *  # noqa: F403
from multiprocessing.connection import wait
from typing import Any

from adjoint.core.runtime.launcher_variables import LOST_RANK_STATUS
from adjoint.core.typing import Function

__all__ = multiprocessing.__all__ + [  # noqa: RUF005
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_strategy = ["file_descriptor"]


class ProcessException(Exception):
    """Failure of one of the processes of a `ProcessContext`."""

    def __init__(self, msg: str, error_index: int, pid: int | None) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """Error that a process has raised, with its traceback."""


class ProcessExitedException(ProcessException):
    """End of a process by a signal, or with another status than 0."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int | None, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


class ProcessContext:
    """Processes that were started together: when one fails, `join` ends the others and raises its error."""

    def __init__(self, processes: list[Any], error_queues: list[Any]) -> None:
        self.processes, self.error_queues = processes, error_queues

    def pids(self) -> list[int]:
        """Return the numbers of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for an end; return whether all processes have ended, and all well.

        Args:
            timeout: seconds to wait at most.
            grace_period: seconds in which the others may end by themselves after a failure.

        Raises: ProcessRaisedException, ProcessExitedException for the first that has failed.
        """
        statuses = [process.exitcode for process in self.processes]
        if None in statuses and not any(statuses):  # some run, and none has failed before
            pairs = zip(self.processes, statuses, strict=True)
            wait([process.sentinel for process, status in pairs if status is None], timeout)
        failed = [i for i, process in enumerate(self.processes) if process.exitcode]
        if not failed:
            return all(process.exitcode == 0 for process in self.processes)
        if all(self.processes[i].exitcode == LOST_RANK_STATUS for i in failed):
            grace_period = max(grace_period or 0.0, 1.0)
        self._end_others(grace_period or 0.0)
        causes = [i for i in failed if self.processes[i].exitcode != LOST_RANK_STATUS]
        causes += [i for i, queue in enumerate(self.error_queues) if not queue.empty()]
        raise self._describe_failure((causes or failed)[0])

    def _end_others(self, grace_period: float) -> None:
        end = time.monotonic() + grace_period
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join()

    def _describe_failure(self, i: int) -> ProcessException:
        process, queue = self.processes[i], self.error_queues[i]
        if not queue.empty():
            text = f"\n\n-- Process {i} terminated with the following error:\n{queue.get()}"
            return ProcessRaisedException(text, i, process.pid)
        if process.exitcode < 0:
            name = signal.Signals(-process.exitcode).name
            return ProcessExitedException(
                f"process {i} terminated with signal {name}", i, process.pid, process.exitcode, name
            )
        text = f"process {i} terminated with exit code {process.exitcode}"
        return ProcessExitedException(text, i, process.pid, process.exitcode)


SpawnContext = ProcessContext


def spawn(
    fn: Function,
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run fn(i, *args) in `nprocs` new processes, and wait for them; return their context if `join` is False.

    Raises: ProcessRaisedException with the traceback of the first that has failed; the others are ended.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def start_processes(
    fn: Function,
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `spawn` with any of Python's start methods."""
    method: Any = multiprocessing.get_context(start_method)
    queues = [method.SimpleQueue() for _ in range(nprocs)]
    processes = [
        method.Process(target=call_and_report, args=(fn, i, args, queue), daemon=daemon)
        for i, queue in enumerate(queues)
    ]
    for process in processes:
        process.start()
    context = ProcessContext(processes, queues)
    if not join:
        return context
    while not context.join():
        pass
    return None


def call_and_report(fn: Function, i: int, args: tuple[Any, ...], errors: Any) -> None:
    """Call fn(i, *args) in a new process, and put the traceback of its error into `errors`."""
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent has it, too
    except Exception:  # noqa: BLE001  the parent raises it
        errors.put(traceback.format_exc())
        sys.exit(1)


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
