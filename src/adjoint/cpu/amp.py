"""The older names of what is in `adjoint.amp`, for the CPU."""

from __future__ import annotations

from adjoint.amp import older
from adjoint.core.dtype import bfloat16

__all__ = ["GradScaler", "autocast"]


class autocast(older.Autocast):
    """`adjoint.autocast("cpu", …)`."""

    kind = "cpu"
    narrow = bfloat16


class GradScaler(older.Scaler):
    """`adjoint.amp.GradScaler("cpu", …)`."""

    kind = "cpu"
