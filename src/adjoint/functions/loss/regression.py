"""Losses: how far a prediction is from its target, as one number or one for each sample."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.dtype.dtype import is_floating
from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.elementwise_kernels import MIN_ELEMENTS
from adjoint.core.op.families import binary, with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand
from adjoint.functions.api.compute_dtype import autocast_float32
from adjoint.functions.api.publish import rename_node
from adjoint.functions.elementwise.activation import logsigmoid
from adjoint.functions.reduction.reduce import check_mean_dtype
from adjoint.ops.elementwise import arithmetic, comparison, select, transcendental
from adjoint.ops.indexing import indexing
from adjoint.ops.nn.loss_terms import huber, logit_entropy, smooth_l1, square_error, square_error_dx
from adjoint.ops.reduction import reduction
from adjoint.ops.reduction.reduction import mean as means
from adjoint.ops.reduction.reduction import sum as sums

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss", "l1_loss", "mse_loss"]
__all__ += ["smooth_l1_loss"]

MSE_NODE = "MseLossBackward0"


def apply_loss_reduction(loss: Operand, reduction_name: str, weight: Operand = None) -> Operand:
    """Apply "mean", "sum" or "none"; a weighted mean divides by the sum of the weights."""
    axes = tuple(range(loss.ndim))
    if reduction_name == "none":
        return loss
    if reduction_name == "sum":
        return reduction.sum(reduction.widen_integers(loss), axes=axes, keepdims=False)
    if reduction_name == "mean":
        if weight is None:
            check_mean_dtype(loss)
            return reduction.mean(loss, axes=axes, keepdims=False)
        return reduction.sum(loss, axes=axes, keepdims=False) / reduction.sum(weight, axes=axes, keepdims=False)
    raise ValueError(f"{reduction_name} is not a valid value for reduction")


def resolve_legacy_reduction(size_average: bool | None, reduce: bool | None, reduction_name: str) -> str:
    """Return the reduction that the legacy arguments ask for, where they are used."""
    if size_average is None and reduce is None:
        return reduction_name
    name = "none" if reduce is False else "sum" if size_average is False else "mean"
    warn_user(f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.", UserWarning)
    return name


def _check_sizes(name: str, input: Tensor, target: Tensor) -> None:
    if input.array.shape != target.array.shape:
        raise ValueError(
            f"{name}: Using a target size ({target.shape}) that is different to the input size ({input.shape}) is "
            "deprecated. Please ensure they have the same size."
        )


def _refuse_integers(name: str, input: Tensor, target: Tensor) -> None:
    """Raise NotImplementedError for integers and truths alone: their squares would wrap."""
    if input.array.dtype.kind in "iub" and target.array.dtype.kind in "iub":
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype}')


def _warn_of_broadcasting(name: str, input: Tensor, target: Tensor) -> None:
    if input.array.shape != target.array.shape:
        warn_user(
            f"{name}: Using a target size ({target.shape}) that is different to the input size ({input.shape}). This "
            "will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            UserWarning,
        )


def _difference(name: str, input: Tensor, target: Tensor) -> Tensor:
    """Return input - target; different sizes broadcast, with a warning."""
    _warn_of_broadcasting(name, input, target)
    return arithmetic.sub(input, target)


@autocast_float32
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the squared error (input - target)².

    Args:
        input: tensor of predictions.
        target: tensor of true values.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".
        weight: factor of each element; a mean divides by the sum of the weights. Default: None.

    Shapes:
        input and target of one shape -> (), or that shape with "none"

    Raises: ValueError for weights of another shape, RuntimeError if input and target do not broadcast.

    Example:
        >>> F.mse_loss(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 4.0]))
        tensor(2.)
    """
    reduction = resolve_legacy_reduction(size_average, reduce, reduction)
    x, y = input.array, target.array
    fusible = x.dtype == y.dtype and x.shape == y.shape and is_floating(x) and x.dtype.kind != "c"
    if weight is None and reduction in ("mean", "sum") and fusible:
        return squared_error(input, target, reduction=reduction)
    _refuse_integers("mse_loss", input, target)
    loss = arithmetic.square(_difference("mse_loss", input, target))
    out = _weight_and_reduce(loss, input, weight, reduction, weight)
    return rename_node(out, MSE_NODE) if weight is None else out


def _squared_error_dx(g: Operand, x: Operand, y: Operand, reduction: str) -> Operand:
    if reduction == "mean":
        g = g * (1.0 / max(math.prod(x.shape), 1))
    return square_error_dx(np.asarray(g) if isinstance(g, np.generic) else g, x, y)


@with_eager_fast_path(
    composite=lambda x, y, *, reduction: apply_loss_reduction(arithmetic.square(arithmetic.sub(x, y)), reduction),
    node=MSE_NODE,
    dx=_squared_error_dx,
    dy=lambda g, x, y, reduction: arithmetic.neg(_squared_error_dx(g, x, y, reduction)),
)
def squared_error(x: Array, y: Array, *, reduction: str) -> Operand:
    """Return the mean or sum of (x - y)² over all elements."""
    small = x.size < MIN_ELEMENTS
    squares = np.asarray(np.square(np.subtract(x, y))) if small else op_of(square_error).evaluate(x, y)
    fold = op_of(means if reduction == "mean" else sums)
    return fold.evaluate(squares, axes=tuple(range(squares.ndim)), keepdims=False)


def _weight_and_reduce(
    loss: Operand, input: Tensor, weight: Tensor | None, reduction_name: str, share: Tensor | None
) -> Tensor:
    """Multiply the loss by its weight and reduce it. Raises ValueError for weights of another shape."""
    if weight is None:
        return apply_loss_reduction(loss, reduction_name)
    if weight.array.shape != input.array.shape:
        raise ValueError("Weights and input must have the same size.")
    return apply_loss_reduction(arithmetic.mul(loss, weight), reduction_name, share)


@autocast_float32
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the absolute error |input - target|.

    Args:
        input: tensor of predictions.
        target: tensor of true values.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".
        weight: factor of each element; a mean divides by the sum of the weights. Default: None.

    Shapes:
        input and target of one shape -> (), or that shape with "none"

    Raises: ValueError for weights of another shape, RuntimeError if input and target do not broadcast.

    Example:
        >>> F.l1_loss(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 4.0]))
        tensor(1.)
    """
    loss = arithmetic.abs(_difference("l1_loss", input, target))
    return _weight_and_reduce(loss, input, weight, resolve_legacy_reduction(size_average, reduce, reduction), weight)


@autocast_float32
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return d² / (2 beta) where |d| < beta, else |d| - beta / 2, of d = input - target.

    Args:
        input: tensor of predictions.
        target: tensor of true values.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".
        beta: distance at which the loss becomes linear, at least 0. Default: 1.

    Shapes:
        input and target of one shape -> (), or that shape with "none"

    Raises: RuntimeError for beta < 0.

    Source: Girshick, Fast R-CNN, 2015.

    Example:
        >>> F.smooth_l1_loss(ad.tensor([0.5, 3.0]), ad.zeros(2), reduction="none")
        tensor([0.1250, 2.5000])
    """
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, size_average, reduce, reduction)
    _refuse_integers("smooth_l1_loss", input, target)
    _warn_of_broadcasting("smooth_l1_loss", input, target)
    loss = smooth_l1(input, target, beta=beta)
    return rename_node(
        apply_loss_reduction(loss, resolve_legacy_reduction(size_average, reduce, reduction)), "SmoothL1LossBackward0"
    )


@autocast_float32
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Return d² / 2 where |d| < delta, else delta (|d| - delta / 2), of d = input - target; times `weight`.

    Raises RuntimeError for delta ≤ 0.

    Shapes:
        input and target that broadcast -> scalar; with reduction="none" their common shape
    """
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    _refuse_integers("huber_loss", input, target)
    _warn_of_broadcasting("huber_loss", input, target)
    loss = huber(input, target, delta=delta)
    out = _weight_and_reduce(loss, input, weight, reduction, None)
    return rename_node(out, "HuberLossBackward0") if weight is None else out


@autocast_float32
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return the binary cross entropy -(w⁺ t ln σ(x) + (1 - t) ln(1 - σ(x))) of logits x.

    The computation works on logits so that nothing overflows.

    Args:
        input: tensor of logits.
        target: tensor of probabilities t of the class 1.
        weight: factor of each element, by broadcasting. Default: None.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".
        pos_weight: factor w⁺ of positive targets, by broadcasting. Default: None, 1.

    Shapes:
        input and target of one shape -> (), or that shape with "none"

    Raises: ValueError unless input and target have the same size.

    Example:
        >>> F.binary_cross_entropy_with_logits(ad.tensor([0.0, 2.0]), ad.tensor([1.0, 0.0]), reduction="none")
        tensor([0.6931, 2.1269])
    """
    _check_sizes("binary_cross_entropy_with_logits", input, target)
    if not is_floating(target.array):
        name = scalar_type(target.dtype)
        raise RuntimeError(f"result type {scalar_type(input.dtype)} can't be cast to the desired output type {name}")
    if pos_weight is None:
        loss: Operand = logit_entropy(input, target)
    else:
        gain = arithmetic.mul(arithmetic.mul(target, logsigmoid(input)), pos_weight)
        loss = -(gain + arithmetic.sub(1.0, target) * logsigmoid(arithmetic.neg(input)))
    out = apply_loss_reduction(
        loss if weight is None else loss * weight, resolve_legacy_reduction(size_average, reduce, reduction)
    )
    return rename_node(out, "BinaryCrossEntropyWithLogitsBackward0")


def _clamped_log(p: Operand) -> Tensor:
    return arithmetic.maximum(transcendental.log(p), -100.0)


# The gradient is PyTorch's, finite where the logarithms are not.
@binary(
    promotion="float",
    node="BinaryCrossEntropyBackward0",
    dx=lambda g, x, y: g * (x - y) / arithmetic.maximum(x * (1.0 - x), 1e-12),
    dy=lambda g, x: g * (_clamped_log(1.0 - x) - _clamped_log(x)),
)
def _entropy(x: Operand, y: Operand) -> Operand:
    """Return -(y ln x + (1 - y) ln(1 - x)), with logarithms below -100 taken as -100."""
    return -(y * np.maximum(np.log(x), -100.0) + (1.0 - y) * np.maximum(np.log1p(-x), -100.0))


@autocast_float32
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the binary cross entropy -(t ln p + (1 - t) ln(1 - p)) of probabilities p.

    Logarithms below -100 count as -100.

    Args:
        input: tensor of probabilities p.
        target: tensor of probabilities t of the class 1.
        weight: factor of each element, by broadcasting. Default: None.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        input and target of one shape -> (), or that shape with "none"

    Raises: ValueError unless input and target have the same size, RuntimeError unless they have one dtype, and for
        inputs or targets outside [0, 1].

    Example:
        >>> F.binary_cross_entropy(ad.tensor([0.5, 0.9]), ad.tensor([1.0, 0.0]), reduction="none")
        tensor([0.6931, 2.3026])
    """
    _check_sizes("binary_cross_entropy", input, target)
    if target.dtype != input.dtype:
        raise RuntimeError(f"Found dtype {scalar_type(target.dtype)} but expected {scalar_type(input.dtype)}")
    for name, x in (("input", input), ("target", target)):
        inside = comparison.logical_and(comparison.ge(x, 0.0), comparison.le(x, 1.0))
        outside = select.cast(comparison.logical_not(inside), dtype=np.dtype(np.int64))
        message = f"all elements of {name} should be between 0 and 1"
        indexing.check_range(outside, 1, message, low=0, error=RuntimeError)
    loss = _entropy(input, target)
    out = apply_loss_reduction(
        loss if weight is None else loss * weight, resolve_legacy_reduction(size_average, reduce, reduction)
    )
    return rename_node(out, "BinaryCrossEntropyBackward0")
