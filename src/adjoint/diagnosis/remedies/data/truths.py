"""Remedies for binary losses: truths of another type or range than the probabilities, scores in their place."""

from __future__ import annotations

import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.remedies.losses import name_target
from adjoint.diagnosis.remedies.registry import at, name_argument, remedy


@remedy(r"Found dtype (\w+) but expected (\w+)")
def convert_target(failure: Failure, match: re.Match[str]) -> str:
    """Truths of another type than the probabilities."""
    y = name_target(failure)
    where = at(next((each for each in failure.tensors() if each.text == y), None))
    kind = match[1].lower()
    x = next((each for each in failure.tensors() if str(each.value.dtype).endswith(("bfloat16", "float16"))), None)
    if x is not None and match[2] in ("BFloat16", "Half") and match[1] in ("Float", "Double"):
        told = f"{x.text}{at(x)} is {match[2].lower()}, as autocast gives it, and {y} is {kind}"
        return f"{told}: {x.text}.float(), or binary_cross_entropy_with_logits of the scores"
    method = {"Float": "float", "Double": "double", "Half": "half"}.get(match[2], match[2].lower())
    return f"{y}{where} is {kind}, and a number between 0 and 1 is wanted for each probability: {y}.{method}()"


@remedy(r"all elements of target should be between 0 and 1")
def give_truths(failure: Failure, match: re.Match[str]) -> str:
    """Truths that are neither 0 nor 1, nor between."""
    y = name_argument(failure, 1, "target", "the target")
    value = failure.locals.get("target")
    where = at(next((each for each in failure.tensors() if each.text == y), None))
    told = (
        f"{y}{where} goes from {float(value.min()):.4g} to {float(value.max()):.4g}" if isinstance(value, Tensor) else y
    )
    told = f"{told}, and truths lie between 0 and 1"
    if not isinstance(value, Tensor) or bool((value == value.round()).all()):
        held = set() if not isinstance(value, Tensor) else set(value.unique().tolist())
        way = {(-1, 1): f"({y} + 1) / 2", (1, 2): f"{y} - 1", (0, 255): f"{y} / 255"}.get(tuple(sorted(held)))
        if way is not None:
            return f"{told}: {way}"
        return f"{told}: for more classes F.cross_entropy, for masks of 255 divide by that"
    return f"{told}: F.mse_loss for such values, or ({y} - {y}.min()) / ({y}.max() - {y}.min()) where {y} is made"


@remedy(r"all elements of input should be between 0 and 1")
def use_logits(failure: Failure, match: re.Match[str]) -> str:
    """Scores where probabilities belong."""
    x, layer = name_argument(failure, 0, "input"), failure.module()
    value = failure.locals.get("input", failure.locals.get("x"))
    told = "scores"
    if isinstance(value, Tensor) and value.numel():
        if bool(value.isnan().any()):
            return f"{x} holds NaN: torch.autograd.set_detect_anomaly(True) names the op that makes it"
        told = f"scores from {float(value.min()):.3g} to {float(value.max()):.3g}"
    if layer is not None and type(layer.value).__name__ == "BCELoss":
        return f"{x} gives {told}, no probabilities: nn.BCEWithLogitsLoss(){at(layer)}, which takes scores"
    return f"{x} gives {told}, no probabilities: F.binary_cross_entropy_with_logits takes scores"
