"""Ranks that are threads: a communicator with MPI's calls, for tests of sums over many ranks without MPI."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np


class ThreadCommunicator:
    """Communicator of one of `size` threads; what they exchange lies in `board`, between barriers."""

    def __init__(self, rank: int, size: int, board: dict[Any, Any], barrier: threading.Barrier) -> None:
        self.rank, self.size, self.board, self.barrier = rank, size, board, barrier

    def _exchange(self, value: Any) -> list[Any]:
        self.board[self.rank] = value
        self.barrier.wait()
        values = [self.board[rank] for rank in range(self.size)]
        self.barrier.wait()
        return values

    def Allgather(self, sent: Any, received: Any) -> None:
        """MPI_Allgather of bytes."""
        received[...] = np.concatenate(self._exchange(sent.copy()))

    def Sendrecv(self, sent: Any, dest: int, sendtag: int, received: Any, source: int, recvtag: int) -> None:
        """MPI_Sendrecv of bytes; all ranks call it at the same time."""
        received[...] = self._exchange(sent.copy())[source]

    def Isend(self, sent: Any, dest: int, tag: int) -> ThreadRequest:
        """MPI_Isend of bytes, which are on their way when it returns."""
        self._line(self.rank, dest).put(sent.copy())
        return ThreadRequest(lambda: None)

    def Irecv(self, received: Any, source: int, tag: int) -> ThreadRequest:
        """MPI_Irecv of bytes, which come when it is waited for."""
        return ThreadRequest(lambda: np.copyto(received, self._line(source, self.rank).get(timeout=60)))

    def _line(self, source: int, dest: int) -> queue.Queue[Any]:
        line: queue.Queue[Any] = self.board.setdefault(("line", source, dest), queue.Queue())
        return line


class ThreadRequest:
    """Message that may not have come."""

    def __init__(self, finish: Callable[[], None]) -> None:
        self.Wait = finish


def run_threads(size: int, work: Callable[[ThreadCommunicator], Any]) -> list[Any]:
    """Return what `work(communicator)` returns on each rank."""
    board: dict[Any, Any] = {}
    barrier = threading.Barrier(size)
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadCommunicator(rank, size, board, barrier))
        except BaseException as error:  # noqa: BLE001  the caller raises it
            results[rank] = error
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, threading.BrokenBarrierError):
            raise result
    return results
