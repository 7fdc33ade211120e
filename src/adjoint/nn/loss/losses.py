"""Losses as modules, and the bases from which programs derive their own."""

from __future__ import annotations

from functools import partial
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.loss.regression import resolve_legacy_reduction
from adjoint.nn import functional as F
from adjoint.nn.module.from_function import make_module_class
from adjoint.nn.module.module import Module

__all__ = ["BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "HuberLoss", "L1Loss", "MSELoss", "NLLLoss"]
__all__ += ["SmoothL1Loss"]


class Loss(Module):
    """Loss with a `reduction`: "mean", "sum" or "none"."""

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = resolve_legacy_reduction(size_average, reduce, reduction)


class WeightedLoss(Loss):
    """Loss with a `reduction`, and a buffer `weight`: one number for each class, or None."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.weight: Any


_loss_class = partial(make_module_class, module=__name__, operands=2, shown=False, kind=Loss)

CrossEntropyLoss = _loss_class(F.cross_entropy, "CrossEntropyLoss", kind=WeightedLoss)
NLLLoss = _loss_class(F.nll_loss, "NLLLoss", kind=WeightedLoss)
MSELoss = _loss_class(F.mse_loss, "MSELoss", without="weight")
L1Loss = _loss_class(F.l1_loss, "L1Loss", without="weight")
SmoothL1Loss = _loss_class(F.smooth_l1_loss, "SmoothL1Loss")
_HuberLoss = _loss_class(F.huber_loss, "HuberLoss", without="weight")
BCELoss = _loss_class(F.binary_cross_entropy, "BCELoss", kind=WeightedLoss)
BCEWithLogitsLoss = _loss_class(F.binary_cross_entropy_with_logits, "BCEWithLogitsLoss")


class HuberLoss(_HuberLoss):  # type: ignore[misc, valid-type]
    """Huber loss: ½ (x - y)² where |x - y| < delta, else delta (|x - y| - ½ delta).

    Args:
        reduction: "mean", "sum" or "none". Default: "mean".
        delta: distance at which the loss becomes linear, above 0. Default: 1.

    Shapes:
        input and target of any shape -> (), or the shape of the input with "none"

    Raises: TypeError for a delta that is not a number, RuntimeError in a call for one that is not positive.

    Source: Huber, Robust Estimation of a Location Parameter, 1964.

    Example:
        >>> loss = nn.HuberLoss(reduction="none")
        >>> loss(ad.tensor([0.5, 3.0]), ad.zeros(2))
        tensor([0.1250, 2.5000])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(self.delta, (int, float)):
            raise TypeError(f"delta must be a float or int, got: {type(self.delta)}")
