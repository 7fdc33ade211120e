"""Losses with margins between classes, losses of distributions with a variance or a rate, and of triplets."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand
from adjoint.functions.api.compute_dtype import autocast_float32
from adjoint.functions.api.publish import rename_node
from adjoint.functions.elementwise.activation import logsigmoid
from adjoint.functions.elementwise.pointwise import clamp
from adjoint.functions.linalg.matmul import linear
from adjoint.functions.loss.classification import cross_entropy
from adjoint.functions.loss.regression import apply_loss_reduction, resolve_legacy_reduction
from adjoint.functions.loss.similarity import pairwise_distance
from adjoint.ops.elementwise import arithmetic, comparison, select, transcendental
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction

__all__ = ["gaussian_nll_loss", "linear_cross_entropy", "multi_margin_loss", "multilabel_margin_loss"]
__all__ += ["multilabel_soft_margin_loss", "poisson_nll_loss", "triplet_margin_with_distance_loss"]
_mean, _sum = reduction.mean, reduction.sum


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Return (ln v + (x - t)² / v) / 2, v the variance, but at least eps; `full` adds ln(2 π) / 2.

    `var` is a number or a tensor of the input's shape, or without its last size, or with 1 for it. Raises ValueError
    for other shapes, for negative variances and for other reductions.
    """
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = constant(np.asarray(var, input.array.dtype)).expand(input.array.shape)
    else:
        negative = select.cast(comparison.lt(var, 0.0), dtype=np.dtype(np.int64))
        indexing.check_range(negative, 1, "var has negative entry/entries", low=0, error=ValueError)
    shape, sizes = tuple(input.array.shape), tuple(var.array.shape)
    if sizes != shape:
        if sizes == shape[:-1]:
            var = var.unsqueeze(-1)
        elif len(sizes) != len(shape) or sum(v for n, v in zip(shape, sizes, strict=True) if n != v) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    least = select.where(comparison.lt(var, eps), arithmetic.sub(eps, var.detach()), 0.0)
    v: Operand = arithmetic.add(var, least)
    loss = (transcendental.log(v) + arithmetic.square(arithmetic.sub(input, target)) / v) * 0.5
    return apply_loss_reduction(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@autocast_float32
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return eˣ - t x, the negative log likelihood of counts t with a Poisson rate of eˣ.

    Args:
        input: tensor x of log-rates, or of rates without `log_input`.
        target: tensor t of counts.
        log_input: False for rates x, with the loss x - t ln(x + eps). Default: True.
        full: True to add Stirling's t ln t - t + ln(2 π t) / 2 for t > 1. Default: False.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        eps: number added to rates in the logarithm. Default: 1e-8.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        input and target of one shape -> (), or that shape with "none"

    Example:
        >>> F.poisson_nll_loss(ad.tensor([0.0, 1.0]), ad.tensor([2.0, 3.0]), reduction="none")
        tensor([ 1.0000, -0.2817])
    """
    how = _check_reduction(size_average, reduce, reduction)
    if log_input:
        loss: Operand = arithmetic.sub(transcendental.exp(input), arithmetic.mul(target, input))
    else:
        loss = arithmetic.sub(input, arithmetic.mul(target, transcendental.log(arithmetic.add(input, eps))))
    if full:
        above = comparison.gt(target, 1)
        t: Operand = select.where(above, target, 1)
        more = t * transcendental.log(t) - t + transcendental.log(t * (2 * math.pi)) * 0.5
        loss = loss + select.where(above, more, 0.0)
    return apply_loss_reduction(loss, how)


def _check_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    how = resolve_legacy_reduction(size_average, reduce, reduction)
    if how not in ("none", "mean", "sum"):
        raise ValueError(f"{how} is not a valid value for reduction")
    return how


def _reshape_to_rows(name: str, input: Tensor, target: Tensor, alike: bool) -> tuple[Tensor, Tensor]:
    """Return input and target as (N, C) and (N,), or `alike` (N, C). Raises RuntimeError for other shapes."""
    shape, sizes = tuple(input.array.shape), tuple(target.array.shape)
    if len(shape) > 2 or (shape and not shape[-1]):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )
    classes = shape[-1] if shape else 1
    count = shape[0] if len(shape) == 2 else 1
    expected = (shape if alike else shape[:-1], (1,) if len(shape) < 2 and not alike else shape)
    if not (sizes in expected if len(shape) < 2 else sizes == expected[0]):
        raise RuntimeError(f"inconsistent target size: {list(sizes)} for input of size: {list(shape)} in {name}")
    rows = movement.reshape(input, shape=(count, classes))
    return rows, movement.reshape(target, shape=(count, classes) if alike else (count,))


@autocast_float32
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return Σ w max(0, margin - x[t] + x[i])ᵖ / C over the classes i ≠ t: scores (N, C) or (C,), classes (N,).

    Raises ValueError for a p other than 1 and 2, RuntimeError for shapes that do not fit.
    """
    how = _check_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    rows, at = _reshape_to_rows("multi_margin_loss", input, target, False)
    classes = rows.array.shape[1]
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.array.shape)}")
    indexing.check_range(at, classes, "multi_margin_loss: target {} out of range", low=0, error=RuntimeError)
    column = at.unsqueeze(1)
    gap = clamp((rows - indexing.gather(rows, column, axis=1)) + margin, min=0)
    if p == 2:
        gap = arithmetic.square(gap)
    if weight is not None:
        gap = gap * indexing.index(weight, at, pattern=(0,)).unsqueeze(1)
    own = comparison.eq(constant(np.arange(classes, dtype=np.int64)), column)
    loss = _mean(select.where(own, 0.0, gap), axes=(1,), keepdims=False)
    if how == "none" and input.ndim < 2:
        loss = movement.reshape(loss, shape=target.array.shape)
    return apply_loss_reduction(loss, how)


@autocast_float32
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Return Σ max(0, 1 - x[t] + x[i]) / C over the labels t and the classes i that are no label.

    Args:
        input: tensor x of scores.
        target: int64 tensor of class indices, up to the first that is negative.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        input and target (N, C) -> (), or (N,) with "none"; N is optional

    Raises: RuntimeError for shapes that do not fit, and for classes outside [0, C).

    Example:
        >>> F.multilabel_margin_loss(ad.tensor([[0.1, 0.2, 0.4, 0.8]]), ad.tensor([[3, 0, -1, 1]]))
        tensor(0.8500)
    """
    how = _check_reduction(size_average, reduce, reduction)
    rows, at = _reshape_to_rows("multilabel_margin_loss", input, target, True)
    count, classes = rows.array.shape
    indexing.check_range(at, classes, "multilabel_margin_loss: target {} is out of range", low=-1, error=RuntimeError)
    given = select.cast(comparison.lt(at, 0), dtype=np.dtype(np.int64))
    labels = comparison.eq(running_sums(given), 0)  # before the first negative
    safe = select.where(labels, at, np.asarray(0, at.array.dtype))
    ones = select.cast(labels, dtype=rows.array.dtype)
    marked = comparison.gt(indexing.scatter_add(ones, safe, shape=(count, classes), axis=1), 0.0)  # (N, C): is a label
    own = indexing.gather(rows, safe, axis=1).unsqueeze(2)  # (N, labels, 1)
    gap = clamp((rows.unsqueeze(1) - own) + 1.0, min=0)
    counted = comparison.logical_and(labels.unsqueeze(2), comparison.logical_not(marked).unsqueeze(1))
    loss = _sum(select.where(counted, gap, 0.0), axes=(1, 2), keepdims=False) / float(classes)
    if how == "none" and input.ndim < 2:
        loss = movement.reshape(loss, shape=())
    return rename_node(apply_loss_reduction(loss, how), "MultilabelMarginLossBackward0")


def running_sums(x: Tensor) -> Tensor:
    """Return running sums along the last dimension."""
    return reduction.cumsum(x, axis=1)


@autocast_float32
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return -(t ln σ(x) + (1 - t) ln σ(-x)), averaged over the classes.

    Args:
        input: tensor x of scores.
        target: tensor t, 1 at each label of a sample, else 0.
        weight: factor (C,) of each class. Default: None.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        input and target (N, C) -> (), or (N,) with "none"

    Raises: IndexError for an input without dimensions.

    Example:
        >>> F.multilabel_soft_margin_loss(ad.tensor([[0.0, 2.0]]), ad.tensor([[1.0, 0.0]]))
        tensor(1.4100)
    """
    how = _check_reduction(size_average, reduce, reduction)
    gain = arithmetic.mul(target, logsigmoid(input))
    rest = arithmetic.mul(arithmetic.sub(1, target), logsigmoid(arithmetic.neg(input)))
    loss: Operand = arithmetic.neg(arithmetic.add(gain, rest))
    if weight is not None:
        loss = loss * weight
    if not input.ndim:
        raise IndexError("multilabel_soft_margin_loss: the mean over the last dimension, but input has no dimensions")
    return apply_loss_reduction(_mean(loss, axes=(input.ndim - 1,), keepdims=False), how)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, d(a, p) - d(a, n) + margin) with a distance d; `swap` takes d(p, n) where it is smaller.

    Raises ValueError for a margin of 0 or less and for other reductions, RuntimeError where ranks differ.

    Shapes:
        anchor, positive and negative (N, …) -> scalar; with reduction="none" what the distance gives
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = arithmetic.minimum(far, distance(positive, negative))
    gap = arithmetic.sub(arithmetic.add(near, margin), far)
    return apply_loss_reduction(clamp(gap, min=0), reduction)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object = None,
) -> Tensor:
    """Return the cross entropy of `linear(input, linear_weight)`: (N, I) or (I,) with (C, …, I), and targets (N, …).

    `options`, which say how to save memory, are accepted and change nothing. Raises RuntimeError for shapes that do
    not fit.
    """
    if not 1 <= input.ndim <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    lead, features = input.array.shape[:-1], input.array.shape[-1]
    classes, *outer, size = linear_weight.array.shape
    if features != size:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), "
            f"got {features} and {size}, respectively"
        )
    if linear_bias is not None and tuple(linear_bias.array.shape) != (classes, *outer):
        raise RuntimeError(f"expected linear_bias shape {(classes, *outer)}, got {tuple(linear_bias.array.shape)}")
    if outer and not lead:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.array.shape)} requires batched "
            f"input, (N, {features}), got unbatched input with shape {tuple(input.array.shape)}"
        )
    shape = (*lead, classes, *outer)
    if tuple(target.array.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if outer:
        linear_weight = movement.reshape(linear_weight, shape=(classes * math.prod(outer), features))
        if linear_bias is not None:
            linear_bias = movement.reshape(linear_bias, shape=(classes * math.prod(outer),))
    logits = movement.reshape(linear(input, linear_weight, linear_bias), shape=shape)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight=weight, reduction=reduction, ignore_index=ignored, label_smoothing=label_smoothing
    )
