"""Where programs written for PyTorch may look for the classes of `adjoint.nn`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from adjoint.nn.modules import module as module


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("adjoint.nn"), name)
