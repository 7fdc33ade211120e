"""Bringing a module's floating tensors to another dtype; the parameters stay the objects they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from adjoint.core import dtype as dtypes
from adjoint.core.device import device as Device
from adjoint.core.dtype import as_dtype
from adjoint.core.mode import Scope
from adjoint.core.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.nn.module import Module

ModuleType = TypeVar("ModuleType", bound="Module")


def to(self: ModuleType, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False) -> ModuleType:
    """Parameters and buffers with floating elements in another dtype: `to(dtype)`, `to(tensor)`, `to("cpu")`.

    Raises TypeError for a dtype that is not floating, RuntimeError for a device other than the CPU.
    """
    for given in args:
        if isinstance(given, Tensor):
            dtype = given.dtype
        elif isinstance(given, (str, Device)):
            device = given
        elif not isinstance(given, bool):
            dtype = given
    if device is not None:
        Device(device)
    if dtype is None:
        return self
    target = as_dtype(dtype)
    if not target.is_floating_point and not target.is_complex:
        raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={target!r}")
    return _floating_to(self, target)


def to_float(self: ModuleType) -> ModuleType:
    """Floating parameters and buffers as float32."""
    return _floating_to(self, dtypes.float32)


def to_double(self: ModuleType) -> ModuleType:
    """Floating parameters and buffers as float64."""
    return _floating_to(self, dtypes.float64)


def to_half(self: ModuleType) -> ModuleType:
    """Floating parameters and buffers as float16."""
    return _floating_to(self, dtypes.float16)


def to_bfloat16(self: ModuleType) -> ModuleType:
    """Floating parameters and buffers as bfloat16."""
    return _floating_to(self, dtypes.bfloat16)


def to_cpu(self: ModuleType) -> ModuleType:
    """The module itself: it is on the CPU."""
    return self


def _floating_to(module: ModuleType, target: dtypes.dtype) -> ModuleType:
    return convert_tensors(module, lambda t: t.to(target) if t.is_floating_point() else t)


def convert_tensors(self: ModuleType, fn: Callable[[Tensor], Tensor]) -> ModuleType:
    """Replace the values of all parameters and their gradients, and all buffers, by `fn` of them."""
    with Scope(recording=False):
        for module in self.modules():
            for parameter in module._parameters.values():
                if parameter is None:
                    continue
                grad = parameter._grad
                parameter.data = fn(parameter.detach())
                if grad is not None:
                    grad.data = fn(grad.detach())
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    setattr(module, name, fn(buffer))
    return self
