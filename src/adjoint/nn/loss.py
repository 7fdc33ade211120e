"""Losses as modules: `loss(input, target)`."""

from __future__ import annotations

from functools import partial
from typing import Any

from adjoint.nn import functional as F
from adjoint.nn.from_function import module_from
from adjoint.nn.reduced import Loss, WeightedLoss

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "HuberLoss", "L1Loss", "MSELoss", "NLLLoss", "SmoothL1Loss",
]  # fmt: skip

_loss_from = partial(module_from, module=__name__, operands=2, shown=False)

CrossEntropyLoss = _loss_from(F.cross_entropy, "CrossEntropyLoss", kind=WeightedLoss)
NLLLoss = _loss_from(F.nll_loss, "NLLLoss", kind=WeightedLoss)
MSELoss = _loss_from(F.mse_loss, "MSELoss", without="weight", kind=Loss)
L1Loss = _loss_from(F.l1_loss, "L1Loss", without="weight", kind=Loss)
SmoothL1Loss = _loss_from(F.smooth_l1_loss, "SmoothL1Loss", kind=Loss)
_HuberLoss = _loss_from(F.huber_loss, "HuberLoss", without="weight", kind=Loss)
BCELoss = _loss_from(F.binary_cross_entropy, "BCELoss", kind=WeightedLoss)
BCEWithLogitsLoss = _loss_from(F.binary_cross_entropy_with_logits, "BCEWithLogitsLoss", kind=Loss)


class HuberLoss(_HuberLoss):  # type: ignore[misc, valid-type]
    """`huber_loss` as a module. Raises TypeError for a delta that is no number."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(self.delta, (int, float)):
            raise TypeError(f"delta must be a float or int, got: {type(self.delta)}")
