"""From a Python step to native code: trace, graph, rewrite, fuse, plan, lower, run. Imported on the first `compile`."""

from adjoint.compiler.gradient import compute_gradient as compute_gradient
from adjoint.compiler.symbolic import as_function as as_function
from adjoint.compiler.symbolic import symbolic as symbolic

__all__ = ["as_function", "compute_gradient", "symbolic"]
