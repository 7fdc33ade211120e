"""`adjoint.utils.tensorboard`: writing what TensorBoard shows, by the package tensorboardX."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["SummaryWriter"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module("tensorboardX"), name)
    except ImportError as error:
        raise ImportError(
            "adjoint.utils.tensorboard needs the package tensorboardX, which is not installed: pip install tensorboardX"
        ) from error
