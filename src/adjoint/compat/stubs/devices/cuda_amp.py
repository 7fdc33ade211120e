"""`adjoint.cuda.amp`: `autocast` and `GradScaler` by older names, which warn; without a CUDA device they do nothing."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from adjoint.amp import custom, grad_scaler
from adjoint.core.dtype.dtype import dtype, float16
from adjoint.core.op import autocast as casting
from adjoint.core.runtime.package_name import display_name

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class DeviceAutocast(casting.autocast):
    """`adjoint.autocast(kind, …)`, with a warning."""

    kind: ClassVar[str]
    narrow: ClassVar[dtype]

    def __init__(self, enabled: bool = True, dtype: dtype | None = None, cache_enabled: bool = True) -> None:
        _warn_deprecated(self.kind, "autocast")
        super().__init__(self.kind, self.narrow if dtype is None else dtype, enabled, cache_enabled)


class DeviceGradScaler(grad_scaler.GradScaler):
    """`adjoint.amp.GradScaler(kind, …)`, with a warning."""

    kind: ClassVar[str]

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn_deprecated(self.kind, "GradScaler")
        super().__init__(self.kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


class autocast(DeviceAutocast):
    """`adjoint.autocast("cuda", …)`."""

    kind = "cuda"
    narrow = float16


class GradScaler(DeviceGradScaler):
    """`adjoint.amp.GradScaler("cuda", …)`."""

    kind = "cuda"


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`adjoint.amp.custom_fwd(device_type="cuda")`."""
    return custom.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """`adjoint.amp.custom_bwd(device_type="cuda")`."""
    return custom.custom_bwd(bwd, device_type="cuda")


def amp_definitely_not_available() -> bool:
    """Return True: neither a CUDA device nor XLA is here, which thinc asks as it is imported."""
    return True


def _warn_deprecated(kind: str, name: str) -> None:
    warnings.warn(
        f"`{display_name.package}.{kind}.amp.{name}(args...)` is deprecated. "
        f"Please use `{display_name.package}.amp.{name}('{kind}', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )
