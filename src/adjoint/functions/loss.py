"""Losses: how far a prediction is from its target, as one number or one for each sample."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from adjoint.core.families import binary
from adjoint.core.mode import mode, unusual
from adjoint.core.op import apply
from adjoint.core.tensor import Tensor, constant
from adjoint.functions.activation import log_softmax, logsigmoid
from adjoint.ops import arithmetic, comparison, indexing, movement, reduction, selection, transcendental
from adjoint.ops.creation import iota

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "embedding", "huber_loss", "l1_loss",
    "mse_loss", "nll_loss", "one_hot", "smooth_l1_loss",
]  # fmt: skip


def _reduced(loss: Any, reduction_name: str, weight: Any = None) -> Any:
    """Mean, sum or each; a weighted mean divides by the sum of the weights."""
    axes = tuple(range(loss.ndim))
    if reduction_name == "none":
        return loss
    if reduction_name == "sum":
        return reduction.sum(loss, axes=axes, keepdims=False)
    if reduction_name == "mean":
        if weight is None:
            return reduction.mean(loss, axes=axes, keepdims=False)
        return reduction.sum(loss, axes=axes, keepdims=False) / reduction.sum(weight, axes=axes, keepdims=False)
    raise ValueError(f"{reduction_name} is not a valid value for reduction")


def _named_reduction(size_average: bool | None, reduce: bool | None, reduction_name: str) -> str:
    """The reduction which PyTorch's first two names for it ask for, where they are used."""
    if size_average is None and reduce is None:
        return reduction_name
    name = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.",
        UserWarning,
        stacklevel=3,
    )
    return name


def _check_sizes(name: str, input: Tensor, target: Tensor) -> None:
    if input.array.shape != target.array.shape:
        raise ValueError(
            f"{name}: the target size {tuple(target.array.shape)} must be the same as the input size "
            f"{tuple(input.array.shape)}"
        )


def _difference(name: str, input: Tensor, target: Tensor) -> Any:
    """input - target; different sizes broadcast, with a warning."""
    if input.array.shape != target.array.shape:
        warnings.warn(
            f"{name}: using a target size {tuple(target.array.shape)} that is different to the input size "
            f"{tuple(input.array.shape)}. This will likely lead to incorrect results due to broadcasting.",
            UserWarning,
            stacklevel=3,
        )
    return arithmetic.sub(input, target)


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """(input - target)². Raises RuntimeError if the shapes do not broadcast."""
    loss = arithmetic.square(_difference("mse_loss", input, target))
    return _reduced(loss, _named_reduction(size_average, reduce, reduction))


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """|input - target|. Raises RuntimeError if the shapes do not broadcast."""
    loss = arithmetic.abs(_difference("l1_loss", input, target))
    return _reduced(loss, _named_reduction(size_average, reduce, reduction))


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """d² / (2 beta) where |d| < beta, else |d| - beta / 2, of d = input - target. Raises RuntimeError for beta < 0."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, size_average, reduce, reduction)
    size = arithmetic.abs(_difference("smooth_l1_loss", input, target))
    loss = selection.where(comparison.lt(size, beta), arithmetic.square(size) * (0.5 / beta), size - 0.5 * beta)
    return _reduced(loss, _named_reduction(size_average, reduce, reduction))


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """d² / 2 where |d| < delta, else delta (|d| - delta / 2), of d = input - target.

    Raises RuntimeError for delta ≤ 0.
    """
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    size = arithmetic.abs(_difference("huber_loss", input, target))
    loss = selection.where(comparison.lt(size, delta), arithmetic.square(size) * 0.5, (size - 0.5 * delta) * delta)
    return _reduced(loss, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """-(w⁺ t ln σ(x) + (1 - t) ln(1 - σ(x))), computed from the logits so that nothing overflows.

    Raises ValueError unless input and target have the same size.
    """
    _check_sizes("binary_cross_entropy_with_logits", input, target)
    positive, negative = logsigmoid(input), logsigmoid(arithmetic.neg(input))
    gain = arithmetic.mul(target, positive)
    gain = gain if pos_weight is None else arithmetic.mul(gain, pos_weight)
    loss = -(gain + arithmetic.sub(1.0, target) * negative)
    return _reduced(loss if weight is None else loss * weight, _named_reduction(size_average, reduce, reduction))


def _limited_log(p: Any) -> Any:
    return arithmetic.maximum(transcendental.log(p), -100.0)


# The gradient is PyTorch's, finite where the logarithms are not.
@binary(
    promotion="float",
    node="BinaryCrossEntropyBackward0",
    dx=lambda g, x, y: g * (x - y) / arithmetic.maximum(x * (1.0 - x), 1e-12),
    dy=lambda g, x: g * (_limited_log(1.0 - x) - _limited_log(x)),
)
def _entropy(x: Any, y: Any) -> Any:
    """-(y ln x + (1 - y) ln(1 - x)), with logarithms below -100 taken as -100."""
    return -(y * np.maximum(np.log(x), -100.0) + (1.0 - y) * np.maximum(np.log1p(-x), -100.0))


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-(t ln p + (1 - t) ln(1 - p)); logarithms below -100 count as -100, as in PyTorch.

    Raises ValueError unless input and target have the same size.
    """
    _check_sizes("binary_cross_entropy", input, target)
    loss = _entropy(input, target)
    return _reduced(loss if weight is None else loss * weight, _named_reduction(size_average, reduce, reduction))


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-ln softmax(input)[target]: logits (N, C, …) with class indices (N, …), or probabilities of the logits' shape.

    Targets equal to `ignore_index` count for nothing. Raises IndexError for other targets outside [0, C).
    """
    if input.ndim == 0:
        raise IndexError("cross_entropy: expected logits with a class dimension, got a 0-d tensor")
    axis = 0 if input.ndim == 1 else 1
    reduction = _named_reduction(size_average, reduce, reduction)
    if weight is not None:
        _check_weight(weight, input.array.shape[axis])
    logs = log_softmax(input, axis)
    if target.array.dtype.kind == "f" and target.array.shape == input.array.shape:
        return _soft_cross_entropy(logs, target, weight, reduction, label_smoothing, axis)
    loss = nll_loss(logs, target, weight, None, ignore_index, None, reduction)
    if label_smoothing == 0.0:
        return loss
    spread = _smooth(logs, target, weight, ignore_index, reduction, axis)
    share = label_smoothing / input.array.shape[axis]
    return arithmetic.add(arithmetic.mul(loss, 1.0 - label_smoothing), arithmetic.mul(spread, share))


def _soft_cross_entropy(logs: Any, target: Any, weight: Any, reduction_name: str, smoothing: float, axis: int) -> Any:
    classes = logs.array.shape[axis]
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / classes
    terms = logs * target
    if weight is not None:
        terms = terms * movement.reshape(weight, shape=tuple(classes if d == axis else 1 for d in range(logs.ndim)))
    loss = -reduction.sum(terms, axes=(axis,), keepdims=False)
    if reduction_name == "mean":
        return reduction.sum(loss, axes=tuple(range(loss.ndim)), keepdims=False) / max(
            movement.numel(loss.array.shape), 1
        )
    return _reduced(loss, reduction_name)


def _smooth(logs: Any, target: Any, weight: Any, ignore_index: int, reduction_name: str, axis: int) -> Any:
    """The part of label smoothing that spreads over all classes."""
    shape = tuple(logs.array.shape[axis] if d == axis else 1 for d in range(logs.ndim))
    terms = logs if weight is None else logs * movement.reshape(weight, shape=shape)
    counted = comparison.ne(target, ignore_index)
    loss = selection.where(counted, -reduction.sum(terms, axes=(axis,), keepdims=False), 0.0)
    if reduction_name != "mean":
        return _reduced(loss, reduction_name)
    share = _weights(target, weight, counted, logs)
    return _reduced(loss, "mean", share)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target]: log-probabilities (N, C, …) with class indices (N, …).

    Targets equal to `ignore_index` count for nothing. Raises IndexError for other targets outside [0, C).
    """
    axis = 0 if input.ndim == 1 else 1
    reduction = _named_reduction(size_average, reduce, reduction)
    shape = input.array.shape
    expected = shape[:axis] + shape[axis + 1 :]
    if target.array.dtype.kind not in "iu":
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target.dtype}")
    if target.array.shape != expected:
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size "
            f"({target.array.shape[0] if target.ndim else 0}): input {tuple(shape)} "
            f"needs a target of {tuple(expected)}, got {tuple(target.array.shape)}"
        )
    counted = comparison.ne(target, ignore_index)
    safe = selection.where(counted, target, np.asarray(0, target.array.dtype))
    _check_classes(safe, shape[axis])
    picked = _picked(input, safe, axis)
    if weight is None:
        loss = selection.where(counted, arithmetic.neg(picked), 0.0)
        if reduction != "mean":
            return _reduced(loss, reduction)
        return _reduced(loss, "mean", selection.cast(counted, dtype=input.array.dtype))
    _check_weight(weight, shape[axis])
    share = _weights(safe, weight, counted, input)
    return _reduced(selection.where(counted, -(picked * share), 0.0), reduction, share)


def _check_classes(target: Any, classes: int) -> None:
    indexing.check_range(target, classes, f"Target {{}} is out of bounds: classes are 0 to {classes - 1}", low=0)


def _check_weight(weight: Tensor, classes: int) -> None:
    if tuple(weight.array.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(weight.array.shape)}"
        )


def _weights(target: Any, weight: Any, counted: Any, like: Any) -> Any:
    if weight is None:
        return selection.cast(counted, dtype=like.array.dtype)
    safe = selection.where(counted, target, np.asarray(0, target.array.dtype))
    share = apply(indexing.index.op, (weight, safe), {"pattern": (0,)})  # type: ignore[attr-defined]
    return selection.where(counted, share, 0.0)


def _picked(input: Tensor, target: Tensor, axis: int) -> Any:
    """input at the target's class. While tracing, a comparison with every class: it fuses into the softmax's loops."""
    shape = target.array.shape
    at = movement.reshape(target, shape=(*shape[:axis], 1, *shape[axis:]))
    if unusual.count and mode.tracer is not None:
        classes = input.array.shape[axis]
        numbers = iota(count=classes, start=0, step=1, dtype=target.array.dtype)
        column = movement.reshape(numbers, shape=tuple(classes if d == axis else 1 for d in range(input.ndim)))
        return reduction.sum(selection.where(comparison.eq(at, column), input, 0.0), axes=(axis,), keepdims=False)
    return movement.reshape(indexing.gather(input, at, axis=axis), shape=shape)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at the class of each element, else 0: (…) to (…, classes), int64. -1 classes: the largest plus one."""
    classes = num_classes if num_classes != -1 else int(tensor.numpy_view("one_hot()").max(initial=-1)) + 1
    _check_classes(tensor, classes)
    column = movement.reshape(tensor, shape=(*tensor.array.shape, 1))
    return selection.cast(comparison.eq(column, constant(np.arange(classes))), dtype=np.dtype(np.int64))


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: Any = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of `weight` (V, D) at the indices `input` (…): (…, D). The row `padding_idx` gets no gradient.

    Raises IndexError for indices outside [0, V).
    """
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise RuntimeError("embedding: max_norm, scale_grad_by_freq and sparse are not supported yet")
    if input.array.dtype.kind not in "iu":
        raise RuntimeError(
            f"Expected tensor for argument #1 'indices' to have scalar type Long or Int, but got {input.dtype}"
        )
    rows = weight.array.shape[0]
    indexing.check_range(input, rows, f"index out of range in self: {{}}, embedding has {rows} rows", low=0)
    out = apply(indexing.index.op, (weight, input), {"pattern": (0,)})  # type: ignore[attr-defined]
    if padding_idx is None:
        return out
    padded = comparison.eq(input, padding_idx % rows)
    mask = movement.reshape(padded, shape=(*input.array.shape, 1))
    return selection.where(mask, out.detach(), out)
