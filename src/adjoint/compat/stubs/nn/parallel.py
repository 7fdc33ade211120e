"""Modules that PyTorch distributes over devices or processes, of which there is one; and the deprecated `Container`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from adjoint.nn.module.module import Module

__all__ = ["Container", "DataParallel"]


class DataParallel(Module):
    """Module that calls its `module`: there is one device."""

    def __init__(self, module: Module, device_ids: object = None, output_device: object = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: object = None,
    output_device: object = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """Call the module."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Any = None, devices: object = None
) -> list[Any]:
    """Call each module with its input, a tuple of arguments or a single one. Raises AssertionError."""
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}")
    given = [kwargs or {} for kwargs in kwargs_tup or [None] * len(modules)]
    return [
        data_parallel(module, args, module_kwargs=kwargs)
        for module, args, kwargs in zip(modules, inputs, given, strict=True)
    ]


def replicate(network: Module, devices: Any, detach: bool = False) -> list[Module]:
    """Return the module itself once for each device."""
    return [network] * len(devices)


class Container(Module):
    """Module with the given submodules; deprecated, with a warning."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "nn.Container is deprecated. All of it's functionality is now implemented in nn.Module. Subclass that "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)
