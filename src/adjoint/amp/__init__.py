"""Mixed precision: `autocast` chooses that of each function, `GradScaler` keeps small gradients from vanishing.

Modules, in reading order:

- `custom`: Custom functions under `autocast`: what precision their `forward` gets, and the same for their `backward`.
- `grad_scaler`: Gradients of low precision, scaled up so that small ones do not vanish, and down again before a step.
"""

from __future__ import annotations

from adjoint.amp.custom import custom_bwd as custom_bwd
from adjoint.amp.custom import custom_fwd as custom_fwd
from adjoint.amp.grad_scaler import GradScaler as GradScaler
from adjoint.core.op.autocast import autocast as autocast
from adjoint.core.op.autocast import is_autocast_available as is_autocast_available

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
