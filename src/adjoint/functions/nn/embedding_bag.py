"""Rows of a table, looked up by number and brought together bag by bag."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.graph.source_location import warn_user
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.publish import rename_node
from adjoint.functions.indexing import gather, scatter
from adjoint.functions.nn.embedding import (
    check_indices,
    embedding_renorm_,
    lookup_rows,
    scale_grad_by_frequency,
)
from adjoint.functions.reduction import sort_quantile_unique
from adjoint.ops.creation import full, ones, positions
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement

__all__ = ["embedding_bag"]

INT64 = np.dtype(np.int64)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the "sum", "mean" or "max" of the rows of `weight` (V, D) in each bag: (bags, D); 0 for an empty one.

    Bags are the rows of an `input` (bags, length), or begin in an `input` (n,) at `offsets`, of which the last is the
    end if `include_last_offset`. `per_sample_weights`, of the input's shape, weigh the rows of sums. The row
    `padding_idx` counts for nothing. The gradient of a maximum goes to the first row that has it. Raises ValueError for
    arguments that contradict each other, RuntimeError for indices outside [0, V), NotImplementedError for weights in
    other modes than "sum".
    """
    if weight.array.dtype.kind in "iu" and input.is_floating_point():
        warn_user(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`."
        )
        weight, input = input, weight
    _check(input, weight, offsets, mode, per_sample_weights, include_last_offset)
    if sparse and mode == "max":
        raise ValueError("embedding_bag: max mode does not support sparse weights; use sparse=False")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if input.ndim == 2:
        bags, length = input.array.shape
        input = movement.reshape(input, shape=(bags * length,))
        column = movement.reshape(positions(bags, INT64), shape=(bags, 1))
        at = movement.reshape(movement.expand(column, shape=(bags, length)), shape=(bags * length,))
        if per_sample_weights is not None:
            per_sample_weights = movement.reshape(per_sample_weights, shape=(bags * length,))
    else:
        bags, at = _find_bag_numbers(input, offsets, include_last_offset)
    check_indices(input)
    rows = weight.array.shape[0]
    complaint = "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {}"
    indexing.check_range(input, rows, complaint, low=0, error=RuntimeError)
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise RuntimeError(
                f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but got "
                f"{padding_idx}"
            )
        padding_idx %= rows
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    taken, _ = lookup_rows(weight, input, sparse, padding_idx)
    if scale_grad_by_freq:
        taken = scale_grad_by_frequency(taken, input, rows)
    there = None if padding_idx is None else comparison.ne(input, padding_idx)
    out = _reduce_bags(taken, at, bags, mode, per_sample_weights, there)
    return rename_node(out, "EmbeddingBagBackward0")


def _check(input: Operand, weight: Operand, offsets: Operand, mode: str, weights: Operand, ended: bool) -> None:
    if weights is not None and weights.array.shape != input.array.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({list(weights.array.shape)}) is not None, then it must have the "
            f"same shape as the input ({list(input.array.shape)})"
        )
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if input.ndim == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
            f"sequences. However, found offsets of type {type(offsets)}"
        )
    if input.ndim == 1:
        if not isinstance(offsets, Tensor):
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.ndim != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        if ended and not offsets.numel():
            raise RuntimeError("include_last_offset: number of offset should be at least 1")
    elif input.ndim != 2:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}'). Please open a feature request on GitHub."
        )
    if weights is not None and weights.array.dtype != weight.array.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type {weight.dtype} does not equal {weights.dtype} (while checking arguments "
            "for embedding_bag)"
        )


def _find_bag_numbers(input: Tensor, offsets: Operand, ended: bool) -> tuple[int, Tensor]:
    """Return the number of bags, and for each index the number of its bag."""
    check_indices(offsets)
    starts = offsets[:-1] if ended else offsets
    count = starts.array.shape[0]
    known = starts.array if type(starts.array) is np.ndarray else None
    if known is not None and count:
        if known[0] != 0:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
                f"However, got {known[0]}"
            )
        if known[-1] > input.array.shape[0]:
            raise RuntimeError(
                "offsets[-1] can not be greater than input's length "
                f"{list(input.array.shape)} but got offsets[-1] of {known[-1]}"
            )
    numbers = positions(input.array.shape[0], starts.array.dtype)
    return count, sort_quantile_unique.searchsorted(starts, numbers, right=True) - 1


@in_float32
def _reduce_bags(taken: Operand, at: Tensor, bags: int, mode: str, weights: Tensor | None, there: Operand) -> Tensor:
    """Reduce the rows (n, D) of each bag to one."""
    shape = (bags, taken.array.shape[1])
    if not bags or not taken.array.shape[0]:
        nothing = taken.sum() * 0.0 if weights is None else (taken * weights.unsqueeze(1)).sum() * 0.0
        return constant(np.zeros(shape, taken.array.dtype)) + nothing
    if mode == "max":
        return _max_of_bags(taken, at, shape, there)
    if weights is not None:
        taken = taken * weights.unsqueeze(1)
    if there is not None:
        taken = select.where(there.unsqueeze(1), taken, 0.0)
    total: Operand = indexing.index_add(taken, at, shape=shape, pattern=(0,))
    if mode == "sum":
        return total
    kind = taken.array.dtype
    each = ones(at.array.shape, kind) if there is None else select.cast(there, dtype=kind)
    counts = indexing.index_add(each, at, shape=(bags,), pattern=(0,))
    return total / arithmetic.maximum(counts, 1.0).unsqueeze(1)


def _max_of_bags(taken: Operand, at: Operand, shape: tuple[int, int], there: Operand) -> Operand:
    """Return the largest of each bag, element by element, from the first row that has it; 0 for no rows."""
    count = taken.array.shape[0]
    where = movement.expand(at.unsqueeze(1), shape=taken.array.shape)
    with ModeScope(recording=False):
        rows = taken if there is None else select.where(there.unsqueeze(1), taken, -math.inf)
        begun = full(shape=shape, value=-math.inf, dtype=taken.array.dtype)
        most = scatter.scatter_reduce(begun, 0, where, rows, "amax")
        numbers = movement.reshape(positions(count, INT64), shape=(count, 1))
        # a NaN equals nothing, and is the largest
        equal = comparison.logical_or(comparison.eq(rows, gather.gather(most, 0, where)), comparison.isnan(rows))
        if there is not None:
            equal = comparison.logical_and(equal, there.unsqueeze(1))
        begun = full(shape=shape, value=count, dtype=INT64)
        first = scatter.scatter_reduce(begun, 0, where, select.where(equal, numbers, count), "amin")
        empty = comparison.eq(first, count)
    found = gather.gather(taken, 0, select.where(empty, 0, first))
    return select.where(empty, 0.0, found)
