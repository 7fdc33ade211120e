"""Native functions for small arrays of any size, which the NumPy functions of ops take in place of several calls.

They are compiled once on a machine, where the kernels of `core.native` are made for one shape each and pay for large
arrays only. As there, whether a call takes one depends on its arrays alone, never on how often it was called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import ndarray

from adjoint.core.native import source


class Routine:
    """A native function of this name. `call(*operands)` is a new array, or None where NumPy is to do the work.

    It takes small row-major arrays of float32 or float64, and others as its declaration has them (see
    compiler/kernels/routines); anything may be given, but shapes that do not go together. Where it runs `source` is
    `enabled`, which callers look at.
    """

    __slots__ = ("call", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.call: Callable[..., Any] = self._first

    def _first(self, *operands: Any) -> Any:
        if not any(type(x) is ndarray for x in operands):
            return None  # a step is being traced, which is no time to compile something else
        self.call = source.routine(self.name) or _nothing
        return self.call(*operands)

    def __repr__(self) -> str:
        return f"<routine {self.name}>"


def folded(rows: Routine, whole: Routine, x: Any, axes: tuple[int, ...], *numbers: float) -> Any:
    """What folds x over all its axes, or over the last; None for others, and where NumPy is to do the work."""
    if not source.enabled:
        return None
    rank = x.ndim
    return whole.call(x, *numbers) if len(axes) == rank else rows.call(x, *numbers) if axes == (rank - 1,) else None


def _nothing(*operands: Any) -> None:
    """What stands for a routine that this machine does not have."""
