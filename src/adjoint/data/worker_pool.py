"""Pool of a loader's worker processes: it assigns the batches and hands them out in order."""

from __future__ import annotations

import os
import pickle
import signal
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from threading import RLock
from typing import Any, NamedTuple

from adjoint.core.runtime.fork_safety import hold_across_fork, reset_after_fork
from adjoint.data.worker import START_EPOCH, IterableEnd, Job, WorkerException, run_worker
from adjoint.data.worker_pipe import receive

SHUTDOWN_SECONDS = 5.0  # seconds that workers are given to finish what they are at


class Worker(NamedTuple):
    """Process, and our end of the pipe to it."""

    process: Any
    connection: Connection


_open_connections: weakref.WeakSet[Connection] = weakref.WeakSet()  # our ends of the pipes of all pools
_start_lock = reset_after_fork(RLock())
# A worker that is forked as another thread closes one would close it again: by then that number may be of its own pipe.
_close_lock = hold_across_fork(RLock())  # the collector may close as this thread does


class WorkerPool:
    """Pool of workers that fetch `prefetch_factor` batches ahead each, handed out in the order of the indices.

    Without `in_order` batches come as they arrive. `timeout` is the number of seconds to wait for one, 0 for no limit.
    An error in a worker is raised in place of its batch, with the worker's traceback.

    Raises: RuntimeError after the timeout, and if a worker dies.
    """

    def __init__(self, job: Job, context: Any, prefetch_factor: int, timeout: float, in_order: bool) -> None:
        self.job = job
        self.prefetch_factor = max(prefetch_factor, 1)
        self.timeout = timeout
        self.in_order = in_order
        self.workers: list[Worker] = []
        self.numbers = 0  # batches asked for so far; they are numbered through all passes
        self.pending: dict[int, int] = {}  # the worker that each batch was asked of, oldest first
        self.results: dict[int, Any] = {}
        self.is_active: list[bool] = []
        self.next_worker = 0
        self.indices: Iterator[Any] = iter(())
        self.shutdown = weakref.finalize(self, _shutdown_workers, self.workers, os.getpid())
        try:
            for number in range(job.workers):
                self.workers.append(_start_worker(context, job, number))
        except BaseException:
            self.shutdown()
            raise

    def begin(self, indices: Iterator[Any]) -> None:
        """Begin a pass, and forget the rest of the one before."""
        self.pending.clear()
        self.results.clear()
        self.indices = indices
        self.is_active = [True] * len(self.workers)
        self.next_worker = 0
        for worker in self.workers:
            self._send_task(worker, START_EPOCH)
        for _ in range(self.prefetch_factor * len(self.workers)):
            self._request_next_batch()

    def next(self) -> Any:
        """Return the next batch; raise StopIteration after the last."""
        while self.pending:
            first = next(iter(self.pending if self.in_order or not self.results else self.results))
            if first in self.results:
                del self.pending[first]
                answer = self.results.pop(first)
                self._request_next_batch()
                if isinstance(answer, WorkerException):
                    answer.reraise()
                return answer
            if self.is_active[self.pending[first]]:
                self._receive_ready()
            else:
                del self.pending[first]
        raise StopIteration

    def _request_next_batch(self) -> None:
        """Ask the next worker in turn for the next batch, if there are both."""
        try:
            at = next(self.indices)
        except StopIteration:
            return
        count = len(self.workers)
        share = self.prefetch_factor * count // max(sum(self.is_active), 1)
        busy = list(self.pending.values())
        for _ in range(count):
            worker = self.next_worker
            self.next_worker = (self.next_worker + 1) % count
            if self.is_active[worker] and (self.in_order or busy.count(worker) < share):
                self.pending[self.numbers] = worker
                self._send_task(self.workers[worker], (self.numbers, at))
                self.numbers += 1
                return

    def _send_task(self, worker: Worker, task: Any) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it is dead, which is noticed where its batch is missed
            worker.connection.send(task)

    def _receive_ready(self) -> None:
        """Receive the answers that are there, or wait for one."""
        active = [worker for worker, at_work in zip(self.workers, self.is_active, strict=True) if at_work]
        sources = [source for w in active for source in (w.connection, w.process.sentinel)]
        ready = wait(sources, self.timeout or None)
        if not ready:
            for worker in active:  # it would not hear
                worker.process.terminate()
            self.shutdown()
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
        for number, worker in enumerate(self.workers):
            if worker.connection in ready:
                try:
                    self._store_answer(number, *receive(worker.connection))
                except (EOFError, ConnectionResetError):
                    self._raise_worker_died(worker)
            elif worker.process.sentinel in ready and self.is_active[number] and not worker.connection.poll():
                self._raise_worker_died(worker)

    def _store_answer(self, worker: int, number: int, text: bytes, buffers: list[Any]) -> None:
        if number not in self.pending:
            return  # of a pass that was left early
        try:
            answer = pickle.loads(text, buffers=buffers)
        except Exception as error:  # noqa: BLE001  what a user's class raises as it is made again
            answer = WorkerException(error, worker)
        if isinstance(answer, IterableEnd):
            self.is_active[worker] = False
            del self.pending[number]
            self._request_next_batch()
            return
        self.results[number] = answer

    def _raise_worker_died(self, worker: Worker) -> None:
        """Raise RuntimeError with the cause of a worker's death."""
        pid = worker.process.pid
        worker.process.join(SHUTDOWN_SECONDS)
        code = worker.process.exitcode
        self.pending.clear()
        self.shutdown()
        how = f"with exit code {code}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"killed by signal {signal.Signals(-code).name}"
            how += "; out of memory is a common cause" if -code == getattr(signal, "SIGKILL", 0) else ""
        raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly, {how}")


def _start_worker(context: Any, job: Job, number: int) -> Worker:
    with _start_lock:  # the other end must not be open in a worker that is started meanwhile
        ours, theirs = context.Pipe()
        _open_connections.add(ours)
        inherited = list(_open_connections) if context.get_start_method() == "fork" else []
        process = context.Process(target=run_worker, args=(theirs, inherited, job, number), daemon=True)
        try:
            process.start()
        except BaseException as error:
            _open_connections.discard(ours)
            ours.close()
            if isinstance(error, (AttributeError, TypeError, pickle.PicklingError)):
                error.add_note(
                    f"in sending the dataset to a worker: processes started by {context.get_start_method()!r}, the "
                    "default on Linux since Python 3.14, take it by pickle; define its classes and functions at the "
                    "top level of a module, or give DataLoader multiprocessing_context='fork'"
                )
            raise
        finally:
            theirs.close()
    return Worker(process, ours)


def _shutdown_workers(workers: list[Worker], owner_pid: int) -> None:
    """End the processes: first by asking, then by force."""
    if os.getpid() != owner_pid:  # a worker that was forked from this process has a copy of the pool
        return
    for worker in workers:
        with suppress(OSError):
            worker.connection.send(None)
        with _close_lock:
            _open_connections.discard(worker.connection)
            worker.connection.close()
    end = time.monotonic() + SHUTDOWN_SECONDS
    for worker in workers:
        worker.process.join(max(end - time.monotonic(), 0))
        for force in (worker.process.terminate, worker.process.kill):
            if worker.process.is_alive():
                force()
                worker.process.join(SHUTDOWN_SECONDS)
