"""Exchanges that may not have ended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future as Promise
from datetime import timedelta

from adjoint.compat.stubs.futures import Future
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.tensor.storage import mark_written
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed.mpi import Request


class Work:
    """Exchange that may not have ended; `wait()` returns when it has, and the tensors hold their values."""

    def __init__(
        self,
        future: Promise[object] | None = None,
        tensors: tuple[Tensor, ...] = (),
        finish: Callable[[], object] | None = None,
        requests: tuple[Request, ...] = (),
        kept: tuple[object, ...] = (),
    ) -> None:
        self.future, self.tensors, self.finish, self.requests = future, tensors, finish, requests
        self.kept = kept  # memory that MPI still reads

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end, and return True. Raises what went wrong; TimeoutError after `timeout`."""
        if self.future is not None:
            self.future.result(None if timeout is None else timeout.total_seconds())
        for request in self.requests:
            request.Wait()
        if self.finish is not None:
            self.finish()
        for tensor in self.tensors:
            mark_written(tensor, user_instruction())
        self.tensors, self.finish = (), None
        return True

    def is_completed(self) -> bool:
        """Return whether it has ended."""
        return (self.future is None or self.future.done()) and all(request.Test() for request in self.requests)

    def is_success(self) -> bool:
        """Return whether it has ended, and nothing went wrong."""
        return self.is_completed() and (self.future is None or self.future.exception() is None)

    def exception(self) -> BaseException | None:
        """Return what went wrong, if it has ended."""
        return self.future.exception() if self.future is not None and self.future.done() else None

    def result(self) -> list[Tensor]:
        """Wait, and return the tensors."""
        tensors = list(self.tensors)
        self.wait()
        return tensors

    def get_future(self) -> Future[list[Tensor]]:
        """Return a future of the tensors, as communication hooks give it; it is done when this has ended."""
        made: Future[list[Tensor]] = Future()
        tensors = list(self.tensors)
        if self.future is None:
            made.set_result(tensors)
        else:
            self.future.add_done_callback(lambda done: _settle(made, done, tensors))
        return made


def _settle(future: Future[list[Tensor]], done: Promise[object], tensors: list[Tensor]) -> None:
    """Give the future what an exchange has given: its tensors, or its error."""
    error = done.exception()
    if isinstance(error, Exception):
        future.set_exception(error)
    else:
        future.set_result(tensors)
