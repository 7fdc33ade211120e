"""Losses as modules: `loss(input, target)`."""

from __future__ import annotations

from functools import partial

from adjoint.nn import functional as F
from adjoint.nn.from_function import module_from

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "HuberLoss", "L1Loss", "MSELoss", "NLLLoss", "SmoothL1Loss",
]  # fmt: skip

_loss_from = partial(module_from, module=__name__, operands=2, shown=False)

CrossEntropyLoss = _loss_from(F.cross_entropy, "CrossEntropyLoss")
NLLLoss = _loss_from(F.nll_loss, "NLLLoss")
MSELoss = _loss_from(F.mse_loss, "MSELoss")
L1Loss = _loss_from(F.l1_loss, "L1Loss")
SmoothL1Loss = _loss_from(F.smooth_l1_loss, "SmoothL1Loss")
HuberLoss = _loss_from(F.huber_loss, "HuberLoss")
BCELoss = _loss_from(F.binary_cross_entropy, "BCELoss")
BCEWithLogitsLoss = _loss_from(F.binary_cross_entropy_with_logits, "BCEWithLogitsLoss")
