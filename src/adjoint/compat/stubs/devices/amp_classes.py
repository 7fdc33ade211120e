"""`autocast` and `GradScaler` by their older names, one of each for a kind of device: they warn, and do the same."""

from __future__ import annotations

import warnings
from typing import ClassVar

from adjoint.amp import grad_scaler
from adjoint.core.dtype.dtype import dtype
from adjoint.core.op import autocast as casting
from adjoint.core.runtime.package_name import display_name


class DeviceAutocast(casting.autocast):
    """`adjoint.autocast(kind, …)`."""

    kind: ClassVar[str]
    narrow: ClassVar[dtype]

    def __init__(self, enabled: bool = True, dtype: dtype | None = None, cache_enabled: bool = True) -> None:
        _warn_deprecated(self.kind, "autocast")
        super().__init__(self.kind, self.narrow if dtype is None else dtype, enabled, cache_enabled)


class DeviceGradScaler(grad_scaler.GradScaler):
    """`adjoint.amp.GradScaler(kind, …)`."""

    kind: ClassVar[str]

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        _warn_deprecated(self.kind, "GradScaler")
        super().__init__(self.kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def _warn_deprecated(kind: str, name: str) -> None:
    warnings.warn(
        f"`{display_name.package}.{kind}.amp.{name}(args...)` is deprecated. "
        f"Please use `{display_name.package}.amp.{name}('{kind}', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )
