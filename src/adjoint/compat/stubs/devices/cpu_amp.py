"""`adjoint.cpu.amp`: `autocast` and `GradScaler` by older names, which warn."""

from __future__ import annotations

from adjoint.compat.stubs.devices import cuda_amp
from adjoint.core.dtype.dtype import bfloat16

__all__ = ["GradScaler", "autocast"]


class autocast(cuda_amp.DeviceAutocast):
    """`adjoint.autocast("cpu", …)`."""

    kind = "cpu"
    narrow = bfloat16


class GradScaler(cuda_amp.DeviceGradScaler):
    """`adjoint.amp.GradScaler("cpu", …)`."""

    kind = "cpu"
