"""Walking the recorded graph: the engine, grad modes and custom functions."""

import adjoint.autograd.hooks  # gives Tensor register_hook()
from adjoint.autograd.backward import backward, grad
from adjoint.autograd.check import GradcheckError, gradcheck, gradgradcheck
from adjoint.autograd.function import Function
from adjoint.autograd.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from adjoint.autograd.steps import Step, backward_steps, dependencies

__all__ = [
    "Function", "GradcheckError", "Step", "backward", "backward_steps", "dependencies", "enable_grad", "grad",
    "gradcheck", "gradgradcheck", "is_grad_enabled", "no_grad", "set_grad_enabled",
]  # fmt: skip
