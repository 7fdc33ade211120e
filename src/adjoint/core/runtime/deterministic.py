"""What programs ask for where results may differ from run to run: a complaint, and memory that shows it is unwritten.

Here every result has the same bits each time. What PyTorch refuses on the CPU in deterministic mode is refused here too
where the answer is a matter of order: two elements written in one place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.graph.source_location import warn_user
from adjoint.core.runtime.package_name import display_name


class Determinism:
    """`required`, or with `warn_only` wished for; `fill`: whether new memory is then filled."""

    __slots__ = ("fill", "required", "warn_only")

    def __init__(self) -> None:
        self.required = self.warn_only = False
        self.fill = True


determinism = Determinism()


def alert_not_deterministic(called: str) -> None:
    """Say that `called` has no one result. Raises RuntimeError in deterministic mode, or warns if asked to."""
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


def poison_uninitialized(memory: Any) -> Any:
    """`memory`, which is new: in deterministic mode its elements become NaN, True, or the largest of their type."""
    if determinism.required and determinism.fill and type(memory) is np.ndarray:
        kind = memory.dtype.kind
        memory[...] = np.iinfo(memory.dtype).max if kind in "iu" else True if kind == "b" else np.nan
    return memory
