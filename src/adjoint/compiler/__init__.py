"""From a Python step to native code: trace, graph, rewrite, fuse, plan, lower, run. Imported on the first `compile`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from adjoint.core.later import later
from adjoint.core.mode import mode, unusual
from adjoint.core.native import eager_kernels as eager_kernels

if TYPE_CHECKING:
    from adjoint.compiler.expressions import as_function as as_function
    from adjoint.compiler.expressions import symbolic as symbolic
    from adjoint.compiler.gradient import compute_gradient as compute_gradient


def is_compiling() -> bool:
    """True within a step while it is traced, as its Python runs then; False in all other calls."""
    return bool(unusual.count and hasattr(mode.tracer, "arithmetic"))


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, which is traced where a step calls it; without one, a decorator."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


assume_constant_result = allow_in_graph


def reset() -> None:
    """Nothing: each compiled step forgets its programs when it is deleted."""


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no CUDA graphs."""


def is_exporting() -> bool:
    """False: programs are not exported."""
    return False


def is_dynamo_compiling() -> bool:
    """`is_compiling`."""
    return is_compiling()


def set_stance(*args: Any, **kwargs: Any) -> nullcontext[None]:
    """Nothing: a signature that is new is compiled."""
    return nullcontext()


def list_backends(*args: Any, **kwargs: Any) -> list[str]:
    """None beside its own."""
    return []


__all__ = [
    "allow_in_graph", "as_function", "assume_constant_result", "compute_gradient", "cudagraph_mark_step_begin",
    "disable", "eager_kernels", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset",
    "set_stance", "symbolic",
]  # fmt: skip
if not TYPE_CHECKING:
    _, __getattr__, __dir__ = later(__name__, {"gradient": "compute_gradient", "expressions": "as_function symbolic"})
