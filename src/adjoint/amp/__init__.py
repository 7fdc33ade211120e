"""Mixed precision: `autocast` for the precision of each function, `GradScaler` against vanishing gradients.

Modules, in reading order:

- `custom`: Precision of custom functions under `autocast`.
- `grad_scaler`: Gradient scaler: scales losses of low precision up, and their gradients down before a step.
"""

from __future__ import annotations

from adjoint.amp.custom import custom_bwd as custom_bwd
from adjoint.amp.custom import custom_fwd as custom_fwd
from adjoint.amp.grad_scaler import GradScaler as GradScaler
from adjoint.core.op.autocast import autocast as autocast
from adjoint.core.op.autocast import is_autocast_available as is_autocast_available

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
