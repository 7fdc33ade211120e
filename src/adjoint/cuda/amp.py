"""The older names of what is in `adjoint.amp`, for a CUDA device: without one they warn and do nothing."""

from __future__ import annotations

import warnings
from typing import Any

from adjoint.amp import custom, grad_scaler
from adjoint.core import autocast as casting
from adjoint.core.dtype import dtype, float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(casting.autocast):
    """`adjoint.autocast("cuda", …)`."""

    def __init__(self, enabled: bool = True, dtype: dtype = float16, cache_enabled: bool = True) -> None:
        _deprecated("autocast")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`adjoint.amp.GradScaler("cuda", …)`."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        _deprecated("GradScaler")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`adjoint.amp.custom_fwd(device_type="cuda")`."""
    return custom.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """`adjoint.amp.custom_bwd(device_type="cuda")`."""
    return custom.custom_bwd(bwd, device_type="cuda")


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`adjoint.cuda.amp.{name}(args...)` is deprecated. Please use `adjoint.amp.{name}('cuda', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )
