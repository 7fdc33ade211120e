"""Orders of dimensions: the one in which a part of the failing line, and the statements after it, run."""

from __future__ import annotations

import ast

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Shape
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.repairs.expression import Edit, bracket, parse
from adjoint.diagnosis.repairs.following import count_fitting, find_whole
from adjoint.diagnosis.repairs.reshapes import leave_order, write_orders
from adjoint.diagnosis.repairs.trial import Trial

MAX_DIMENSIONS = 4


def find_order(failure: Failure, part: ast.expr | None) -> tuple[str, Shape] | None:
    """Return a part in the order of dimensions with which the line runs, and those after it, and its shape then."""
    if part is None or failure.line is None:
        return None
    source = failure.line.source
    root = leave_order(part)
    whole = find_whole(source, part)
    trial = Trial(whole, failure.frame)
    try:
        value = trial.run(root)
    except Exception:  # noqa: BLE001  what cannot be computed again
        return None
    if not isinstance(value, Tensor) or not 1 < value.ndim <= MAX_DIMENSIONS:
        return None
    for text in write_orders(bracket(root), value.ndim):
        changed = Edit(part, parse(text))
        if count_fitting(source, trial, whole, changed.apply(whole)) is not None:
            return text, tuple(trial.run(changed.replacement).shape)
    return None


def fits(failure: Failure, part: ast.expr, text: str) -> bool:
    """Return whether the line, and those after it, run with a text in the place of a part."""
    if failure.line is None:
        return False
    source, whole = failure.line.source, find_whole(failure.line.source, part)
    trial = Trial(whole, failure.frame)
    return count_fitting(source, trial, whole, Edit(part, parse(text)).apply(whole)) is not None
