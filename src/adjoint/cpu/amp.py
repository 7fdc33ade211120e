"""The older names of what is in `adjoint.amp`, for the CPU."""

from __future__ import annotations

import warnings

from adjoint.amp import grad_scaler
from adjoint.core import autocast as casting
from adjoint.core.dtype import bfloat16, dtype

__all__ = ["GradScaler", "autocast"]


class autocast(casting.autocast):
    """`adjoint.autocast("cpu", …)`."""

    def __init__(self, enabled: bool = True, dtype: dtype = bfloat16, cache_enabled: bool = True) -> None:
        _deprecated("autocast")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`adjoint.amp.GradScaler("cpu", …)`."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        _deprecated("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`adjoint.cpu.amp.{name}(args...)` is deprecated. Please use `adjoint.amp.{name}('cpu', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )
