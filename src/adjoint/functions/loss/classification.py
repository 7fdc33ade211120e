"""Losses of classifiers, whose targets are classes: cross entropy and what it is made of."""

from __future__ import annotations

import numpy as np

from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.size import as_float
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Shape
from adjoint.functions.api.compute_dtype import autocast_float32
from adjoint.functions.api.publish import rename_node
from adjoint.functions.elementwise.activation import log_softmax
from adjoint.functions.loss.regression import apply_loss_reduction, resolve_legacy_reduction
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.indexing import indexing
from adjoint.ops.linalg import matmul as contraction
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction

__all__ = ["cross_entropy", "nll_loss"]

NLL_NODE = "NllLossBackward0"
MEAN_NLL, MEAN_NLL_DX = SmallArrayKernel("mean_nll"), SmallArrayKernel("mean_nll_dx")


@autocast_float32
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy -ln softmax(input)[target] of logits.

    Args:
        input: tensor of logits, with the classes in dimension 1, or 0 without a batch.
        target: int64 tensor of class indices, or class probabilities of the input's shape.
        weight: factor (C,) of each class. Default: None.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        ignore_index: class of targets that do not count. Default: -100.
        reduction: "mean", "sum" or "none". Default: "mean".
        label_smoothing: share of each target to spread over all classes, in [0, 1]. Default: 0.

    Shapes:
        input (N, C, …) or (C,), target (N, …) or () -> (), or the shape of the class indices with "none"

    Raises: IndexError for targets outside [0, C), RuntimeError or ValueError where shapes do not fit.

    Example:
        >>> F.cross_entropy(ad.tensor([[2.0, 0.0], [0.0, 1.0]]), ad.tensor([0, 1]))
        tensor(0.2201)
    """
    if input.ndim == 0:
        raise IndexError("cross_entropy: expected logits with a class dimension, got a 0-d tensor")
    axis = 0 if input.ndim == 1 else 1
    reduction = resolve_legacy_reduction(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if weight is not None:
        _check_weight(weight, input.array.shape[axis])
    logs = log_softmax(input, axis)
    if weight is None and reduction == "mean" and label_smoothing == 0.0:
        loss = _try_small_mean_nll(logs, target, ignore_index)
        if loss is not None:
            return loss
    if target.array.shape == input.array.shape:
        if target.array.dtype.kind not in "fV":
            raise RuntimeError(f"Expected floating point type for target with class probabilities, got {target.dtype}")
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _soft_cross_entropy(logs, target, weight, reduction, label_smoothing, axis)
    loss = nll_loss(logs, target, weight, None, ignore_index, None, reduction)
    if label_smoothing == 0.0:
        return loss
    spread = _label_smoothing_loss(logs, target, weight, ignore_index, reduction, axis)
    share = label_smoothing / input.array.shape[axis]
    return arithmetic.add(arithmetic.mul(loss, 1.0 - label_smoothing), arithmetic.mul(spread, share))


def _soft_cross_entropy(
    logs: Tensor, target: Tensor, weight: Tensor | None, reduction_name: str, smoothing: float, axis: int
) -> Tensor:
    classes = logs.array.shape[axis]
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / classes
    terms = logs * target
    if weight is not None:
        terms = terms * movement.reshape(weight, shape=tuple(classes if d == axis else 1 for d in range(logs.ndim)))
    loss = -reduction.sum(terms, axes=(axis,), keepdims=False)
    if reduction_name == "mean":
        total = reduction.sum(loss, axes=tuple(range(loss.ndim)), keepdims=False)
        return arithmetic.div(total, as_float(movement.numel(loss.array.shape)))
    return apply_loss_reduction(loss, reduction_name)


def _label_smoothing_loss(
    logs: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction_name: str, axis: int
) -> Operand:
    """Return the part of label smoothing that spreads over all classes."""
    shape = tuple(logs.array.shape[axis] if d == axis else 1 for d in range(logs.ndim))
    terms = logs if weight is None else logs * movement.reshape(weight, shape=shape)
    counted = comparison.ne(target, ignore_index)
    loss = select.where(counted, -reduction.sum(terms, axes=(axis,), keepdims=False), 0.0)
    if reduction_name != "mean":
        return apply_loss_reduction(loss, reduction_name)
    share = _target_weights(target, weight, counted, logs)
    return apply_loss_reduction(loss, "mean", share)


@autocast_float32
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log likelihood -input[target] of log-probabilities.

    Args:
        input: tensor of log-probabilities, with the classes in dimension 1, or 0 without a batch.
        target: int64 tensor of class indices.
        weight: factor (C,) of each class. Default: None.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        ignore_index: class of targets that do not count. Default: -100.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        input (N, C, …) or (C,), target (N, …) or () -> (), or the shape of the target with "none"

    Raises: IndexError for targets outside [0, C), RuntimeError or ValueError where shapes do not fit.

    Example:
        >>> F.nll_loss(ad.tensor([[-0.5, -1.5], [-2.0, -0.25]]), ad.tensor([0, 1]))
        tensor(0.3750)
    """
    axis = 0 if input.ndim == 1 else 1
    reduction = resolve_legacy_reduction(size_average, reduce, reduction)
    _check_nll(input, target, weight, axis)
    shape = input.array.shape
    in_one_op = weight is None and reduction == "mean" and len(shape) == 2
    if in_one_op and (loss := _try_small_mean_nll(input, target, ignore_index)) is not None:
        return loss
    if in_one_op and indexing.all_in_range(target, shape[1]):
        return _mean_nll(input, target, ignore=ignore_index)
    counted = comparison.ne(target, ignore_index)
    safe = select.where(counted, target, np.asarray(0, target.array.dtype))
    bounds = f"Target {{}} is out of bounds: classes are 0 to {shape[axis] - 1!r}"
    indexing.check_range(safe, shape[axis], bounds, low=0)
    if in_one_op:
        return _mean_nll(input, target, ignore=ignore_index)
    picked = _gather_at_target(input, safe, axis)
    if weight is None:
        loss = select.where(counted, arithmetic.neg(picked), 0.0)
        share = select.cast(counted, dtype=input.array.dtype) if reduction == "mean" else None
        return rename_node(apply_loss_reduction(loss, reduction, share), NLL_NODE)
    _check_weight(weight, shape[axis])
    if reduction == "mean" and input.ndim == 2 and not weight.requires_grad:
        return _mean_weighted_nll(input, target, weight, ignore=ignore_index)
    share = _target_weights(safe, weight, counted, input)
    return rename_node(apply_loss_reduction(select.where(counted, -(picked * share), 0.0), reduction, share), NLL_NODE)


def _check_nll(input: Tensor, target: Tensor, weight: Tensor | None, axis: int) -> None:
    shape, classes = input.array.shape, target.array.shape
    if not shape:
        raise ValueError(f"Expected 1 or more dimensions (got {len(shape)})")
    expected = shape[:axis] + shape[axis + 1 :]
    batches_differ = len(shape) > 1 and classes and classes[0] != shape[0]
    if target.array.dtype.kind not in "iu" and not batches_differ:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {scalar_type(target.dtype)}")
    if weight is not None and weight.array.dtype != input.array.dtype:
        raise RuntimeError(f"expected scalar type {input.dtype} but found {weight.dtype}")
    if classes == expected:
        return
    if len(shape) > 2 and classes[:1] == shape[:1]:
        raise RuntimeError(f"Expected target size {list(expected)}, got {list(classes)}")
    if len(shape) == 2 and len(classes) > 1 and not batches_differ:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    raise ValueError(
        f"Expected input batch_size ({shape[0]}) to match target batch_size ({classes[0] if classes else 0}): input "
        f"{tuple(shape)} needs a target of {tuple(expected)}, got {tuple(classes)}"
    )


def _try_small_mean_nll(logs: Tensor, target: Tensor, ignore: int) -> Tensor | None:
    """Return the mean loss of a small batch (N, C) without ignored targets; None for anything else."""
    x, classes = logs.array, target.array
    if (
        (nondefault.count and mode.alters_ops)
        or type(x) is not np.ndarray
        or not kernel_provider.enabled
        or ignore >= 0
        or len(x.shape) != 2
        or x.shape[:1] != classes.shape
    ):
        return None
    loss = MEAN_NLL.call(x, np.ascontiguousarray(classes))
    return None if loss is None else _mean_nll(logs, target, computed=loss, ignore=ignore)


def _mean_nll_composite(logs: Operand, target: Tensor, *, ignore: int) -> Operand:
    counted = comparison.ne(target, ignore)
    safe = select.where(counted, target, np.asarray(0, target.array.dtype))
    loss = select.where(counted, arithmetic.neg(_gather_at_target(logs, safe, 1)), 0.0)
    return apply_loss_reduction(loss, "mean", select.cast(counted, dtype=logs.array.dtype))


def _spread_mean_nll_composite(g: Operand, target: Operand, *, shape: Shape, ignore: int) -> Operand:
    counted = comparison.ne(target, ignore)
    array: Operand = getattr(g, "array", g)
    count = reduction.sum(select.cast(counted, dtype=array.dtype), axes=(0,), keepdims=False)
    share = select.where(counted, arithmetic.neg(arithmetic.div(g, count)), 0.0)
    column = (shape[0], 1)
    at = movement.reshape_unshared(select.where(counted, target, np.asarray(0, np.int64)), column)
    return indexing.scatter_add(movement.reshape_unshared(share, column), at, shape=shape, axis=1)


@with_eager_fast_path(
    composite=_spread_mean_nll_composite,
    linear=True,
    dg=lambda g, target, ignore: contraction.call_bare(_mean_nll, g, target, ignore=ignore),
)
def _spread_mean_nll(g: Array, target: Array, *, shape: Shape, ignore: int) -> Operand:
    """The gradient of `_mean_nll`, and its transpose: -g/n at each counted sample's class."""
    out = np.zeros(shape, g.dtype)
    if kernel_provider.enabled and ignore < 0 and MEAN_NLL_DX.call(g, np.ascontiguousarray(target), out) is not None:
        return out
    counted = np.flatnonzero(target != ignore)
    if counted.size:
        out[counted, target[counted]] = -(g / g.dtype.type(counted.size))
    return out


@with_eager_fast_path(
    composite=_mean_nll_composite,
    node=NLL_NODE,
    dlogs=lambda g, target, logs_shape, ignore: contraction.call_bare(
        _spread_mean_nll, g, target, shape=logs_shape, ignore=ignore
    ),
)
def _mean_nll(logs: Array, target: Array, *, ignore: int) -> Operand:
    counted = target != ignore
    count = np.count_nonzero(counted)
    if count == len(target):
        total = np.add.reduce(logs[np.arange(count), target])
    else:
        total = np.where(counted, logs[np.arange(len(target)), np.where(counted, target, 0)], 0).sum(dtype=logs.dtype)
    return -total / logs.dtype.type(count)


def _mean_weighted_nll_composite(logs: Operand, target: Tensor, weight: Operand, *, ignore: int) -> Operand:
    counted = comparison.ne(target, ignore)
    safe = select.where(counted, target, np.asarray(0, target.array.dtype))
    share = _target_weights(safe, weight, counted, logs)
    return apply_loss_reduction(select.where(counted, -(_gather_at_target(logs, safe, 1) * share), 0.0), "mean", share)


def _mean_weighted_nll_dlogs(g: Operand, target: Operand, weight: Operand, logs_shape: Shape, ignore: int) -> Tensor:
    """Return -g · w[class] / Σ w[class] at each counted sample's class."""
    counted = comparison.ne(target, ignore)
    at = select.where(counted, target, np.asarray(0, np.int64))
    picked = indexing.index(weight, at, pattern=(0,))
    share = select.where(counted, picked, 0.0)
    total = reduction.sum(share, axes=(0,), keepdims=False)
    column = (logs_shape[0], 1)
    each = movement.reshape(arithmetic.mul(arithmetic.neg(arithmetic.div(g, total)), share), shape=column)
    return indexing.scatter_add(each, movement.reshape(at, shape=column), shape=logs_shape, axis=1)


@with_eager_fast_path(composite=_mean_weighted_nll_composite, node=NLL_NODE, dlogs=_mean_weighted_nll_dlogs)
def _mean_weighted_nll(logs: Array, target: Array, weight: Array, *, ignore: int) -> Operand:
    counted = target != ignore
    safe = np.where(counted, target, 0)
    share = np.where(counted, weight[safe], 0)
    return -(np.where(counted, logs[np.arange(len(target)), safe], 0) * share).sum() / share.sum()


def _check_weight(weight: Tensor, classes: int) -> None:
    if tuple(weight.array.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(weight.array.shape)}"
        )


def _target_weights(target: Operand, weight: Operand, counted: Operand, like: Operand) -> Operand:
    if weight is None:
        return select.cast(counted, dtype=like.array.dtype)
    safe = select.where(counted, target, np.asarray(0, target.array.dtype))
    share = indexing.index(weight, safe, pattern=(0,))
    return select.where(counted, share, 0.0)


def _gather_at_target(input: Tensor, target: Tensor, axis: int) -> Operand:
    """Return the input at the target's class."""
    shape = target.array.shape
    at = movement.reshape(target, shape=(*shape[:axis], 1, *shape[axis:]))
    return movement.reshape(indexing.gather(input, at, axis=axis), shape=shape)
