"""Gradients of all ranks, averaged bucket by bucket while backward goes on.

A bucket holds the gradients of some parameters, the last ones first, as backward makes them. When all of a bucket have
come, the group's thread adds them up with those of the other ranks; at the end of the pass the means take the place of
the gradients. Buckets start in a fixed order, so that ranks agree whatever comes first on each. In a step that is being
traced the same happens in symbols: `start_all_reduce` where a bucket is full, `finish_all_reduce` at the end.

Source: S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training" (VLDB 2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast
from weakref import finalize, ref

import numpy as np

from adjoint.autograd.engine.engine import call_at_end_of_all, outermost_pass
from adjoint.autograd.grad_mode import no_grad
from adjoint.core.runtime.mode import depends_on, guard_on, has_interpreter, set_backward_origin
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.distributed.gradients.gradient_bucket import CommHook, GradBucket, make_buckets, overlaps
from adjoint.distributed.process_group import ProcessGroup
from adjoint.ops import collectives as ops
from adjoint.ops.collectives import ReduceOp

FIRST_BUCKET_BYTES, BUCKET_BYTES = 1 << 20, 25 << 20


class Reducer:
    """Averages the gradients of a model's parameters over the ranks of a group, at the end of each backward pass.

    With `is_static` gradients may come several times in a pass, as those of blocks that checkpoints compute again, and
    ranks exchange them at its end.
    """

    def __init__(
        self,
        named_parameters: Sequence[tuple[str, Tensor]],
        group: ProcessGroup,
        first_bytes: int,
        bucket_bytes: int,
        find_unused_parameters: bool,
        has_views: bool = False,
        is_sum_first: bool = False,
    ) -> None:
        self.group, self.find_unused_parameters, self.has_views = group, find_unused_parameters, has_views
        self.is_sum_first = is_sum_first
        self.names = {id(parameter): (i, name) for i, (name, parameter) in enumerate(named_parameters)}
        parameters = [parameter for _, parameter in named_parameters]
        self.buckets = make_buckets(parameters, group, first_bytes, bucket_bytes, is_sum_first)
        self.places = {
            id(parameter): (bucket, i) for bucket in self.buckets for i, parameter in enumerate(bucket.parameters())
        }
        self.is_static = False
        self.current: object = None  # the backward pass that is under way
        self.next = 0  # the first bucket that has not started
        self.is_wanted = True  # False within `no_sync`
        self.is_paused_in_trace = False  # within `no_sync` in a step that is being traced
        self.active: Tensor | None = None  # how many ranks still have inputs, where means are over these
        if group.size() > 1 and overlaps(group):
            group.start_thread()  # not in a step that is being traced
        held = ref(self)

        def receive(parameter: Tensor) -> None:
            reducer = held()
            if reducer is not None:
                reducer._receive(parameter)

        for parameter in parameters:  # whose model may be wrapped anew when this is gone
            finalize(self, parameter.register_post_accumulate_grad_hook(receive).remove)

    def set_hook(self, state: object, hook: CommHook) -> None:
        """Have `hook(state, bucket)` average the gradients of each bucket."""
        for bucket in self.buckets:
            bucket.hook, bucket.hook_state = hook, state

    def has_exchanges(self) -> bool:
        """Return whether backward passes exchange gradients now: not within `no_sync`, nor with one rank.

        A compiled step with shards has the exchanges of one rank too: what follows is rounded as on several.
        """
        alone = self.group.size() == 1 and not (self.is_sum_first and has_interpreter())
        if alone or self.is_paused_in_trace:
            return False
        return guard_on(self, _is_wanted, "no_sync()")

    def finds_unused(self) -> bool:
        """Return whether ranks tell one another at the end of a pass which parameters took part."""
        return self.find_unused_parameters or self.is_static

    def answer(self, exchanges_used: bool) -> None:
        """Take part in a pass of the other ranks, with gradients of zero, and put the means in their place."""
        for bucket in self.buckets:
            bucket.begin()
            bucket.start([np.zeros(view.shape, view.dtype) for view in bucket.views])
        missing = [(bucket, i) for bucket in self.buckets for i in range(len(bucket.views))]
        unused = self._find_unused(missing) if exchanges_used else set()
        for bucket in self.buckets:
            self._place_means(bucket, unused)

    def _receive(self, parameter: Tensor) -> None:
        """Take the gradient of a parameter, and start the buckets that are full."""
        if not self.has_exchanges():
            return
        if self.current is None or self.current is not outermost_pass():
            self._begin_pass()
        bucket, i = self.places[id(parameter)]
        if bucket.is_started:
            raise RuntimeError(self._describe_second_gradient(parameter))
        bucket.missing.discard(i)
        while not self.is_static and self.next < len(self.buckets) and not self.buckets[self.next].missing:
            self._start(self.buckets[self.next])
            self.next += 1

    def _begin_pass(self) -> None:
        self.current, self.next = outermost_pass(), 0
        for bucket in self.buckets:
            bucket.begin()
        call_at_end_of_all(self._end_pass)

    def _start(self, bucket: GradBucket) -> None:
        bucket.is_started = True
        gradients = [
            wrap(np.zeros(each.shape, each.array.dtype)) if each.grad is None else each.grad
            for each in bucket.parameters()
        ]
        if not has_interpreter():
            bucket.start([gradient.array for gradient in gradients])
            return
        with no_grad():
            set_backward_origin(None)  # the exchange is told at the line of backward(), and not of the model
            bucket.symbol = cast("Tensor", ops.start_all_reduce(*gradients, bucket=bucket))

    def _end_pass(self) -> None:
        """Put the means in the place of the gradients.

        Raises: RuntimeError for parameters without a gradient, unless unused ones are to be found.
        """
        self.current = None
        missing = [(bucket, i) for bucket in self.buckets for i in sorted(bucket.missing)]
        if missing and not self.finds_unused() and self.group.size() > 1:
            raise RuntimeError(self._describe_missing(bucket.parameters()[i] for bucket, i in missing))
        for bucket in self.buckets[self.next :]:
            self._start(bucket)
        unused = self._find_unused(missing) if self.finds_unused() or self.group.size() == 1 else set()
        for bucket in self.buckets:
            if has_interpreter():
                self._place_symbols(bucket, unused)
            else:
                self._place_means(bucket, unused)

    def _describe_missing(self, parameters: Iterable[Tensor]) -> str:
        found = [(self.names[id(p)], tuple(p.shape)) for p in parameters]
        listed = ", ".join(f"{name} {shape}" for (_, name), shape in found[:5]) + (", …" if len(found) > 5 else "")
        indices = " ".join(str(i) for (i, _), _ in sorted(found))
        return (
            f"{pluralize(len(found), 'parameter')} of rank {self.group.rank()} took no part in the loss: {listed}. "
            "The other ranks "
            "wait for their gradients: pass find_unused_parameters=True to DistributedDataParallel, or use them. "
            f"Parameter indices which did not receive grad for rank {self.group.rank()}: {indices}"
        )

    def _describe_second_gradient(self, parameter: Tensor) -> str:
        index, name = self.names[id(parameter)]
        return (
            f"Expected to mark a variable ready only once: the gradient of parameter {name} (index {index}) came a "
            "second time in one backward pass, when ranks had begun to add it up. A checkpoint with use_reentrant=True "
            "around blocks that share it does so: pass static_graph=True to DistributedDataParallel, or "
            "use_reentrant=False"
        )

    def _find_unused(self, missing: Sequence[tuple[GradBucket, int]]) -> set[int]:
        """Return the ids of the parameters of which no rank has a gradient: they stay as they were."""
        absent = {id(bucket.parameters()[i]) for bucket, i in missing}
        if self.group.size() == 1:
            return absent
        flags = np.array([key not in absent for key in self.places])
        with no_grad():
            used = cast("Tensor", ops.all_reduce(wrap(flags), group=self.group, how=ReduceOp.MAX))
        if not absent:
            return set()
        return {key for key, flag in zip(self.places, used.tolist(), strict=True) if not flag}

    def _place_means(self, bucket: GradBucket, unused: set[int]) -> None:
        memory = bucket.finish()
        if self.active is not None:
            np.multiply(memory, memory.dtype.type(self.group.size() / self.active.item()), out=memory)
        for parameter, view in zip(bucket.parameters(), bucket.views, strict=True):
            if id(parameter) in unused:
                continue
            if self.has_views:
                if parameter.grad is None or parameter.grad.array is not view:
                    parameter.grad = wrap(view)
            elif parameter.grad is None:
                parameter.grad = wrap(view.copy())
            else:
                np.copyto(parameter.grad.array, view)

    def _place_symbols(self, bucket: GradBucket, unused: set[int]) -> None:
        with no_grad():
            whole = cast("Tensor", ops.finish_all_reduce(bucket.symbol, bucket=bucket))
            if self.active is not None:
                whole = whole * (self.group.size() / self.active).to(whole.dtype)
            for parameter, begin, end in zip(bucket.parameters(), bucket.begins, bucket.begins[1:], strict=False):
                mean = whole.narrow(0, begin, end - begin).reshape(parameter.shape)
                if id(parameter) in unused:
                    continue
                if parameter.grad is None:
                    parameter.grad = mean.clone()
                else:
                    parameter.grad.copy_(mean)


@depends_on(lambda reducer: [(vars(reducer), "is_wanted")])
def _is_wanted(reducer: Reducer) -> bool:
    """Return whether backward passes exchange gradients."""
    return reducer.is_wanted
