"""`adjoint.func`: transforms that compose, as in `torch.func`: derivatives, `vmap`, and modules as functions."""

from __future__ import annotations

from adjoint.transforms.functional_call import (
    functional_call,
    functionalize,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from adjoint.transforms.grad import grad, grad_and_value, jvp, linearize, vjp
from adjoint.transforms.jacobian import hessian, jacfwd, jacrev
from adjoint.transforms.vmap.vmap import vmap

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
