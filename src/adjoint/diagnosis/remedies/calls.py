"""Remedies for calls: arguments that a function does not take, or takes otherwise."""

from __future__ import annotations

import ast
import inspect
import re
from difflib import get_close_matches
from typing import Any

from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate
from adjoint.diagnosis.remedies.registry import remedy

SYNONYMS = {
    "learning_rate": "lr", "l2": "weight_decay", "decay": "weight_decay", "axis": "dim", "dims": "dim",
    "keepdims": "keepdim", "units": "out_features", "filters": "out_channels", "stride_size": "stride",
    "strides": "stride", "kernel": "kernel_size", "pad": "padding", "rate": "p", "prob": "p", "epsilon": "eps",
    "hidden_dim": "hidden_size", "input_dim": "input_size", "heads": "num_heads", "layers": "num_layers",
    "use_bias": "bias", "dropout_rate": "dropout", "batchsize": "batch_size", "workers": "num_workers",
    "gradient": "grad", "require_grad": "requires_grad", "required_grad": "requires_grad",
}  # fmt: skip


@remedy(r"got an unexpected keyword argument '(\w+)'")
def name_keywords(failure: Failure, match: re.Match[str]) -> str | None:
    """A keyword that the function does not know."""
    function = _called_function(failure)
    if function is None:
        return None
    try:
        names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    except (TypeError, ValueError):
        return None
    near = get_close_matches(match[1], names, 1, 0.6)
    similar = SYNONYMS.get(match[1]) if SYNONYMS.get(match[1]) in names else (near[0] if near else None)
    advice = f"{similar}= is meant, perhaps; " if similar else ""
    return f"{advice}it takes {', '.join(names)}"


def _called_function(failure: Failure) -> Any:
    """Return what the user's line calls; None where it cannot be told."""
    node = None if failure.line is None else failure.line.node
    function = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else MISSING
    if function is MISSING and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = evaluate(node.func.value, failure.frame)
        function = MISSING if owner is MISSING else getattr(type(owner), node.func.attr, MISSING)
    return None if function is MISSING else function
