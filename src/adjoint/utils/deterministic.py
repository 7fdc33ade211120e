"""What `use_deterministic_algorithms` entails for memory that nobody wrote."""

from __future__ import annotations

import sys
from types import ModuleType

from adjoint.core.runtime.deterministic import determinism


class _Deterministic(ModuleType):
    """This module: what is set here counts elsewhere."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether, in deterministic mode, new memory is filled with NaN, or the largest of integers."""
        return determinism.fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, fill: bool) -> None:
        if not isinstance(fill, bool):
            raise RuntimeError(f"expected a bool, but got {type(fill).__name__}")
        determinism.fill = fill


sys.modules[__name__].__class__ = _Deterministic
