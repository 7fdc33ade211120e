"""Gradients of all ranks, averaged bucket by bucket while backward goes on.

A bucket holds the gradients of some parameters, the last ones first, as backward makes them. When all of a bucket have
come, the group's thread adds them up with those of the other ranks; at the end of the pass the means take the place of
the gradients. Buckets start in a fixed order, so that ranks agree whatever comes first on each. In a step that is being
traced the same happens in symbols: `start_all_reduce` where a bucket is full, `finish_all_reduce` at the end.

Source: S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training" (VLDB 2020).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, cast

import numpy as np

from adjoint.autograd.engine.engine import queue_callback
from adjoint.autograd.grad_mode import no_grad
from adjoint.core.runtime.mode import has_interpreter
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array
from adjoint.distributed.mpi import Communicator
from adjoint.distributed.process_group import ProcessGroup
from adjoint.functions.shape.join import cat
from adjoint.ops import collectives as ops
from adjoint.ops.collectives import ReduceOp

FIRST_BUCKET_BYTES, BUCKET_BYTES = 1 << 20, 25 << 20
CommHook = Callable[[object, "GradBucket"], Any]  # (state, bucket) to a future of the averaged gradients


class GradBucket:
    """The gradients of some parameters, one after another in memory, as communication hooks see them."""

    def __init__(self, parameters: Sequence[Tensor], group: ProcessGroup, index: int) -> None:
        self._parameters, self.group, self._index = list(parameters), group, index
        self._is_last = False
        sizes = [parameter.array.size for parameter in parameters]
        self.begins: list[int] = np.cumsum([0, *sizes]).tolist()
        self.memory: Array = np.empty(self.begins[-1], parameters[0].array.dtype)
        self.views = [
            self.memory[begin:end].reshape(parameter.array.shape)
            for parameter, begin, end in zip(parameters, self.begins, self.begins[1:], strict=False)
        ]
        self.missing: set[int] = set()
        self.work: Future[object] | None = None
        self.symbol: Tensor | None = None
        self.hook: CommHook | None = None
        self.hook_state: object = None
        self.hooked: Any = None

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

    # The pass

    def begin(self) -> None:
        """Wait for the gradients of another pass."""
        self.missing = set(range(len(self._parameters)))
        self.work = self.symbol = self.hooked = None

    def start(self, x: Array | None = None) -> None:
        """Begin to average; a compiled step gives the gradients as `x`."""
        if x is not None:
            np.copyto(self.memory, x)
        if self.hook is not None:
            self.hooked = self.hook(self.hook_state, self)
            return
        group, memory = self.group, self.memory
        np.multiply(memory, memory.dtype.type(1.0 / group.size()), out=memory)

        def exchange(comm: Communicator) -> None:
            group.reduce_into(comm, memory, memory, ReduceOp.SUM)

        if _overlaps(group):
            self.work = group.call_behind("all_reduce of gradients", exchange)
        else:
            group.call("all_reduce of gradients", exchange)

    def finish(self) -> Array:
        """Wait for the means, and return them."""
        if self.hooked is not None:
            averaged = self.hooked.wait()
            averaged = averaged[0] if isinstance(averaged, (list, tuple)) else averaged
            self.set_buffer(averaged)
        elif self.work is not None:
            self.group.wait_for(self.work, "all_reduce of gradients")
        return self.memory


class Reducer:
    """Averages the gradients of a model's parameters over the ranks of a group, at the end of each backward pass."""

    def __init__(
        self,
        named_parameters: Sequence[tuple[str, Tensor]],
        group: ProcessGroup,
        first_bytes: int,
        bucket_bytes: int,
        find_unused_parameters: bool,
    ) -> None:
        self.group, self.find_unused_parameters = group, find_unused_parameters
        self.names = {id(parameter): name for name, parameter in named_parameters}
        self.buckets = _make_buckets([p for _, p in named_parameters], group, first_bytes, bucket_bytes)
        self.places = {
            id(parameter): (bucket, i) for bucket in self.buckets for i, parameter in enumerate(bucket.parameters())
        }
        self.is_running = False
        self.next = 0  # the first bucket that has not started
        self.is_wanted = True  # False within `no_sync`
        self.active: Tensor | None = None  # how many ranks still have inputs, where means are over these
        for _, parameter in named_parameters:
            parameter.register_post_accumulate_grad_hook(self._receive)

    def set_hook(self, state: object, hook: CommHook) -> None:
        """Have `hook(state, bucket)` average the gradients of each bucket."""
        for bucket in self.buckets:
            bucket.hook, bucket.hook_state = hook, state

    def answer(self, exchanges_used: bool) -> None:
        """Take part in a pass of the other ranks, with gradients of zero, and put the means in their place."""
        for bucket in self.buckets:
            bucket.begin()
            bucket.memory.fill(0)
            bucket.start()
        used = self._find_used() if exchanges_used else None
        for bucket in self.buckets:
            self._place_means(bucket, used)

    def _receive(self, parameter: Tensor) -> None:
        """Take the gradient of a parameter, and start the buckets that are full."""
        if not self.is_wanted or self.group.size() == 1:
            return
        if not self.is_running:
            self.is_running, self.next = True, 0
            for bucket in self.buckets:
                bucket.begin()
            queue_callback(self._end_pass)
        bucket, i = self.places[id(parameter)]
        bucket.missing.discard(i)
        if not has_interpreter():
            np.copyto(bucket.views[i], _gradient_of(parameter).array)
        while self.next < len(self.buckets) and not self.buckets[self.next].missing:
            self._start(self.buckets[self.next])
            self.next += 1

    def _start(self, bucket: GradBucket) -> None:
        if not has_interpreter():
            bucket.start()
            return
        with no_grad():
            whole = cat([_gradient_of(parameter).reshape(-1) for parameter in bucket.parameters()])
            bucket.symbol = cast("Tensor", ops.start_all_reduce(whole, bucket=bucket))

    def _end_pass(self) -> None:
        """Put the means in the place of the gradients.

        Raises: RuntimeError for parameters without a gradient, unless unused ones are to be found.
        """
        self.is_running = False
        missing = [(bucket, i) for bucket in self.buckets for i in sorted(bucket.missing)]
        if missing and not self.find_unused_parameters:
            raise RuntimeError(self._describe_missing([bucket.parameters()[i] for bucket, i in missing]))
        for bucket, i in missing:
            bucket.views[i][...] = 0
        for bucket in self.buckets[self.next :]:
            self._start(bucket)
        used = self._find_used() if self.find_unused_parameters and not has_interpreter() else None
        for bucket in self.buckets:
            if has_interpreter():
                self._place_symbols(bucket)
            else:
                self._place_means(bucket, used)

    def _describe_missing(self, parameters: Sequence[Tensor]) -> str:
        named = [f"{self.names[id(p)]} {tuple(p.shape)}" for p in parameters]
        listed = ", ".join(named[:5]) + (", …" if len(named) > 5 else "")
        return (
            f"{len(named)} parameters of rank {self.group.rank()} took no part in the loss: {listed}. The other ranks "
            "wait for their gradients: pass find_unused_parameters=True to DistributedDataParallel, or use them"
        )

    def _find_used(self) -> dict[int, bool]:
        """Return, by parameter, whether some rank has a gradient of it."""
        flags = np.array([i not in bucket.missing for bucket in self.buckets for i in range(len(bucket.views))])
        self.group.call(
            "all_reduce of used parameters",
            lambda comm: self.group.reduce_into(comm, flags, flags, ReduceOp.MAX),
        )
        parameters = [parameter for bucket in self.buckets for parameter in bucket.parameters()]
        return {id(parameter): bool(flag) for parameter, flag in zip(parameters, flags, strict=True)}

    def _place_means(self, bucket: GradBucket, used: dict[int, bool] | None) -> None:
        memory = bucket.finish()
        if self.active is not None:
            np.multiply(memory, memory.dtype.type(self.group.size() / self.active.item()), out=memory)
        for parameter, view in zip(bucket.parameters(), bucket.views, strict=True):
            if used is not None and not used[id(parameter)]:
                continue  # no rank has a gradient: it stays as it was
            if parameter.grad is None:
                parameter.grad = wrap(view.copy())
            else:
                np.copyto(parameter.grad.array, view)

    def _place_symbols(self, bucket: GradBucket) -> None:
        with no_grad():
            whole = cast("Tensor", ops.finish_all_reduce(bucket.symbol, bucket=bucket))
            if self.active is not None:
                whole = whole * (self.group.size() / self.active).to(whole.dtype)
            for parameter, begin, end in zip(bucket.parameters(), bucket.begins, bucket.begins[1:], strict=False):
                mean = whole.narrow(0, begin, end - begin).reshape(parameter.shape)
                if parameter.grad is None:
                    parameter.grad = mean.clone()
                else:
                    parameter.grad.copy_(mean)


def _make_buckets(
    parameters: Sequence[Tensor], group: ProcessGroup, first_bytes: int, bucket_bytes: int
) -> list[GradBucket]:
    """Divide the parameters, the last first, into buckets of one type and at most these bytes."""
    runs: list[list[Tensor]] = []
    limit, size = first_bytes, 0
    for parameter in reversed(parameters):
        array = parameter.array
        if not runs or size + array.nbytes > limit or array.dtype != runs[-1][0].array.dtype:
            limit, size = (bucket_bytes if runs else first_bytes), 0
            runs.append([])
        runs[-1].append(parameter)
        size += array.nbytes
    buckets = [GradBucket(run, group, i) for i, run in enumerate(runs)]
    buckets[-1]._is_last = True
    return buckets


def _gradient_of(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        return wrap(np.zeros(parameter.shape, parameter.array.dtype))
    return parameter.grad


def _overlaps(group: ProcessGroup) -> bool:
    """Return whether a thread may exchange while backward computes: each rank needs a second processor for it."""
    asked = os.environ.get("ADJOINT_OVERLAP")
    if asked is not None:
        return asked == "1"
    here = int(os.environ.get("LOCAL_WORLD_SIZE", group.size()))
    return (os.cpu_count() or 1) >= 2 * here
