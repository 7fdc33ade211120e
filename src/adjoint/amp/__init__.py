"""Mixed precision: `autocast` chooses that of each function, `GradScaler` keeps small gradients from vanishing."""

from __future__ import annotations

from adjoint.amp.custom import custom_bwd as custom_bwd
from adjoint.amp.custom import custom_fwd as custom_fwd
from adjoint.amp.grad_scaler import GradScaler as GradScaler
from adjoint.core.autocast import autocast as autocast
from adjoint.core.autocast import is_autocast_available as is_autocast_available

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
