"""Numbers equally far apart, bit for bit those of PyTorch: counted from the nearer end, each rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDER_DTYPE = {np.dtype(np.float32): np.float64, np.dtype(np.float64): np.longdouble}  # hold a product of two exactly


def linspace_values(start: Any, end: Any, steps: int, kind: Any) -> Any:
    """`steps` elements of the dtype `kind` from `start` to `end`, both included."""
    wider: Any = WIDER_DTYPE.get(kind)
    if wider is None or steps < 2:
        return np.linspace(start, end, steps).astype(kind)
    with np.errstate(over="ignore", invalid="ignore"):
        first, last = kind.type(start), kind.type(end)
        step, half = (last - first) / kind.type(steps - 1), steps // 2
        below = wider(first) + wider(step) * np.arange(half)
        above = wider(last) - wider(step) * np.arange(steps - 1 - half, -1, -1)
        return np.concatenate([below, above]).astype(kind)
