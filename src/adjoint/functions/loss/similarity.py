"""Similarities and distances, and the losses that compare distributions, directions and distances."""

from __future__ import annotations

from adjoint.core.dtype.dtype import result_type
from adjoint.core.graph.source_location import warn_user
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.functions.api.compute_dtype import autocast_float32, in_float32
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.publish import rename_node
from adjoint.functions.elementwise.pointwise import clamp
from adjoint.functions.linalg.norms import norm
from adjoint.functions.loss.regression import apply_loss_reduction, resolve_legacy_reduction
from adjoint.functions.nn.normalization import normalize
from adjoint.functions.shape.shape import broadcast_tensors
from adjoint.ops.elementwise import arithmetic, comparison, float_functions, select, transcendental
from adjoint.ops.reduction import reduction
from adjoint.ops.reduction.reduction import widen_integers

__all__ = ["cosine_embedding_loss", "cosine_similarity", "hinge_embedding_loss", "kl_div", "margin_ranking_loss"]
__all__ += ["pairwise_distance", "soft_margin_loss", "triplet_margin_loss"]
_sum = reduction.sum


@autocast_float32
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return t (ln t - x), the Kullback-Leibler divergence of log-probabilities x from probabilities t.

    "mean" divides by the number of elements, and warns.

    Args:
        input: tensor of log-probabilities x.
        target: tensor of probabilities t, or their logarithms with `log_target`.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "batchmean", "mean", "sum" or "none"; "batchmean" divides the sum by the batch size. Default: "mean".
        log_target: True for targets that are log-probabilities. Default: False.

    Shapes:
        input and target of one shape -> (), or that shape with "none"

    Raises: RuntimeError for integers.

    Example:
        >>> F.kl_div(ad.tensor([[0.5, 0.5]]).log(), ad.tensor([[0.25, 0.75]]), reduction="batchmean")
        tensor(0.1308)
    """
    if reduction == "mean" and size_average is None and reduce is None:
        warn_user(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition."
        )
    if input.array.dtype.kind in "iub" and target.array.dtype.kind in "iub":
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        loss: Operand = arithmetic.mul(transcendental.exp(target), arithmetic.sub(target, input))
    else:
        loss = arithmetic.sub(float_functions.xlogy(target, target), arithmetic.mul(target, input))
    if reduction == "batchmean":
        return apply_loss_reduction(loss, "sum") / (input.array.shape[0] if input.ndim else 1)
    return apply_loss_reduction(loss, resolve_legacy_reduction(size_average, reduce, reduction))


@autocast_float32
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, -t (x1 - x2) + margin), for targets t of 1 or -1.

    Args:
        input1, input2: tensors to rank.
        target: tensor, 1 where `input1` should be larger, -1 where `input2` should.
        margin: least difference without a loss. Default: 0.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        all three of one shape -> (), or that shape with "none"

    Example:
        >>> F.margin_ranking_loss(ad.tensor([1.0]), ad.tensor([3.0]), ad.tensor([1.0]), margin=0.5)
        tensor(2.5000)
    """
    apart = arithmetic.mul(arithmetic.neg(target), arithmetic.sub(input1, input2))
    return apply_loss_reduction(clamp(apart + margin, min=0), resolve_legacy_reduction(size_average, reduce, reduction))


@autocast_float32
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return x where t is 1, and max(0, margin - x) where t is -1.

    Args:
        input: tensor x of distances.
        target: tensor t of 1 and -1.
        margin: least distance without a loss where t is -1. Default: 1.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        input and target of one shape -> (), or that shape with "none"

    Example:
        >>> F.hinge_embedding_loss(ad.tensor([0.5, 0.25]), ad.tensor([1.0, -1.0]), reduction="none")
        tensor([0.5000, 0.7500])
    """
    far = select.where(comparison.eq(target, 1), 0.0, clamp(arithmetic.sub(margin, input), min=0))
    near = select.where(comparison.eq(target, -1), 0.0, input)
    return apply_loss_reduction(arithmetic.add(near, far), resolve_legacy_reduction(size_average, reduce, reduction))


@autocast_float32
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Return ln(1 + e^(-t x)), for targets t of 1 or -1.

    Args:
        input: tensor x of scores.
        target: tensor t of 1 and -1.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        input and target of one shape -> (), or that shape with "none"

    Example:
        >>> F.soft_margin_loss(ad.tensor([0.0, 2.0]), ad.tensor([1.0, -1.0]), reduction="none")
        tensor([0.6931, 2.1269])
    """
    loss = transcendental.log1p(transcendental.exp(arithmetic.mul(arithmetic.neg(target), input)))
    return rename_node(
        apply_loss_reduction(loss, resolve_legacy_reduction(size_average, reduce, reduction)), "SoftMarginLossBackward0"
    )


@autocast_float32
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return 1 - cos where t is 1, and max(0, cos - margin) where t is -1.

    Args:
        input1, input2: tensors whose rows enclose the angle of the cosine.
        target: tensor t of 1 and -1.
        margin: largest cosine without a loss where t is -1. Default: 0.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        input1 and input2 (N, D), target (N,) -> (), or (N,) with "none"; N is optional

    Raises: RuntimeError for targets of other shapes.

    Example:
        >>> F.cosine_embedding_loss(ad.tensor([[3.0, 4.0]]), ad.tensor([[1.0, 0.0]]), ad.tensor([1.0]))
        tensor(0.4000)
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
        _sum(widen_integers(arithmetic.mul(x, y)), axes=axes, keepdims=False)
        for x, y in ((input1, input1), (input2, input2), (input1, input2))
    )
    sizes = arithmetic.mul(arithmetic.add(first, tiny), arithmetic.add(second, tiny))
    cos = arithmetic.div(both, arithmetic.sqrt(sizes))
    zero = 0.0
    near = select.where(comparison.eq(target, 1), arithmetic.sub(1.0, cos), zero)
    far = select.where(comparison.eq(target, -1), clamp(cos - margin, min=0), zero)
    return apply_loss_reduction(arithmetic.add(near, far), resolve_legacy_reduction(size_average, reduce, reduction))


@autocast_float32
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, ‖a - p‖ - ‖a - n‖ + margin) of anchors a, positives p and negatives n.

    Args:
        anchor, positive, negative: tensors whose rows are compared.
        margin: least difference of the distances without a loss. Default: 1.
        p: order of the norm. Default: 2.
        eps: number added to each difference. Default: 1e-6.
        swap: True to use ‖p - n‖ where it is smaller than ‖a - n‖. Default: False.
        size_average, reduce: deprecated, use `reduction`. Default: None.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        all three (N, D) -> (), or (N,) with "none"; N is optional

    Raises: ValueError for a margin of 0 or less.

    Source: Balntas et al., 2016.

    Example:
        >>> F.triplet_margin_loss(ad.zeros(1, 2), ad.tensor([[0.0, 1.0]]), ad.tensor([[1.5, 0.0]]))
        tensor(0.5000)
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = arithmetic.minimum(far, pairwise_distance(positive, negative, p, eps))
    apart = arithmetic.sub(near, far)
    return apply_loss_reduction(clamp(apart + margin, min=0), resolve_legacy_reduction(size_average, reduce, reduction))


@in_float32
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Return the distance ‖x1 - x2 + eps‖ₚ over the last dimension.

    Args:
        x1, x2: tensors whose rows are compared, by broadcasting.
        p: order of the norm. Default: 2.
        eps: number added to each difference. Default: 1e-6.
        keepdim: True to keep the last dimension with size 1. Default: False.

    Shapes:
        x1 and x2 (…, D) -> (…)

    Example:
        >>> F.pairwise_distance(ad.tensor([[3.0, 4.0]]), ad.zeros(1, 2))
        tensor([5.0000])
    """
    apart = arithmetic.sub(x1, x2)
    return norm(apart + eps, p, -1, keepdim)


@in_float32
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08) -> Tensor:
    """Return the cosine x·y / (max(‖x‖, eps) max(‖y‖, eps)) along `dim`.

    Args:
        x1, x2: tensors to compare, by broadcasting.
        dim: dimension of the vectors. Default: 1.
        eps: least length to divide by. Default: 1e-8.

    Shapes:
        x1 and x2 (…, D, …) -> (…, …), without `dim`

    Raises: RuntimeError if no input is floating.

    Example:
        >>> F.cosine_similarity(ad.tensor([[3.0, 4.0]]), ad.tensor([[1.0, 0.0]]))
        tensor([0.6000])
    """
    kind = result_type(x1, x2)
    if kind.rank < 2:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {kind!r}")
    x1, x2 = (x if x.dtype is kind else select.cast(x, dtype=kind.numpy) for x in (x1, x2))
    first, second = x1.array.shape, x2.array.shape
    rank = len(first)
    if rank != len(second) or not -rank <= dim < rank or first[dim] != second[dim]:
        x1, x2 = broadcast_tensors(x1, x2)
    product = arithmetic.mul(normalize(x1, 2.0, dim, eps), normalize(x2, 2.0, dim, eps))
    axis = one_dim(dim, product.ndim)
    return _sum(product, axes=(axis,) if product.ndim else (), keepdims=False)
