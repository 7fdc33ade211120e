"""PowerSGD: gradients of matrices are exchanged as products of two narrow ones; and hooks by their names.

Source: T. Vogels, S. P. Karimireddy, M. Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
Optimization" (NeurIPS 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, member
from functools import partial
from math import isqrt

import numpy as np

from adjoint.core.random.generator import Generator
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed.algorithms.comm_hooks import (
    Averaged,
    Hook,
    allreduce_hook,
    average,
    bf16_compress_hook,
    complete,
    fp16_compress_hook,
    noop_hook,
)
from adjoint.distributed.collectives import all_reduce
from adjoint.distributed.data_parallel import DistributedDataParallel
from adjoint.distributed.default_group import resolve_group
from adjoint.distributed.gradients.gradient_bucket import GradBucket
from adjoint.distributed.process_group import ProcessGroup
from adjoint.functions.creation.random import randn
from adjoint.functions.shape.join import cat


class PowerSGDState:
    """State of `power_sgd_hook`: what was lost in earlier steps, and the last factors.

    Args:
        process_group: the ranks. Default: all.
        matrix_approximation_rank: columns of the factors.
        start_powerSGD_iter: steps that are averaged in full before.
        min_compression_rate: how many times fewer numbers the factors must have for a matrix to be divided.
        use_error_feedback: False to forget what a step has lost.
        warm_start: False to begin each step with random factors.
        orthogonalization_epsilon: added to the lengths by which columns are divided.
        compression_stats_logging_frequency, batch_tensors_with_same_shape: accepted.
        random_seed: of the first factors, the same on all ranks.

    Raises: ValueError for a start before step 2 with feedback or a warm start.
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        self.process_group, self.matrix_approximation_rank = process_group, matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = np.random.RandomState(random_seed)
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def compression_stats(self) -> tuple[float, int, int]:
        """Return how many times fewer numbers were exchanged, how many there were, and how many were exchanged."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0), before, after

    def count_columns(self, rows: int, columns: int, *, is_forced: bool) -> int:
        """Return the columns of a matrix's factors; 0 if it is to be exchanged as it is."""
        rank = min(rows, columns, self.matrix_approximation_rank)
        return rank if is_forced or (rows + columns) * rank * self.min_compression_rate < rows * columns else 0


def power_sgd_hook(state: PowerSGDState, bucket: GradBucket) -> Averaged:
    """Average the gradients, those of large matrices as products P Qᵀ of narrow factors.

    P is the sum of all ranks' M Q, made orthogonal, and Q the mean of all ranks' Mᵀ P, which the next step begins
    with. What the product lacks of M is added to the next gradient.
    """
    return _compress(state, bucket, bucket.gradients())


def batched_power_sgd_hook(state: PowerSGDState, bucket: GradBucket) -> Averaged:
    """Average the gradients of a bucket as one square matrix, padded with zeros, as `power_sgd_hook` does.

    It is divided whatever that saves.
    """
    flat = bucket.buffer()
    side = isqrt(flat.numel() - 1) + 1
    padded = cat([flat, flat.new_zeros(side * side - flat.numel())])

    def take_back(_: Averaged) -> Tensor:
        return flat.copy_(padded[: flat.numel()])

    return _compress(state, bucket, [padded.view(side, side)], padded).then(take_back)


def _compress(
    state: PowerSGDState, bucket: GradBucket, gradients: Sequence[Tensor], whole: Tensor | None = None
) -> Averaged:
    """Average the gradients, which are parts of `whole`, in place."""
    group, flat, index = resolve_group(state.process_group), bucket.buffer() if whole is None else whole, bucket.index()
    step = state.iter
    state.iter += bucket.is_last()
    if step < state.start_powerSGD_iter:
        return average(flat, group)
    before = flat
    if state.use_error_feedback:
        if index in state.error_dict:
            flat.add_(state.error_dict[index])
        before = flat.clone()
    matrices, plain = [], []
    for gradient in gradients:
        matrix = gradient.view(gradient.shape[0] if gradient.ndim else 1, -1)
        columns = state.count_columns(*matrix.shape, is_forced=whole is not None)
        state.total_numel_before_compression += matrix.numel()
        state.total_numel_after_compression += sum(matrix.shape) * columns or matrix.numel()
        if columns:
            matrices.append((matrix, columns))
        else:
            plain.append(gradient)
    _sum_together(plain, group)
    for gradient in plain:
        gradient.div_(group.size())
    _approximate(state, index, matrices, group)
    if state.use_error_feedback:
        state.error_dict[index] = before - flat
    return complete(flat)


def _approximate(
    state: PowerSGDState, index: int, matrices: Sequence[tuple[Tensor, int]], group: ProcessGroup
) -> None:
    """Replace the matrices by the products of narrow factors that all ranks share."""
    right = state.q_memory_dict.get(index)
    if right is None:
        generator = Generator().manual_seed(state.rng.randint(1_000_000_000))
        right = [randn(m.shape[1], columns, dtype=m.dtype, generator=generator) for m, columns in matrices]
    for q in right:
        _orthogonalize(q, state.orthogonalization_epsilon)
    left = [matrix @ q for (matrix, _), q in zip(matrices, right, strict=True)]
    _sum_together(left, group)
    for p in left:
        _orthogonalize(p, state.orthogonalization_epsilon)
    right = [matrix.T @ p for (matrix, _), p in zip(matrices, left, strict=True)]
    _sum_together(right, group)
    for (matrix, _), p, q in zip(matrices, left, right, strict=True):
        matrix.copy_(p @ q.div_(group.size()).T)
    if state.warm_start:
        state.q_memory_dict[index] = right


def _orthogonalize(matrix: Tensor, epsilon: float) -> None:
    """Make the columns orthogonal and of length 1, one after another; one without a length becomes zero."""
    columns = matrix.T.unbind(0)
    for i, column in enumerate(columns):
        length = float(column.norm()) + epsilon
        column.mul_(1 / length if length else 0)
        for rest in columns[i + 1 :]:
            rest.sub_((column * rest).sum() * column)


def _sum_together(tensors: Sequence[Tensor], group: ProcessGroup) -> None:
    """Add up the tensors over the ranks, in one exchange."""
    if not tensors:
        return
    together = cat([tensor.reshape(-1) for tensor in tensors])
    work = all_reduce(together, group=group, async_op=True)
    if work is not None:
        work.wait()
    for tensor, part in zip(tensors, together.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(part.view(tensor.shape))


def _register(
    model: DistributedDataParallel, state: ProcessGroup | None = None, *, hook: Hook, columns: int = 0
) -> None:
    """Register a hook; those of PowerSGD have a state with this number of columns."""
    held = PowerSGDState(state, matrix_approximation_rank=columns) if columns else state
    model.register_comm_hook(held, hook)


class DDPCommHookType(Enum):
    """Hooks by their names, for `register_ddp_comm_hook`."""

    ALLREDUCE = member(partial(_register, hook=allreduce_hook))
    FP16_COMPRESS = member(partial(_register, hook=fp16_compress_hook))
    BF16_COMPRESS = member(partial(_register, hook=bf16_compress_hook))
    POWER_SGD = member(partial(_register, hook=power_sgd_hook, columns=1))
    POWER_SGD_RANK2 = member(partial(_register, hook=power_sgd_hook, columns=2))
    BATCHED_POWER_SGD = member(partial(_register, hook=batched_power_sgd_hook, columns=1))
    BATCHED_POWER_SGD_RANK2 = member(partial(_register, hook=batched_power_sgd_hook, columns=2))
    NOOP = member(partial(_register, hook=noop_hook))


def register_ddp_comm_hook(
    comm_hook_type: DDPCommHookType, model: DistributedDataParallel, state: ProcessGroup | None = None
) -> None:
    """Register a hook by its name; `state` is the group."""
    comm_hook_type.value(model=model, state=state)
