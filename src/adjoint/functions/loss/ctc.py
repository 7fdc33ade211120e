"""Connectionist temporal classification: the loss of a sequence of labels whose times are not known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand
from adjoint.functions.api.compute_dtype import autocast_float32
from adjoint.functions.api.publish import rename_node
from adjoint.functions.creation.creation import full
from adjoint.functions.loss.ctc_recursion import LOG_ZERO, CtcRecursion
from adjoint.functions.loss.regression import apply_loss_reduction
from adjoint.functions.reduction.reduce import logsumexp
from adjoint.ops.elementwise import arithmetic, comparison, select, transcendental
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction as reduction_ops

__all__ = ["ctc_loss"]
_sum = reduction_ops.sum


@autocast_float32
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return -ln of the probability that the log-probabilities give the targets, summed over all alignments.

    Alignments repeat labels and put blanks between them. The gradient assumes log-probabilities from `log_softmax`.

    Args:
        log_probs: tensor (T, N, C) of log-probabilities, as of `log_softmax`.
        targets: labels (N, S) or, concatenated, (Σ target_lengths,).
        input_lengths: number of steps of each sequence.
        target_lengths: number of labels of each sequence.
        blank: class of the blank. Default: 0.
        reduction: "mean", "sum" or "none"; a mean first divides by the target lengths. Default: "mean".
        zero_infinity: True for a loss of 0 where targets are too long. Default: False.

    Shapes:
        log_probs (T, N, C) or (T, C) -> (), or (N,) with "none"

    Raises: RuntimeError for lengths that do not fit, ValueError for other reductions.

    Source: Graves et al., 2006.

    Example:
        >>> probs = ad.full((3, 1, 2), 0.5)
        >>> F.ctc_loss(probs.log(), ad.tensor([[1]]), ad.tensor([3]), ad.tensor([1]))
        tensor(0.2877)
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if log_probs.ndim not in (2, 3):
        raise RuntimeError(f"ctc_loss: log_probs must have 2 or 3 dimensions, got {log_probs.ndim}")
    if log_probs.array.dtype.kind not in "fV":
        raise RuntimeError(f'"ctc_loss_cpu" not implemented for {log_probs.dtype}')
    alone = log_probs.ndim == 2
    x: Operand = log_probs.unsqueeze(1) if alone else log_probs
    if alone:
        targets = movement.reshape(targets, shape=(1, targets.numel()))
    times, count, classes = x.array.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    spans = _check_lengths("input_lengths", input_lengths, count)
    sizes = _check_lengths("target_lengths", target_lengths, count)
    complaint = f"Expected input_lengths to have value at most {times!r}, but got value {{}}"
    indexing.check_range(spans, times + 1, complaint, low=0, error=RuntimeError)
    labels = _pad_targets(targets, sizes)  # (N, S)
    loss = _negative_log_likelihood(x, _with_blanks(labels, blank), spans, sizes)
    there = comparison.lt(constant(np.arange(times, dtype=np.int64)[:, None]), spans)
    excess = _sum(select.where(there.unsqueeze(2), transcendental.exp(x), 0.0), axes=(0, 2), keepdims=False)
    loss = loss + (excess - excess.detach())
    loss = select.where(comparison.ge(loss, -LOG_ZERO / 2), 0.0 if zero_infinity else math.inf, loss)
    loss = rename_node(loss, "CtcLossBackward0")
    if reduction == "mean":
        each = loss / select.cast(arithmetic.maximum(sizes, 1), dtype=loss.array.dtype)
        return apply_loss_reduction(each, "mean")
    if reduction == "sum":
        return apply_loss_reduction(loss, "sum")
    return loss.squeeze(0) if alone else loss


def _check_lengths(name: str, given: Tensor | Sequence[int], count: int) -> Tensor:
    """Return lengths (N,) as a tensor."""
    if not isinstance(given, Tensor):
        given = constant(np.atleast_1d(np.asarray(given)))
    if given.array.dtype.kind not in "iu":
        raise RuntimeError(f"{name} must be integral")
    if given.numel() != count or given.ndim > 1:
        raise RuntimeError(
            f"{name} must be of size batch_size: expected {count} lengths, got shape {list(given.array.shape)}"
        )
    found = movement.reshape(select.cast(given, dtype=np.dtype(np.int64)), shape=(count,))
    indexing.check_range(
        found, 2**62, f"Expected {name} to have value at least 0, but got value {{}}", low=0, error=RuntimeError
    )
    return found


def _pad_targets(targets: Tensor, sizes: Tensor) -> Tensor:
    """Return the labels as (N, S), S being the longest length, with anything behind the end of each."""
    if targets.array.dtype.kind not in "iu":
        raise RuntimeError("targets must be integral")
    known = sizes.array if type(sizes.array) is np.ndarray else None
    count = sizes.array.shape[0]
    if targets.ndim == 1:
        total = targets.array.shape[0]
        if known is not None and known.sum() != total:
            raise RuntimeError(
                f"Expected tensor to have size {known.sum()} at dimension 0, but got size {total} for targets (while "
                "checking arguments for ctc_loss)"
            )
        most = total if known is None else int(known.max(initial=0))
        if not total:
            return constant(np.zeros((count, most), np.int64))
        starts = arithmetic.sub(reduction_ops.cumsum(sizes, axis=0), sizes)
        numbers = constant(np.arange(most, dtype=np.int64))
        at = arithmetic.minimum(arithmetic.add(starts.unsqueeze(1), numbers), total - 1)
        return indexing.index(targets, at, pattern=(0,))
    most = targets.array.shape[-1] if known is None else int(known.max(initial=0))
    if targets.ndim != 2 or targets.array.shape[0] != count or targets.array.shape[1] < most:
        raise RuntimeError(
            f"Expected targets of shape ({count}, at least {most}), but got {tuple(targets.array.shape)} (while "
            "checking arguments for ctc_loss)"
        )
    return movement.slice(targets, bounds=((0, count, 1), (0, most, 1)))


def _with_blanks(labels: Tensor, blank: int) -> Tensor:
    """Return (N, S) as (N, 2 S + 1): a blank before, between and behind the labels."""
    count, size = labels.array.shape
    wide = movement.reshape(labels, shape=(count, size, 1))
    blanks = full((count, size, 1), blank, dtype=labels.dtype)
    both = movement.reshape(movement.cat(blanks, wide, axis=2), shape=(count, 2 * size))
    return movement.cat(both, full((count, 1), blank, dtype=labels.dtype), axis=1)


def _negative_log_likelihood(x: Operand, states: Operand, spans: Operand, sizes: Operand) -> Operand:
    """Return -ln p of each sequence by the forward recursion over times, all in logarithms."""
    times, count, classes = x.array.shape
    width = states.array.shape[1]
    complaint = f"ctc_loss: target {{}} is out of bounds: classes are 0 to {classes - 1!r}"
    kind = x.array.dtype
    last = (sizes * 2).unsqueeze(1)
    held = comparison.le(constant(np.arange(width, dtype=np.int64)), last)  # behind their end the labels are anything
    states = select.where(held, states, np.asarray(0, states.array.dtype))
    indexing.check_range(states, classes, complaint, low=0, error=RuntimeError)
    wide = movement.expand(states.unsqueeze(0), shape=(times, count, width))
    spoken = arithmetic.maximum(indexing.gather(x, wide, axis=2), LOG_ZERO)  # (T, N, states)
    skips = _can_skip_blank(states)
    if kind.itemsize > 2 and times and not (nondefault.count and (mode.needs_slow_path or nondefault.meta_tensors)):
        final, before = CtcRecursion.apply(_run_recursion, spoken, skips, spans, last)
    else:
        final, before = _run_recursion(spoken, skips, spans, last)
    other = select.where(comparison.gt(last, 0), before, LOG_ZERO)
    total = logsumexp(_stack_parts([final, other]), 0)
    return arithmetic.neg(movement.reshape(total, shape=(count,)))


def _run_recursion(spoken: Operand, skips: Operand, spans: Operand, last: Operand) -> tuple[Tensor, Tensor]:
    """Return the logarithms of both states in which each sequence may end, (N, 1), by recorded ops."""
    times, count, width = spoken.array.shape
    kind = spoken.array.dtype
    never = full((count, 1), LOG_ZERO, dtype=kind)
    first = np.arange(width) < np.minimum(2, width)
    alpha: Operand = select.where(constant(first), spoken.select(0, 0), LOG_ZERO) if times else None
    begun = constant(np.where(np.arange(width) == 0, 0.0, LOG_ZERO).astype(kind)[None].repeat(count, 0))
    alphas = [begun]
    for t in range(times):
        if t:
            one = movement.cat(never, _truncate_columns(alpha, width - 1), axis=1)
            two = (
                select.where(skips, movement.cat(never, never, _truncate_columns(alpha, width - 2), axis=1), LOG_ZERO)
                if width > 2
                else one
            )
            three = [alpha, one, two] if width > 2 else [alpha, one] if width > 1 else [alpha]
            alpha = logsumexp(_stack_parts(three), 0) + spoken.select(0, t)
            alpha = arithmetic.maximum(alpha, LOG_ZERO)
        alphas.append(alpha)
    until = movement.expand(movement.reshape(spans, shape=(1, count, 1)), shape=(1, count, width))
    ends = indexing.gather(_stack_parts(alphas), until, axis=0).squeeze(0)  # (N, states)
    final = indexing.gather(ends, last, axis=1)
    return final, indexing.gather(ends, arithmetic.maximum(last - 1, 0), axis=1)


def _can_skip_blank(states: Tensor) -> Operand:
    """Return True where a state may skip the one before it: a blank between two labels that differ."""
    count, width = states.array.shape
    if width <= 2:
        return None
    later = movement.slice(states, bounds=((0, count, 1), (2, width, 1)))
    earlier = movement.slice(states, bounds=((0, count, 1), (0, width - 2, 1)))
    odd = constant((np.arange(2, width) % 2 == 1)[None])
    may = comparison.logical_and(comparison.ne(later, earlier), odd)
    return movement.cat(constant(np.zeros((count, 2), np.bool_)), may, axis=1)


def _truncate_columns(x: Tensor, size: int) -> Tensor:
    return movement.slice(x, bounds=((0, x.array.shape[0], 1), (0, size, 1)))


def _stack_parts(parts: Sequence[Tensor]) -> Tensor:
    return movement.cat(*(p.unsqueeze(0) for p in parts), axis=0)
