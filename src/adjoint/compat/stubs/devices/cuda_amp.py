"""The older names of what is in `adjoint.amp`, for a CUDA device: without one they warn and do nothing."""

from __future__ import annotations

from typing import Any

from adjoint.amp import custom
from adjoint.compat.stubs.devices import amp_classes
from adjoint.core.dtype.dtype import float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp_classes.DeviceAutocast):
    """`adjoint.autocast("cuda", …)`."""

    kind = "cuda"
    narrow = float16


class GradScaler(amp_classes.DeviceGradScaler):
    """`adjoint.amp.GradScaler("cuda", …)`."""

    kind = "cuda"


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`adjoint.amp.custom_fwd(device_type="cuda")`."""
    return custom.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """`adjoint.amp.custom_bwd(device_type="cuda")`."""
    return custom.custom_bwd(bwd, device_type="cuda")
