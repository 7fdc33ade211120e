"""The older names of what is in `adjoint.amp`, for the CPU."""

from __future__ import annotations

from adjoint.compat.stubs.devices import amp_classes
from adjoint.core.dtype.dtype import bfloat16

__all__ = ["GradScaler", "autocast"]


class autocast(amp_classes.DeviceAutocast):
    """`adjoint.autocast("cpu", …)`."""

    kind = "cpu"
    narrow = bfloat16


class GradScaler(amp_classes.DeviceGradScaler):
    """`adjoint.amp.GradScaler("cpu", …)`."""

    kind = "cpu"
