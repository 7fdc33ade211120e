"""Worker process of a loader: it fetches batches, and reports its errors."""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, NoReturn

import numpy as np

from adjoint.core.random.generator import default_generator
from adjoint.core.runtime.explanation_slot import uncaught_slot
from adjoint.core.runtime.threads import set_num_threads
from adjoint.data.fetch import DatasetKind, Fetch, make_fetcher
from adjoint.data.worker_pipe import pack, send

START_EPOCH = "begin"
PARENT_CHECK_SECONDS = 2.0  # seconds, after which a worker looks whether the process that it works for is still there


class Job(NamedTuple):
    """Work of all workers of one loader."""

    kind: int
    dataset: Any
    batched: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    init_fn: Callable[[int], None] | None
    workers: int
    seed: int


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Facts of a worker process; `dataset` is its own copy."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


class IterableEnd:
    """Answer in place of a batch: this worker's pass through an iterable dataset is over."""


class WorkerException:
    """Exception of a worker on its way to the loader's process."""

    def __init__(self, error: BaseException, worker: int) -> None:
        uncaught_slot.call(error, error.__traceback__)
        self.kind: Any = type(error)
        self.text = (
            f"Caught {self.kind.__name__} in DataLoader worker process {worker}.\n"
            f"Original {''.join(traceback.format_exception(error))}"
        )

    def reraise(self) -> NoReturn:
        """Raise an error of the same type with the worker's traceback, or RuntimeError if the type takes no text."""
        if self.kind is KeyError:
            raise KeyError(KeyErrorMessage(self.text))
        try:
            error = self.kind(message=self.text) if getattr(self.kind, "message", None) else self.kind(self.text)
        except Exception:  # noqa: BLE001  a user's class may want other arguments, or any
            raise RuntimeError(self.text) from None
        raise error


class KeyErrorMessage(str):
    """Text whose repr is itself, for `KeyError`, which shows the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return the id, the seed and the dataset of this worker process, or None outside of one.

    The result has the attributes `id`, `num_workers`, `seed` and `dataset`.

    Example:
        >>> ad.data.get_worker_info() is None
        True
    """
    return _worker_info


def run_worker(connection: Connection, inherited: Iterable[Connection], job: Job, number: int) -> None:
    """Answer the tasks that come through `connection` until it ends; `inherited` are ends of pipes of others.

    A task is (number, indices), or BEGIN where a new pass begins; None ends the work.
    """
    global _worker_info  # noqa: PLW0603  set once, in a process that is this worker's alone
    for end in inherited:  # while a copy is open here, nobody learns that the process we work for is gone
        end.close()
    try:
        set_num_threads(1)
        _seed_generators(job.seed, number)
        _worker_info = WorkerInfo(number, job.workers, job.seed + number, job.dataset)
        tasks: SimpleQueue[Any] = SimpleQueue()
        # A task is taken from the pipe at once: the other side must never wait for room while we wait for it.
        Thread(target=_receive_tasks, args=(connection, tasks), daemon=True).start()
        _serve_tasks(connection, tasks, job, number)
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        pass  # the process that we work for is told of an interrupt too, or is gone


def _serve_tasks(connection: Connection, tasks: SimpleQueue[Any], job: Job, worker: int) -> None:
    failure: WorkerException | None = None
    try:
        if job.init_fn is not None:
            job.init_fn(worker)
    except Exception as error:  # noqa: BLE001  whatever it is, it is raised where the batch is wanted
        failure = WorkerException(error, worker)
    fetch: Fetch | None = None
    ended = False
    while (task := tasks.get()) is not None:
        if task == START_EPOCH:
            fetch, ended = None, False
        if task == START_EPOCH or ended:
            continue
        number, at = task
        answer: Any = failure
        if answer is None:
            try:
                if fetch is None:
                    fetch = make_fetcher(job.kind, job.dataset, job.batched, job.collate_fn, job.drop_last)
                answer = fetch(at)
            except Exception as error:  # noqa: BLE001  as above
                ended = isinstance(error, StopIteration) and job.kind == DatasetKind.Iterable
                answer = IterableEnd() if ended else WorkerException(error, worker)
        send(connection, number, *_pack_answer(answer, worker))


def _pack_answer(answer: Any, worker: int) -> tuple[bytes, list[memoryview]]:
    """Pickle an answer; one that cannot be pickled becomes an error like any other."""
    try:
        return pack(answer)
    except Exception as error:  # noqa: BLE001  pickling runs the code of users' classes
        if not isinstance(answer, WorkerException):
            return _pack_answer(WorkerException(error, worker), worker)
        answer.kind = RuntimeError
        return pack(answer)


def _receive_tasks(connection: Connection, tasks: SimpleQueue[Any]) -> None:
    employer = os.getppid()
    try:
        while os.getppid() == employer:
            if connection.poll(PARENT_CHECK_SECONDS):
                task = connection.recv()
                tasks.put(task)
                if task is None:
                    return
    except (EOFError, OSError):
        pass
    tasks.put(None)


def _seed_generators(seed: int, worker: int) -> None:
    """Seed the generators of Python, NumPy and the library as PyTorch seeds those of its workers."""
    random.seed(seed + worker)
    default_generator.manual_seed(seed + worker)
    words = np.random.SeedSequence([worker, seed & 0xFFFFFFFF, seed >> 32, 0]).generate_state(4)
    np.random.seed(words)  # noqa: NPY002  the generator that users' datasets draw from
