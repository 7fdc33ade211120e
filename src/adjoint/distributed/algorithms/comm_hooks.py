"""Communication hooks of `DistributedDataParallel`: what averages the gradients of a bucket in place of a plain sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from adjoint.compat.stubs.futures import Future
from adjoint.core.dtype.dtype import bfloat16, dtype, float16
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed.collectives import all_reduce
from adjoint.distributed.default_group import resolve_group
from adjoint.distributed.gradients.gradient_bucket import GradBucket
from adjoint.distributed.process_group import ProcessGroup

Averaged: TypeAlias = Future[Any]  # of the averaged gradients
Hook: TypeAlias = Callable[..., Averaged]  # (state, bucket), where the state is the hook's own


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Averaged:
    """Average the gradients, as without a hook."""
    return average(bucket.buffer(), process_group)


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Averaged:
    """Average the gradients as float16: half the bytes of float32."""
    return fp16_compress_wrapper(allreduce_hook)(process_group, bucket)


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Averaged:
    """Average the gradients as bfloat16: half the bytes of float32, with its range."""
    return bf16_compress_wrapper(allreduce_hook)(process_group, bucket)


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return the hook that gives `hook` the gradients as float16, and takes the result back in their own type."""
    return _wrap_hook(hook, float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return the hook that gives `hook` the gradients as bfloat16, and takes the result back in their own type."""
    return _wrap_hook(hook, bfloat16)


def noop_hook(_: object, bucket: GradBucket) -> Averaged:
    """Leave each rank its own gradients: what a step costs without exchanges."""
    return complete(bucket.buffer())


def average(tensor: Tensor, process_group: ProcessGroup | None) -> Averaged:
    """Return the future of the mean over the ranks, which takes the tensor's place."""
    group = resolve_group(process_group)
    tensor.div_(group.size())
    work = all_reduce(tensor, group=group, async_op=True)
    assert work is not None  # this rank is in the group
    return work.get_future().then(lambda done: done.value()[0])


def complete(value: object) -> Averaged:
    """Return the future of a value that is there."""
    future: Averaged = Future()
    future.set_result(value)
    return future


class CastBucket:
    """A bucket whose gradients have another type, for a hook that a wrapper calls."""

    def __init__(self, bucket: GradBucket, kind: dtype) -> None:
        self.bucket, self._buffer = bucket, bucket.buffer().to(kind)
        self.index, self.is_last, self.parameters = bucket.index, bucket.is_last, bucket.parameters

    def buffer(self) -> Tensor:
        """Return the gradients as one tensor."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Take another tensor for the gradients."""
        self._buffer = tensor

    def gradients(self) -> Sequence[Tensor]:
        """Return the gradients, one for each parameter."""
        sizes = [parameter.numel() for parameter in self.parameters()]
        parts = self._buffer.split(sizes)
        return [part.view(p.shape) for part, p in zip(parts, self.parameters(), strict=True)]


def _wrap_hook(hook: Hook, kind: dtype) -> Hook:
    def call_in_kind(state: object, bucket: GradBucket) -> Averaged:
        def write_back(future: Averaged) -> Tensor:
            found = future.value()
            return bucket.buffer().copy_(found[0] if isinstance(found, (list, tuple)) else found)

        return hook(state, CastBucket(bucket, kind)).then(write_back)

    return call_in_kind
