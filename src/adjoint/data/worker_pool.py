"""The worker processes of a loader: who is given which batch, and in which order the batches are handed out."""

from __future__ import annotations

import os
import pickle
import signal
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from threading import Lock, RLock
from typing import Any, NamedTuple

from adjoint.core.runtime.fork_safety import awaited, renewed
from adjoint.data.worker import BEGIN, Ended, Failure, Job, work
from adjoint.data.worker_pipe import receive

GRACE = 5.0  # seconds that workers are given to finish what they are at


class Worker(NamedTuple):
    """A process, and our end of the pipe to it."""

    process: Any
    connection: Connection


_open: weakref.WeakSet[Connection] = weakref.WeakSet()  # our ends of the pipes of all crews
_hiring = renewed(Lock())
# A worker that is forked as another thread closes one would close it again: by then that number may be of its own pipe.
_closing = awaited(RLock())  # the collector may close as this thread does


class Crew:
    """Workers that fetch batches ahead: `ahead` for each, handed out in the order of their indices if `in_order`.

    `timeout` is how many seconds to wait for a batch, 0 for as long as it takes. RuntimeError when it is over, and when
    a worker dies; an error in a worker is raised where its batch would have come, with the worker's traceback.
    """

    def __init__(self, job: Job, context: Any, ahead: int, timeout: float, in_order: bool) -> None:
        self.job = job
        self.ahead = max(ahead, 1)
        self.timeout = timeout
        self.in_order = in_order
        self.workers: list[Worker] = []
        self.numbers = 0  # batches asked for so far; they are numbered through all passes
        self.waiting: dict[int, int] = {}  # the worker that each batch was asked of, oldest first
        self.arrived: dict[int, Any] = {}
        self.at_work: list[bool] = []
        self.turn = 0
        self.indices: Iterator[Any] = iter(())
        self.dismiss = weakref.finalize(self, _dismiss, self.workers, os.getpid())
        try:
            for number in range(job.workers):
                self.workers.append(_hire(context, job, number))
        except BaseException:
            self.dismiss()
            raise

    def begin(self, indices: Iterator[Any]) -> None:
        """Begin a pass; what is left of the one before is forgotten."""
        self.waiting.clear()
        self.arrived.clear()
        self.indices = indices
        self.at_work = [True] * len(self.workers)
        self.turn = 0
        for worker in self.workers:
            self._tell(worker, BEGIN)
        for _ in range(self.ahead * len(self.workers)):
            self._ask()

    def next(self) -> Any:
        """The next batch; StopIteration after the last."""
        while self.waiting:
            first = next(iter(self.waiting if self.in_order or not self.arrived else self.arrived))
            if first in self.arrived:
                del self.waiting[first]
                answer = self.arrived.pop(first)
                self._ask()
                if isinstance(answer, Failure):
                    answer.raise_again()
                return answer
            if self.at_work[self.waiting[first]]:
                self._receive()
            else:
                del self.waiting[first]
        raise StopIteration

    def _ask(self) -> None:
        """Ask the next worker in turn for the next batch, if there are both."""
        try:
            at = next(self.indices)
        except StopIteration:
            return
        count = len(self.workers)
        share = self.ahead * count // max(sum(self.at_work), 1)
        busy = list(self.waiting.values())
        for _ in range(count):
            worker = self.turn
            self.turn = (self.turn + 1) % count
            if self.at_work[worker] and (self.in_order or busy.count(worker) < share):
                self.waiting[self.numbers] = worker
                self._tell(self.workers[worker], (self.numbers, at))
                self.numbers += 1
                return

    def _tell(self, worker: Worker, task: Any) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it is dead, which is noticed where its batch is missed
            worker.connection.send(task)

    def _receive(self) -> None:
        """Take what has come, or wait for it."""
        active = [worker for worker, at_work in zip(self.workers, self.at_work, strict=True) if at_work]
        sources = [source for w in active for source in (w.connection, w.process.sentinel)]
        ready = wait(sources, self.timeout or None)
        if not ready:
            for worker in active:  # it would not hear
                worker.process.terminate()
            self.dismiss()
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
        for number, worker in enumerate(self.workers):
            if worker.connection in ready:
                try:
                    self._take(number, *receive(worker.connection))
                except (EOFError, ConnectionResetError):
                    self._mourn(worker)
            elif worker.process.sentinel in ready and self.at_work[number] and not worker.connection.poll():
                self._mourn(worker)

    def _take(self, worker: int, number: int, text: bytes, apart: list[Any]) -> None:
        if number not in self.waiting:
            return  # of a pass that was left early
        try:
            answer = pickle.loads(text, buffers=apart)
        except Exception as error:  # noqa: BLE001  what a user's class raises as it is made again
            answer = Failure(error, worker)
        if isinstance(answer, Ended):
            self.at_work[worker] = False
            del self.waiting[number]
            self._ask()
            return
        self.arrived[number] = answer

    def _mourn(self, worker: Worker) -> None:
        """Raise that a worker has died, and how."""
        pid = worker.process.pid
        worker.process.join(GRACE)
        code = worker.process.exitcode
        self.waiting.clear()
        self.dismiss()
        how = f"with exit code {code}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"killed by signal {signal.Signals(-code).name}"
            how += "; out of memory is a common cause" if -code == getattr(signal, "SIGKILL", 0) else ""
        raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly, {how}")


def _hire(context: Any, job: Job, number: int) -> Worker:
    with _hiring:  # the other end must not be open in a worker that is started meanwhile
        ours, theirs = context.Pipe()
        _open.add(ours)
        inherited = list(_open) if context.get_start_method() == "fork" else []
        process = context.Process(target=work, args=(theirs, inherited, job, number), daemon=True)
        try:
            process.start()
        except BaseException:
            _open.discard(ours)
            ours.close()
            raise
        finally:
            theirs.close()
    return Worker(process, ours)


def _dismiss(workers: list[Worker], employer: int) -> None:
    """End the processes: first by asking, then by force."""
    if os.getpid() != employer:  # a worker that was forked from this process has a copy of the crew
        return
    for worker in workers:
        with suppress(OSError):
            worker.connection.send(None)
        with _closing:
            _open.discard(worker.connection)
            worker.connection.close()
    end = time.monotonic() + GRACE
    for worker in workers:
        worker.process.join(max(end - time.monotonic(), 0))
        for force in (worker.process.terminate, worker.process.kill):
            if worker.process.is_alive():
                force()
                worker.process.join(GRACE)
