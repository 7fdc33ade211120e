"""Modules whose first values are of no interest."""

from __future__ import annotations

import inspect
from typing import TypeVar

from adjoint.core.random.generator import default_generator
from adjoint.nn.module.module import Module

__all__ = ["skip_init"]
ModuleType = TypeVar("ModuleType", bound=Module)


def skip_init(module_cls: type[ModuleType], *args: object, **kwargs: object) -> ModuleType:
    """Return module_cls(*args, **kwargs) with uninitialized parameters and buffers; no random numbers are drawn.

    Raises RuntimeError for what is no module class, and for one that takes no `device`.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    place = default_generator.get_state()
    try:
        return module_cls(*args, **kwargs).to_empty(device="cpu")
    finally:
        default_generator.set_state(place)
