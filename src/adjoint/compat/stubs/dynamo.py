"""`adjoint._dynamo`: settings of PyTorch's tracer, of which `adjoint.compile` needs none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from adjoint.compat.absent_device import NoStream
from adjoint.compat.module_alias import MissingClass

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


def mark_dynamic(t: object, index: object, *args: object, **kwargs: object) -> None:
    """Do nothing: `adjoint.compile` makes a program for each shape."""


def mark_static(t: object, *args: object, **kwargs: object) -> None:
    """Do nothing: `adjoint.compile` makes a program for each shape."""


maybe_mark_dynamic = mark_unbacked = mark_dynamic
mark_static_address = mark_static


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
