"""`adjoint._dynamo`: settings of PyTorch's tracer, of which `adjoint.compile` needs none."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from adjoint.compat.absent_device import NoStream
from adjoint.compat.module_alias import MissingClass
from adjoint.core.typing import Operand

# settings that can be read and set, and change nothing
config = SimpleNamespace(
    accumulated_cache_size_limit=256,
    assume_static_by_default=True,
    automatic_dynamic_shapes=True,
    cache_size_limit=8,
    capture_dynamic_output_shape_ops=False,
    capture_scalar_outputs=False,
    disable=False,
    optimize_ddp=True,
    recompile_limit=8,
    suppress_errors=False,
    verbose=False,
)


def reset() -> None:
    """Do nothing: each compiled step forgets its programs when it is deleted."""


def is_compiling() -> bool:
    """Return False: PyTorch's tracer does not run."""
    return False


def disable(fn: Any = None, recursive: bool = True, **kwargs: object) -> Any:
    """Return the function itself; without one, a decorator."""
    return (lambda function: function) if fn is None else fn


def optimize(*args: object, **kwargs: object) -> Any:
    """Return a decorator that changes nothing."""
    return lambda function: function


def allow_in_graph(fn: Any) -> Any:
    """Return the function itself."""
    return fn


def graph_break(msg: str = "") -> None:
    """Do nothing: steps are traced whole."""


forbid_in_graph = assume_constant_result = disallow_in_graph = run = allow_in_graph


def mark_dynamic(t: Operand, index: int | Sequence[int], **bounds: object) -> None:
    """Let the program of a compiled step serve every size of these dimensions, from the first call on.

    `hint_override`, `min`, `max`, `specialize_on`: ignored, guards tell which sizes a program serves. A step that needs
    one number of such a size raises `TraceError`.
    """
    _add_marks(t, "_dynamo_dynamic_indices", index)


def maybe_mark_dynamic(t: Operand, index: int | Sequence[int]) -> None:
    """Let a program serve every size of these dimensions where the step allows it."""
    _add_marks(t, "_dynamo_weak_dynamic_indices", index)


def mark_static(t: Operand, index: int | Sequence[int] | None = None) -> None:
    """Let each size of these dimensions, or of all, be a program of its own. Does nothing for a module's class."""
    if not isinstance(t, type):
        _add_marks(t, "_dynamo_static_indices", range(t.dim()) if index is None else index)


def _add_marks(t: Operand, name: str, index: int | Sequence[int]) -> None:
    """Remember dimensions of a tensor, under the attribute that PyTorch uses."""
    dims = [index] if isinstance(index, int) else index
    for d in dims:
        if not 0 <= d < t.dim():
            raise ValueError(f"dimension {d} is marked of a tensor with {t.dim()} dimensions")
    setattr(t, name, getattr(t, name, set()) | set(dims))


def mark_static_address(t: object, guard: bool = True) -> None:
    """Do nothing: captured tensors are bound where they lie."""


mark_unbacked = mark_dynamic


def list_backends(*args: object, **kwargs: object) -> list[str]:
    """Return no names: there are no backends to choose from."""
    return []


def is_compile_supported(device_type: str) -> bool:
    """Return False: PyTorch's tracer does not run."""
    return False


def is_dynamo_supported() -> bool:
    """Return False: PyTorch's tracer does not run."""
    return False


class OptimizedModule(metaclass=MissingClass):
    """Module that PyTorch has compiled: nothing here is one."""

    reason = "adjoint.compile makes a function of a module"


class TransformGetItemToIndex(NoStream):
    """Context in which PyTorch allows tensors as indices under `vmap`; here they always are."""
