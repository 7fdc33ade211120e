"""Groups of ranks, which exchange arrays over MPI as they lie in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import inf
from typing import TypeVar

import numpy as np

from adjoint.core.graph.source_location import site_of, user_instruction
from adjoint.core.runtime.exchange_log import exchange_logs, exchange_once, exchange_site
from adjoint.core.typing import Array
from adjoint.distributed.call_checks import CallChecker, make_facts
from adjoint.distributed.mpi import Communicator, bytes_of, exchange_pairwise, mpi_module
from adjoint.distributed.ordered_sum import MAX_GATHERED_BYTES, add_pairwise, sum_over_ranks
from adjoint.distributed.rank_watch import CollectiveCall
from adjoint.ops.collectives import How, ReduceOp

T = TypeVar("T")
# MPI's names of the reductions that it carries out; sums of numbers with a point are added in one order of our own
MPI_REDUCTIONS: dict[How, str] = {
    ReduceOp.SUM: "SUM", ReduceOp.AVG: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN", ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND", ReduceOp.BOR: "BOR", ReduceOp.BXOR: "BXOR",
}
BOOL_REDUCTIONS: dict[How, str] = {
    ReduceOp.SUM: "LOR", ReduceOp.MAX: "LOR", ReduceOp.BOR: "LOR", ReduceOp.MIN: "LAND", ReduceOp.PRODUCT: "LAND",
    ReduceOp.BAND: "LAND", ReduceOp.BXOR: "LXOR",
}


class ProcessGroup:
    """Ranks that do something together.

    What is not waited for at once has a thread and a communicator of its own, so that neither can overtake the other.
    """

    def __init__(self, comm: Communicator | None, ranks: list[int], backend: str) -> None:
        self.comm, self.ranks, self.backend = comm, ranks, backend
        self._rank = 0 if comm is None else comm.rank
        self._behind = None if comm is None else comm.Dup()
        self._messages = None if comm is None else comm.Dup()  # of send and recv, whose tags are the user's
        self._thread: ThreadPoolExecutor | None = None
        self._scratch: dict[bool, Array] = {}
        self.checker: CallChecker | None = None  # of ranks that compare their calls
        self.number = 0  # how many groups all ranks had made before
        self.calls = 0
        self.current_call: CollectiveCall | None = None

    def rank(self) -> int:
        """Return the number of this process in the group."""
        return self._rank

    def size(self) -> int:
        """Return the number of processes in the group."""
        return len(self.ranks)

    def name(self) -> str:
        """Return the name of the backend that was asked for."""
        return self.backend

    def plan_facts(self) -> tuple[object, ...]:
        """Return the facts that a plan on disk is for."""
        return ("group", tuple(self.ranks))

    def __repr__(self) -> str:
        return f"ProcessGroup({self.backend!r}, rank {self._rank} of {self.size()})"

    def call(
        self, name: str, exchange: Callable[[Communicator], T], x: Array | None = None, how: How | str = None
    ) -> T:
        """Return `exchange(communicator)`, in which this rank waits for the others; `name` is told if it is stuck.

        With a `checker` ranks compare the name, the operand `x`, and the reduction or root `how` before.
        """
        if self.comm is None:
            raise self._make_closed_error(name)
        if self.checker is not None:
            self._compare_calls(name, x, how)
        return self._wait_in(name, exchange, self.comm)

    def call_message(self, name: str, exchange: Callable[[Communicator], T]) -> T:
        """Return `exchange(communicator)` on the one whose tags are the user's."""
        if self._messages is None:
            raise self._make_closed_error(name)
        return self._wait_in(name, exchange, self._messages)

    def call_behind(
        self, name: str, exchange: Callable[[Communicator], T], x: Array | None = None, how: How | str = None
    ) -> Future[T]:
        """Carry out the exchange in the group's thread, one after another."""
        if self.comm is None:
            raise self._make_closed_error(name)
        if self.checker is not None:
            self._compare_calls(name, x, how)
        return self.start_thread().submit(exchange, self._behind)

    def start_thread(self) -> ThreadPoolExecutor:
        """Return the group's thread; it is started where it was not yet."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="adjoint-exchange")
            self._thread.submit(int)
        return self._thread

    def _compare_calls(self, name: str, x: Array | None, how: How | str) -> None:
        """Raise RuntimeError on all ranks where they are about to call something else."""
        checker = self.checker
        assert checker is not None
        site = exchange_site() or site_of(*user_instruction())
        self._wait_in(name, checker.compare, make_facts(name, x, how, self.ranks, self.number, site))

    def _make_closed_error(self, name: str) -> RuntimeError:
        return RuntimeError(f"{name}: the group {'has one process' if self.size() == 1 else 'was destroyed'}")

    def wait_for(self, work: Future[T], name: str) -> T:
        """Return the result of what `call_behind` began; this rank counts as waiting in it."""
        return self._wait_in(name, work.result)

    def _wait_in(self, name: str, wait: Callable[..., T], *arguments: object) -> T:
        """Return `wait(*arguments)`; meanwhile the watch finds this rank in the call `name`."""
        self.calls += 1
        location = (exchange_logs.count and exchange_site()) or user_instruction()
        self.current_call = call = CollectiveCall(self.calls, name, location, time.monotonic())
        try:
            return wait(*arguments)
        finally:
            call.began = inf

    def close(self) -> None:
        """Wait for what is under way, and free the communicators."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
            self._thread = None
        for comm in (self._behind, self._messages, self.comm):
            if comm is not None and comm != mpi_module().COMM_NULL:
                comm.Free()
        self.comm = self._behind = self._messages = None

    # Exchanges of arrays, each over a communicator of this group

    def reduce_into(self, comm: Communicator, out: Array, x: Array, op: How) -> None:
        """Write the reduction of all ranks' x into `out`, which may be x."""
        kind = x.dtype.kind
        if kind in "fcV" and (op is ReduceOp.SUM or op is ReduceOp.AVG):
            sum_over_ranks(comm, out, x, lambda count: self._allocate(comm, count))
        else:
            names = BOOL_REDUCTIONS if kind == "b" else MPI_REDUCTIONS
            MPI = mpi_module()
            comm.Allreduce(MPI.IN_PLACE if out is x else np.ascontiguousarray(x), out, getattr(MPI, names[op]))
        if op is ReduceOp.AVG:
            _divide(out, self.size())

    def reduce_scatter_into(self, comm: Communicator, out: Array, x: Array, op: How) -> None:
        """Write this rank's part of the reduction of all ranks' x; its first dimension is divided among them."""
        count = self.size()
        blocks = list(np.ascontiguousarray(x).reshape(count, out.size))
        rows = list(self._allocate(comm, x.nbytes).view(x.dtype).reshape(count, out.size))
        rows[self._rank] = blocks[self._rank]
        exchange_pairwise(comm, blocks, rows)
        if op is ReduceOp.SUM or op is ReduceOp.AVG:
            add_pairwise(rows, out.reshape(-1))
        else:
            ufuncs: dict[How, np.ufunc] = {
                ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum,
                ReduceOp.BAND: np.bitwise_and, ReduceOp.BOR: np.bitwise_or, ReduceOp.BXOR: np.bitwise_xor,
            }
            ufuncs[op].reduce(rows, axis=0, out=out.reshape(-1))
        if op is ReduceOp.AVG:
            _divide(out, count)

    def gather_into(self, comm: Communicator, out: Array, x: Array) -> None:
        """Write all ranks' x into `out`, one after another."""
        x = np.ascontiguousarray(x)
        if out.nbytes <= MAX_GATHERED_BYTES:
            comm.Allgather(bytes_of(x), bytes_of(out))
            return
        rows = list(out.reshape(self.size(), x.size))
        rows[self._rank][...] = x.reshape(-1)
        exchange_pairwise(comm, [x] * self.size(), rows)

    def exchange_blocks(
        self, comm: Communicator, out: Array, x: Array, received: Sequence[int] = (), lengths: Sequence[int] = ()
    ) -> None:
        """Send blocks of x to the ranks, and write theirs into `out`: of so many bytes, or equal ones."""
        count = self.size()
        sources, targets = (
            np.split(bytes_of(each), np.cumsum(sizes)[:-1] if sizes else count)
            for each, sizes in ((x, lengths), (out, received))
        )
        targets[self._rank][...] = sources[self._rank]
        exchange_pairwise(comm, sources, targets)

    def exchange_into(self, name: str, out: Array, x: Array, how: How) -> None:
        """Carry out a collective of a compiled step, or of a graph: from x into `out`."""
        if self.size() == 1:
            np.copyto(out, x)
            return
        exchanges: dict[str, Callable[[Communicator], object]] = {
            "all_reduce": lambda comm: self.reduce_into(comm, out, np.ascontiguousarray(x), how),
            "all_gather_into_tensor": lambda comm: self.gather_into(comm, out, x),
            "reduce_scatter_tensor": lambda comm: self.reduce_scatter_into(comm, out, x, how),
            "all_to_all_single": lambda comm: self.exchange_blocks(comm, out, np.ascontiguousarray(x)),
            "broadcast": lambda comm: comm.Bcast(bytes_of(out), how),
        }
        if name == "broadcast" and self._rank == how:
            np.copyto(out, x)
        exchange_once((out,), lambda: self.call(name, exchanges[name], x, how))

    def _allocate(self, comm: Communicator, count: int) -> Array:
        """Return so many bytes of scratch memory: what goes over one communicator comes one after another."""
        behind = comm is self._behind
        held = self._scratch.get(behind)
        if held is None or held.nbytes < count:
            held = self._scratch[behind] = np.empty(count, np.uint8)
        return held[:count]


def _divide(out: Array, count: int) -> None:
    """Divide sums by the number of ranks; integers are cut, as PyTorch's are."""
    if out.dtype.kind in "iub":
        np.floor_divide(out, count, out=out)
    else:
        np.divide(out, out.dtype.type(count), out=out)
