"""What losses as modules have in common, for programs that derive their own from it."""

from __future__ import annotations

from typing import Any

from adjoint.core.tensor import Tensor
from adjoint.functions.loss import named_reduction
from adjoint.nn.module import Module


class Loss(Module):
    """A loss with a `reduction`: "mean", "sum" or "none"."""

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = named_reduction(size_average, reduce, reduction)


class WeightedLoss(Loss):
    """A loss with a `reduction`, and a buffer `weight`: one number for each class, or None."""

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.weight: Any
