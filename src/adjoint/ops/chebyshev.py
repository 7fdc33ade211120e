"""Functions that NumPy lacks, evaluated piece by piece in float64: each piece by a Chebyshev series, or a formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from adjoint.core.parameters import parameters_of

Evaluate = Callable[..., Any]


def chebyshev(coefficients: Sequence[float], t: Any) -> Any:
    """Σ cₖ Tₖ(t) for t in [-1, 1], by Clenshaw's recurrence."""
    twice = t + t
    this, before, later = np.zeros_like(t), np.zeros_like(t), np.empty_like(t)
    for c in reversed(coefficients[1:]):
        np.multiply(twice, this, out=later)
        later -= before
        later += c
        this, before, later = later, this, before
    return t * this - before + coefficients[0]


def in_pieces(x: Any, *pieces: tuple[Any, Evaluate]) -> Any:
    """Where the condition of a piece holds, its function of the chosen elements; NaN where none does."""
    out = np.full_like(x, np.nan)
    for chosen, piece in pieces:
        if chosen.all():
            return piece(x)
        if chosen.any():
            out[chosen] = piece(x[chosen])
    return out


def in_double(function: Evaluate) -> Evaluate:
    """`function`, of float64 vectors, for one operand or several that broadcast, of any floating type."""

    @wraps(function)
    def call(*operands: Any) -> Any:
        kind = next(x.dtype for x in operands if hasattr(x, "dtype"))
        wide = np.broadcast_arrays(*[np.asarray(x, np.float64) for x in operands])
        with np.errstate(all="ignore"):
            out = function(*[x.reshape(-1) for x in wide])
        return out.reshape(wide[0].shape).astype(kind, copy=False)

    call.parameters = parameters_of(function).positional  # type: ignore[attr-defined]
    return call
