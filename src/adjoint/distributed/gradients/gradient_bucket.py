"""Buckets of gradients: memory in which ranks add up the gradients of some parameters in one exchange."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np

from adjoint.core.runtime.exchange_log import ExchangeTimes, exchange_once
from adjoint.core.runtime.launcher_variables import read_local_size
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array
from adjoint.distributed.mpi import Communicator
from adjoint.distributed.ordered_sum import add_neighbours
from adjoint.distributed.process_group import ProcessGroup
from adjoint.ops.collectives import ReduceOp

NAME = "all_reduce of gradients"
CommHook = Callable[[object, "GradBucket"], Any]  # (state, bucket) to a future of the averaged gradients


class GradBucket:
    """The gradients of some parameters, one after another in memory, as communication hooks see them.

    `is_sum_first`: the sum is divided, and not each rank's part before.
    """

    def __init__(self, parameters: Sequence[Tensor], group: ProcessGroup, index: int, is_sum_first: bool) -> None:
        self._parameters, self.group, self._index = list(parameters), group, index
        self._is_last, self.is_sum_first = False, is_sum_first
        sizes = [parameter.array.size for parameter in parameters]
        self.begins: list[int] = np.cumsum([0, *sizes]).tolist()
        self.memory: Array = np.empty(self.begins[-1], parameters[0].array.dtype)
        self.views = [
            self.memory[begin:end].reshape(parameter.array.shape)
            for parameter, begin, end in zip(parameters, self.begins, self.begins[1:], strict=False)
        ]
        self.times = ExchangeTimes()
        self.missing: set[int] = set()
        self.is_started = False
        self.symbol: Tensor | None = None  # what a traced step has started
        self.hook: CommHook | None = None
        self.hook_state: object = None
        self._work: Future[object] | None = None
        self._hooked: Any = None

    def index(self) -> int:
        """Return the number of the bucket; the first is full first."""
        return self._index

    def is_last(self) -> bool:
        """Return whether it is the last of the pass."""
        return self._is_last

    def parameters(self) -> list[Tensor]:
        """Return the parameters."""
        return list(self._parameters)

    def buffer(self) -> Tensor:
        """Return the gradients as one tensor, which is the bucket's memory."""
        return wrap(self.memory)

    def set_buffer(self, tensor: Tensor) -> None:
        """Write a tensor over the gradients."""
        np.copyto(self.memory, tensor.array.reshape(-1))

    def gradients(self) -> list[Tensor]:
        """Return the gradients, one for each parameter."""
        return [wrap(view) for view in self.views]

    def plan_facts(self) -> tuple[object, ...]:
        """Return the facts that a plan on disk is for."""
        return ("bucket", self._index, self.begins, self.memory.dtype.str, *self.group.plan_facts())

    # The pass

    def begin(self) -> None:
        """Wait for the gradients of another pass."""
        self.missing = set(range(len(self._parameters)))
        self.is_started, self.symbol = False, None

    def start(self, gradients: Sequence[Array]) -> None:
        """Begin to average the gradients."""
        exchange_once((), lambda: self._start(gradients))

    def _start(self, gradients: Sequence[Array]) -> None:
        with suppress(Exception):  # a pass that failed has left it under way
            self._wait()
        group, memory = self.group, self.memory
        share = memory.dtype.type(1.0 / group.size())
        scales = self.hook is None and not self.is_sum_first
        with np.errstate(all="ignore"):
            for view, gradient in zip(self.views, gradients, strict=True):
                if scales:
                    np.multiply(gradient, share, out=view)
                else:
                    np.copyto(view, gradient)
        if group.size() == 1:
            return
        if self.hook is not None:
            self._hooked = self.hook(self.hook_state, self)
            return

        def exchange(comm: Communicator) -> None:
            since = perf_counter()
            if self.is_sum_first:
                _add_shards(group, comm, memory)
                np.multiply(memory, share, out=memory)
            else:
                group.reduce_into(comm, memory, memory, ReduceOp.SUM)
            self.times.add_since(since)

        if overlaps(group):
            self._work = group.call_behind(NAME, exchange, memory, f"bucket {self._index}")
        else:
            group.call(NAME, exchange, memory, f"bucket {self._index}")

    def finish(self) -> Array:
        """Wait for the means, and return them."""
        exchange_once((self.memory,), self._wait)
        return self.memory

    def _wait(self) -> None:
        hooked, work, self._hooked, self._work = self._hooked, self._work, None, None
        if hooked is not None:
            averaged = hooked.wait()
            self.set_buffer(averaged[0] if isinstance(averaged, (list, tuple)) else averaged)
        elif work is not None:
            self.group.wait_for(work, NAME)


def make_buckets(
    parameters: Sequence[Tensor], group: ProcessGroup, first_bytes: int, bucket_bytes: int, is_sum_first: bool = False
) -> list[GradBucket]:
    """Divide the parameters, the last first, into buckets of one type and at most these bytes."""
    full: list[tuple[int, list[Tensor]]] = []  # the place of each run's last parameter, by which it is full
    runs: dict[object, tuple[int, int, list[Tensor]]] = {}
    for at, parameter in enumerate(reversed(parameters)):
        array = parameter.array
        last, size, run = runs.get(array.dtype, (0, 0, []))
        if run and size + array.nbytes > (bucket_bytes if full else first_bytes):
            full.append((last, run))
            size, run = 0, []
        runs[array.dtype] = at, size + array.nbytes, [*run, parameter]
    full += [(last, run) for last, _, run in runs.values()]
    full.sort(key=lambda each: each[0])
    buckets = [GradBucket(run, group, i, is_sum_first) for i, (_, run) in enumerate(full)]
    buckets[-1]._is_last = True
    return buckets


def _add_shards(group: ProcessGroup, comm: Communicator, memory: Array) -> None:
    """Add all ranks' sums of shards. Types of two bytes are rounded by each addition, as within a rank."""
    if memory.dtype.itemsize > 2:
        group.reduce_into(comm, memory, memory, ReduceOp.SUM)
        return
    gathered = np.empty((group.size(), memory.size), memory.dtype)
    group.gather_into(comm, gathered, memory)
    with np.errstate(all="ignore"):
        np.copyto(memory, add_neighbours(list(gathered)))


def overlaps(group: ProcessGroup) -> bool:
    """Return whether a thread may exchange while backward computes: each rank needs a second processor for it."""
    asked = os.environ.get("ADJOINT_OVERLAP")
    if asked is not None:
        return asked == "1"
    # by the machine's processors, and not by this process's share: ranks that answer otherwise would wait for ever
    return (os.cpu_count() or 1) >= 2 * (read_local_size() or group.size())
