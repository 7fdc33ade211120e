"""Functions of functions, as `torch.func` has them: derivatives and batches that compose, and modules as functions."""

from __future__ import annotations

from adjoint.autograd.transforms import grad, grad_and_value, jvp, linearize, vjp
from adjoint.autograd.vmap import vmap
from adjoint.autograd.whole import hessian, jacfwd, jacrev
from adjoint.func.modules import functional_call, stack_module_state
from adjoint.func.purity import functionalize, replace_all_batch_norm_modules_

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
