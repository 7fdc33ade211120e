"""Deterministic mode: an error where results may depend on order, and a fill value in uninitialised memory.

Every result of this library has the same bits each time. Calls that PyTorch refuses in deterministic mode on the CPU
are refused here too where the result depends on an order: two elements written in one place.
"""

from __future__ import annotations

import numpy as np

from adjoint.core.graph.source_location import warn_user
from adjoint.core.runtime.package_name import display_name
from adjoint.core.typing import Operand


class Determinism:
    """The setting: `required`, `warn_only` instead of an error, and `fill` of new memory."""

    __slots__ = ("fill", "required", "warn_only")

    def __init__(self) -> None:
        self.required = self.warn_only = False
        self.fill = True


determinism = Determinism()


def alert_not_deterministic(called: str) -> None:
    """Raise RuntimeError in deterministic mode, or warn: the result of `called` depends on an order."""
    if not determinism.required:
        return
    setting = f"'{display_name.package}.use_deterministic_algorithms(True"
    if determinism.warn_only:
        message = f"{called} does not have a deterministic implementation, but you set {setting}, warn_only=True)'."
        warn_user(message, UserWarning)
        return
    raise RuntimeError(
        f"{called} does not have a deterministic implementation, but you set {setting})'. You can turn off determinism "
        "just for this operation, or you can use the 'warn_only=True' option, if that's acceptable for your "
        "application."
    )


def poison_uninitialized(memory: Operand) -> Operand:
    """Fill new memory in deterministic mode with NaN, True, or the largest number of its type."""
    if determinism.required and determinism.fill and type(memory) is np.ndarray:
        kind = memory.dtype.kind
        memory[...] = np.iinfo(memory.dtype).max if kind in "iu" else True if kind == "b" else np.nan
    return memory
