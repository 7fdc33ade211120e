"""From a Python step to native code: trace, graph, rewrite, fuse, plan, lower, run. Imported on the first `compile`."""

from adjoint.compiler.gradient import compute_gradient as compute_gradient
from adjoint.compiler.symbolic import as_function as as_function
from adjoint.compiler.symbolic import symbolic as symbolic
from adjoint.core.mode import mode, unusual
from adjoint.core.native import eager_kernels as eager_kernels


def is_compiling() -> bool:
    """True within a step while it is traced, as its Python runs then; False in all other calls."""
    return bool(unusual.count and hasattr(mode.tracer, "arithmetic"))


__all__ = ["as_function", "compute_gradient", "eager_kernels", "is_compiling", "symbolic"]
