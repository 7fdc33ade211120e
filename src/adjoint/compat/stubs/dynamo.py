"""`adjoint._dynamo`: PyTorch's tracer, where programs set it up; `adjoint.compile` needs none of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from adjoint.compat.absent_device import NoStream
from adjoint.compat.module_alias import MissingClass

config = SimpleNamespace(
    suppress_errors=False, verbose=False, cache_size_limit=8, recompile_limit=8, optimize_ddp=True, disable=False,
    capture_scalar_outputs=False, capture_dynamic_output_shape_ops=False, automatic_dynamic_shapes=True,
    assume_static_by_default=True, accumulated_cache_size_limit=256,
)  # fmt: skip
"""Settings that can be read and set, and change nothing."""


def reset() -> None:
    """Nothing: each compiled step forgets its programs when it is deleted."""


def is_compiling() -> bool:
    """False: PyTorch's tracer does not run."""
    return False


def disable(fn: Any = None, recursive: bool = True, **kwargs: Any) -> Any:
    """The function itself; without one, a decorator."""
    return (lambda function: function) if fn is None else fn


def optimize(*args: Any, **kwargs: Any) -> Any:
    """A decorator that changes nothing."""
    return lambda function: function


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def graph_break(msg: str = "") -> None:
    """Nothing: steps are traced whole."""


forbid_in_graph = assume_constant_result = disallow_in_graph = run = allow_in_graph


def mark_dynamic(t: Any, index: Any, *args: Any, **kwargs: Any) -> None:
    """Nothing: `adjoint.compile` makes a program for each shape."""


def mark_static(t: Any, *args: Any, **kwargs: Any) -> None:
    """Nothing: `adjoint.compile` makes a program for each shape."""


maybe_mark_dynamic = mark_unbacked = mark_dynamic
mark_static_address = mark_static


def list_backends(*args: Any, **kwargs: Any) -> list[str]:
    """None."""
    return []


def is_compile_supported(device_type: str) -> bool:
    """False: PyTorch's tracer does not run."""
    return False


def is_dynamo_supported() -> bool:
    """False: PyTorch's tracer does not run."""
    return False


class OptimizedModule(metaclass=MissingClass):
    """What PyTorch's compiler makes of a module: nothing here is one."""

    reason = "adjoint.compile makes a function of a module"


class TransformGetItemToIndex(NoStream):
    """A block in which PyTorch lets tensors be indices under `vmap`: they may be here."""
