"""`torch.utils.deterministic`: whether deterministic mode fills uninitialized memory."""

from __future__ import annotations

import sys
from types import ModuleType

from adjoint.core.runtime.deterministic import determinism


class _Deterministic(ModuleType):
    """Module whose attribute is a setting of core."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """True if deterministic mode fills new memory with NaN, or with the largest integer."""
        return determinism.fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, fill: bool) -> None:
        if not isinstance(fill, bool):
            raise RuntimeError(f"expected a bool, but got {type(fill).__name__}")
        determinism.fill = fill


sys.modules[__name__].__class__ = _Deterministic
