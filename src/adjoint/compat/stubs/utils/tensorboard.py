"""`adjoint.utils.tensorboard`: a writer of TensorBoard's files, by the package tensorboardX."""

from __future__ import annotations

from functools import cache, wraps
from importlib import import_module
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function

__all__ = ["SummaryWriter"]  # noqa: F822  made when it is asked for


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        base = import_module("tensorboardX").SummaryWriter
    except ImportError as error:
        raise ImportError(
            "adjoint.utils.tensorboard needs the package tensorboardX, which is not installed: pip install tensorboardX"
        ) from error
    return _make_writer(base)


@cache
def _make_writer(base: Any) -> Any:
    """Make the writer, whose `add_…` methods take tensors and parameters of adjoint."""
    adds = [name for name in dir(base) if name.startswith("add_") and not name.endswith("_graph")]
    return type(base.__name__, (base,), {name: _with_arrays(getattr(base, name)) for name in adds})


def _with_arrays(add: Function) -> Function:
    @wraps(add)
    def add_with_arrays(self: Any, *args: Any, **kwargs: Any) -> Any:
        return add(self, *map(_to_arrays, args), **{name: _to_arrays(value) for name, value in kwargs.items()})

    return add_with_arrays


def _to_arrays(value: Any) -> Any:
    """Replace tensors in `value` by arrays, and those without dimensions by numbers."""
    if isinstance(value, Tensor):
        array = value.detach().cpu().numpy()
        return array if array.ndim else array[()]
    if isinstance(value, dict):
        return {key: _to_arrays(item) for key, item in value.items()}
    return [_to_arrays(item) for item in value] if type(value) is list else value
