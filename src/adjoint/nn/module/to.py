"""Bringing a module's floating tensors to another dtype; the parameters stay the objects they are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from adjoint.core.dtype import dtype as dtypes
from adjoint.core.dtype.device import device as Device
from adjoint.core.dtype.device import is_meta, require_cpu
from adjoint.core.dtype.dtype import as_dtype
from adjoint.core.runtime.mode import ModeScope, nondefault
from adjoint.core.tensor.memory_format import memory_format
from adjoint.core.tensor.memory_format import memory_format as MemoryFormat
from adjoint.core.tensor.meta import MetaArray
from adjoint.core.tensor.shape_tracer import move_to_device
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike
from adjoint.functions.creation.creation import empty_like
from adjoint.nn.module.module_state import AnyModule

ModuleType = TypeVar("ModuleType", bound=AnyModule)


def to(
    self: ModuleType,
    *args: Tensor | DtypeLike | DeviceLike | MemoryFormat | bool,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: memory_format | None = None,
) -> ModuleType:
    """Convert floating-point and complex parameters and buffers in place, and return the module.

    It accepts `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(tensor)` and `to(memory_format=…)`. The parameters
    stay the same objects. Integer buffers keep their dtype.

    Args:
        args: dtype, device, or tensor whose dtype to take.
        dtype: floating-point or complex dtype. Default: None, unchanged.
        device: "cpu", or "meta" to drop the values. Default: None, unchanged.
        non_blocking: ignored.
        copy: only False.
        memory_format: order in memory of the tensors with as many dimensions as it orders. Default: None, unchanged.

    Raises: TypeError for other dtypes, RuntimeError for a device other than these.

    Example:
        >>> layer = nn.Linear(2, 1).to(ad.float64)
        >>> layer.weight.dtype
        adjoint.float64
    """
    if copy:
        raise RuntimeError(".to() does not accept copy argument")
    for place, given in enumerate(args):
        if isinstance(given, Tensor):
            dtype = given.dtype
        elif isinstance(given, MemoryFormat):
            memory_format = given
        elif place == 0 and (given is None or isinstance(given, (str, Device)) or type(given) is int):
            device = given
        elif isinstance(given, bool):
            if place == 0 or not isinstance(args[place - 1], (dtypes.dtype, Tensor)):  # it says whether to wait
                raise TypeError(f"to() received an invalid combination of arguments - got ({_type_names(args)})")
        else:
            dtype = _parse_dtype(given)
    if device is not None and (is_meta(device) or nondefault.meta_tensors):
        self._apply(partial(_move_to_device, device=device))
    ranks: tuple[int, ...] = ()
    if memory_format is not None:
        ranks = (len(memory_format.order),) if memory_format.order else (4, 5)

    def convert_layout(t: Tensor) -> Tensor:
        return t.to(memory_format=memory_format) if t.ndim in ranks else t

    if dtype is None:
        return self._apply(convert_layout if ranks else _keep_tensor)
    target = as_dtype(dtype)
    if not target.is_floating_point and not target.is_complex:
        raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={target!r}")
    if target.is_complex:
        warnings.warn(
            "Complex modules are a new feature under active development whose design may change, and some modules "
            "might not work as expected when using complex tensors as parameters or buffers.",
            stacklevel=2,
        )
    return self._apply(lambda t: convert_layout(t.to(target) if t.is_floating_point() or t.is_complex() else t))


def _parse_dtype(given: Any) -> DtypeLike:
    try:
        return as_dtype(given)
    except TypeError as error:
        raise TypeError(f"to() received an invalid combination of arguments - got ({_type_names((given,))})") from error


def _type_names(args: tuple[object, ...]) -> str:
    return ", ".join(type(arg).__name__ for arg in args)


def _floating_conversion(name: str, target: dtypes.dtype) -> Callable[[ModuleType], ModuleType]:
    def convert(self: ModuleType) -> ModuleType:
        return self._apply(lambda t: t.to(target) if t.is_floating_point() else t)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"Convert floating parameters and buffers to {target.name}."
    return convert


to_float = _floating_conversion("to_float", dtypes.float32)
to_double = _floating_conversion("to_double", dtypes.float64)
to_half = _floating_conversion("to_half", dtypes.float16)
to_bfloat16 = _floating_conversion("to_bfloat16", dtypes.bfloat16)


def to_type(self: ModuleType, dst_type: DtypeLike) -> ModuleType:
    """Convert all parameters and buffers as `Tensor.type` does, integers too."""
    return self._apply(lambda t: t.type(dst_type))


def to_empty(self: ModuleType, *, device: DeviceLike, recurse: bool = True) -> ModuleType:
    """Replace the parameters and buffers by uninitialized ones, here and, by default, in all parts."""
    return self._apply(partial(empty_like, device=device), recurse)


def to_accelerator(self: ModuleType, device: DeviceLike = None) -> ModuleType:
    """Raise RuntimeError, unless CUDA means the CPU: there is no other device."""
    require_cpu("cuda" if device is None else device)
    return to_cpu(self)


def share_memory(self: ModuleType) -> ModuleType:
    """Let other processes see the parameters and buffers. Raises RuntimeError where one has no shape yet."""
    for tensor in (*self.parameters(), *self.buffers()):
        if type(tensor).share_memory_ is not Tensor.share_memory_:
            tensor.share_memory_()
    return self._apply(lambda t: t.share_memory_())


def to_cpu(self: ModuleType) -> ModuleType:
    """Return the module, which is on the CPU. Raises NotImplementedError for one without values."""
    return self._apply(partial(_move_to_device, device="cpu") if nondefault.meta_tensors else _keep_tensor)


def convert_tensors(self: ModuleType, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ModuleType:
    """Replace the values of all parameters and their gradients, and all buffers, by `fn` of them, the parts' first.

    Each part does so by its own `_apply`, which may bring along what else it holds.
    """
    if recurse:
        for child in self.children():
            child._apply(fn)
    with ModeScope(recording=False):
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            grad = parameter._grad
            _replace_values(parameter, fn)
            if grad is not None:
                _replace_values(grad, fn)
        for name, buffer in self._buffers.items():
            made = None if buffer is None else fn(buffer)
            if made is not buffer:
                setattr(self, name, made)
    return self


def _replace_values(tensor: Tensor, fn: Callable[[Tensor], Tensor]) -> None:
    value = tensor.detach()
    made = fn(value)
    if made is not value:
        tensor.data = made


def _move_to_device(tensor: Tensor, device: DeviceLike) -> Tensor:
    if type(tensor.array) is MetaArray and not is_meta(device):
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
            "torch.nn.Module.to() when moving module from meta to a different device."
        )
    return move_to_device(tensor, device)


def _keep_tensor(tensor: Tensor) -> Tensor:
    return tensor
