"""Losses with margins, of distributions, of sequences and of triplets as modules."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike
from adjoint.nn import functional as F
from adjoint.nn.layers.linear import Linear
from adjoint.nn.layers.similarity import PairwiseDistance
from adjoint.nn.loss.losses import Loss, NLLLoss, WeightedLoss
from adjoint.nn.module.from_function import make_module_class
from adjoint.nn.module.module import Module

__all__ = ["CTCLoss", "GaussianNLLLoss", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "MultiLabelMarginLoss"]
__all__ += ["MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss2d", "PoissonNLLLoss"]
__all__ += ["TripletMarginWithDistanceLoss"]
_loss_class = partial(make_module_class, module=__name__, operands=2, shown=False, kind=Loss)

MultiLabelMarginLoss = _loss_class(F.multilabel_margin_loss, "MultiLabelMarginLoss")
MultiLabelSoftMarginLoss = _loss_class(F.multilabel_soft_margin_loss, "MultiLabelSoftMarginLoss", kind=WeightedLoss)
PoissonNLLLoss = _loss_class(F.poisson_nll_loss, "PoissonNLLLoss")
CTCLoss = _loss_class(F.ctc_loss, "CTCLoss", operands=4)
_MultiMarginLoss = _loss_class(F.multi_margin_loss, "MultiMarginLoss", kind=WeightedLoss)


class MultiMarginLoss(_MultiMarginLoss):  # type: ignore[misc, valid-type]
    """Multi-class hinge loss: Σ max(0, margin - x[y] + x[i])ᵖ / C over the classes i ≠ y.

    Args:
        p: power, 1 or 2. Default: 1.
        margin: wanted distance of the target's score. Default: 1.
        weight: tensor (C,), factor of each class. Default: None.
        size_average, reduce: deprecated, in place of `reduction`.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        input (N, C) or (C,), target (N,) or () of class indices -> (), or the shape of the target with "none"

    Raises: ValueError for another `p`, and for a weight that is not a vector.

    Example:
        >>> nn.MultiMarginLoss()(ad.tensor([[0.1, 0.2, 0.9]]), ad.tensor([2]))
        tensor(0.1667)
    """

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> None:
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.ndim}D instead")
        super().__init__(p, margin, weight, *args, **kwargs)


class GaussianNLLLoss(Loss):
    """Negative log-likelihood of normal targets: ½ (log v + (x - y)² / v), with the variance v.

    Args:
        full: True to add the constant ½ log 2π. Default: False.
        eps: smallest variance; smaller ones count as this. Default: 1e-6.
        reduction: "mean", "sum" or "none". Default: "mean".

    Shapes:
        input (mean), target and var of one shape, or var without or with 1 in the last dimension -> ()

    Raises: ValueError in a call for negative variances, and for shapes that do not fit.

    Example:
        >>> loss = nn.GaussianNLLLoss()
        >>> loss(ad.tensor([0.0]), ad.tensor([2.0]), ad.tensor([1.0]))
        tensor(2.)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class NLLLoss2d(NLLLoss):  # type: ignore[misc, valid-type]
    """The old name of `NLLLoss` for images, with a warning."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "NLLLoss2d has been deprecated. Please use NLLLoss instead as a drop-in replacement.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class TripletMarginWithDistanceLoss(Module):
    """`triplet_margin_with_distance_loss` as a module. Raises ValueError for a margin of 0 or less.

    Shapes:
        anchor, positive and negative (N, …) -> scalar; with reduction="none" what the distance gives
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap
        self.reduction = reduction

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


@dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """Options by which PyTorch saves memory in `linear_cross_entropy`. They are checked, and change nothing.

    Raises: ValueError for a value that PyTorch refuses.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        name, _, factor = (self.chunking_method or "auto").partition(":")
        if name not in ("auto", "aspect_ratio") or (factor and not (factor.isdigit() and int(factor))):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size: object = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")


class LinearCrossEntropyLoss(Module):
    """The cross entropy of a linear layer's outputs: features (N, in_features) and targets (N, …) to a loss.

    The layer has `num_classes` outputs for each place of `out_features`. Raises RuntimeError for class weights of
    another shape and a `label_smoothing` outside [0, 1].
    """

    weight: Tensor | None

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False,
        device: DeviceLike = None, dtype: DtypeLike = None, reduction: str = "mean", weight: Tensor | None = None,
        ignore_index: int | None = None, label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
    ) -> None:  # fmt: skip
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__()
        self.register_buffer("weight", weight)
        self.reduction = reduction
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        outputs = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, outputs, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        outer = (self.num_classes, *self.out_features)
        bias = None if self.linear.bias is None else self.linear.bias.reshape(outer)
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*outer, self.linear.in_features)),
            target,
            linear_bias=bias,
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
