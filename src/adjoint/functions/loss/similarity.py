"""Similarities and distances, and the losses that compare distributions, directions and distances."""

from __future__ import annotations

from typing import Any

from adjoint.core.dtype.dtype import result_type
from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api.compute_dtype import autocast_float32, in_float32
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.publish import rename_node
from adjoint.functions.elementwise.pointwise import clamp
from adjoint.functions.linalg.norms import norm
from adjoint.functions.loss.regression import apply_loss_reduction, resolve_legacy_reduction
from adjoint.functions.nn.normalization import normalize
from adjoint.ops.elementwise import arithmetic, comparison, float_functions, select, transcendental
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction

__all__ = [
    "cosine_embedding_loss", "cosine_similarity", "hinge_embedding_loss", "kl_div", "margin_ranking_loss",
    "pairwise_distance", "soft_margin_loss", "triplet_margin_loss",
]  # fmt: skip
_sum = reduction.sum


@autocast_float32
def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """t (ln t - x) of log-probabilities x and probabilities t, or with `log_target` log-probabilities.

    `reduction="batchmean"` divides the sum by the first size. "mean" divides by the number of elements, and warns.
    """
    if reduction == "mean" and size_average is None and reduce is None:
        warn_user(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.",
        )
    if log_target:
        loss: Any = arithmetic.mul(transcendental.exp(target), arithmetic.sub(target, input))
    else:
        loss = arithmetic.sub(float_functions.xlogy(target, target), arithmetic.mul(target, input))
    if reduction == "batchmean":
        return apply_loss_reduction(loss, "sum") / (input.array.shape[0] if input.ndim else 1)
    return apply_loss_reduction(loss, resolve_legacy_reduction(size_average, reduce, reduction))


@autocast_float32
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, -t (x1 - x2) + margin), t being 1 or -1."""
    apart: Any = arithmetic.mul(arithmetic.neg(target), arithmetic.sub(input1, input2))
    return apply_loss_reduction(clamp(apart + margin, min=0), resolve_legacy_reduction(size_average, reduce, reduction))


@autocast_float32
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """x where t is 1, max(0, margin - x) where t is -1."""
    far = select.where(comparison.eq(target, 1), 0.0, clamp(arithmetic.sub(margin, input), min=0))
    near = select.where(comparison.eq(target, -1), 0.0, input)
    return apply_loss_reduction(arithmetic.add(near, far), resolve_legacy_reduction(size_average, reduce, reduction))


@autocast_float32
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """ln(1 + e^(-t x)), t being 1 or -1."""
    loss = transcendental.log1p(transcendental.exp(arithmetic.mul(arithmetic.neg(target), input)))
    return rename_node(
        apply_loss_reduction(loss, resolve_legacy_reduction(size_average, reduce, reduction)), "SoftMarginLossBackward0"
    )


@autocast_float32
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos where t is 1, max(0, cos - margin) where t is -1, of the angle between rows of (N, D), or two vectors.

    Raises RuntimeError for targets of other shapes than (N,), or () for vectors.
    """
    rank = target.ndim
    if rank > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not input1.ndim == input2.ndim == rank + 1:
        raise RuntimeError(
            f"{rank}D target tensor expects {rank + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.array.shape)} and {list(input2.array.shape)}."
        )
    tiny, axes = 1e-12, (input1.ndim - 1,)
    first, second, both = (
        _sum(arithmetic.mul(x, y), axes=axes, keepdims=False)
        for x, y in ((input1, input1), (input2, input2), (input1, input2))
    )
    sizes = arithmetic.mul(arithmetic.add(first, tiny), arithmetic.add(second, tiny))
    cos: Any = arithmetic.div(both, arithmetic.sqrt(sizes))
    zero = 0.0
    near = select.where(comparison.eq(target, 1), arithmetic.sub(1.0, cos), zero)
    far = select.where(comparison.eq(target, -1), clamp(cos - margin, min=0), zero)
    return apply_loss_reduction(arithmetic.add(near, far), resolve_legacy_reduction(size_average, reduce, reduction))


@autocast_float32
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, ‖a - p‖ - ‖a - n‖ + margin); with `swap` ‖p - n‖ counts where it is the smaller one.

    Raises ValueError for a margin of 0 or less. Source: Balntas et al., 2016.
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = arithmetic.minimum(far, pairwise_distance(positive, negative, p, eps))
    apart: Any = arithmetic.sub(near, far)
    return apply_loss_reduction(clamp(apart + margin, min=0), resolve_legacy_reduction(size_average, reduce, reduction))


@in_float32
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """‖x1 - x2 + eps‖ₚ over the last dimension."""
    apart: Any = arithmetic.sub(x1, x2)
    return norm(apart + eps, p, -1, keepdim)


@in_float32
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08) -> Tensor:
    """x·y / (max(‖x‖, eps) max(‖y‖, eps)) along `dim`; the two broadcast. Raises RuntimeError if none is floating."""
    kind = result_type(x1, x2)
    if kind.rank < 2:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {kind!r}")
    x1, x2 = (x if x.dtype is kind else select.cast(x, dtype=kind.numpy) for x in (x1, x2))
    shape = broadcast_shapes(x1.array.shape, x2.array.shape)
    x1, x2 = (movement.expand(x, shape=shape) for x in (x1, x2))
    product = arithmetic.mul(normalize(x1, 2.0, dim, eps), normalize(x2, 2.0, dim, eps))
    axis = one_dim(dim, product.ndim)
    return _sum(product, axes=(axis,) if product.ndim else (), keepdims=False)
