"""Older names of dtypes and constructors: `FloatTensor`, `Tensor.type`, `Tensor.new`."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from adjoint.core.dtype import dtype as dtypes
from adjoint.core.dtype.device import cuda_devices
from adjoint.core.dtype.device import device as Device
from adjoint.core.dtype.dtype import as_dtype, default
from adjoint.core.runtime.package_name import display_name
from adjoint.core.tensor.tensor import Tensor, method
from adjoint.functions.api.dim_args import parse_shape
from adjoint.functions.creation import creation
from adjoint.functions.creation.typed_storage import UntypedStorage
from adjoint.functions.elementwise import dtype_conversion

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


class LegacyTensorType(type):
    """Metaclass of typed constructors: a tensor is an instance of the one of its dtype."""

    dtype: dtypes.dtype

    def __new__(cls, name: str, bases: tuple[Any, ...], fields: dict[str, Any]) -> Any:
        """Raise TypeError for a class that is derived from one of these."""
        if bases:
            raise TypeError(f"type '{display_name.package}.{bases[0].__name__}' is not an acceptable base type")
        return super().__new__(cls, name, bases, fields)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype

    def __call__(cls, *data: Any, device: Any = None) -> Tensor:
        """Return zeros of the given sizes, a copy of data, or a tensor over the memory of a tensor or storage."""
        check_legacy_device(device)
        return _construct_legacy_tensor(data, cls.dtype)


def check_legacy_device(device: Any) -> None:
    """Raise RuntimeError for a device other than the CPU, and what means it."""
    if device is not None and Device(device).type != "cpu" and not cuda_devices.has(Device(device).type):
        raise RuntimeError(
            f"legacy constructor expects device type: cpu but device type: {Device(device).type} was passed"
        )


def _construct_legacy_tensor(data: tuple[Any, ...], kind: dtypes.dtype) -> Tensor:
    if len(data) > 1 and not all(isinstance(n, (int, np.integer)) for n in data):
        kinds = ", ".join(n.__class__.__name__ for n in data)
        raise TypeError(f"new() received an invalid combination of arguments - got ({kinds})")
    if len(data) == 1 and isinstance(data[0], Tensor):
        if data[0].dtype is not kind:
            raise TypeError(f"expected a tensor of {kind.name} (got one of {data[0].dtype.name})")
        return Tensor(data[0])
    if len(data) == 1 and isinstance(data[0], UntypedStorage):
        return Tensor().to(kind).set_(data[0])
    if len(data) == 1 and not isinstance(data[0], int) and data[0].__class__.__name__ != "Size":
        return creation.tensor(data[0], dtype=kind)
    return creation.zeros(*parse_shape(data), dtype=kind) if data else creation.zeros(0, dtype=kind)


_NAMES = {
    "BFloat16": dtypes.bfloat16,
    "Bool": dtypes.bool_,
    "Byte": dtypes.uint8,
    "Char": dtypes.int8,
    "Double": dtypes.float64,
    "Float": dtypes.float32,
    "Half": dtypes.float16,
    "Int": dtypes.int32,
    "Long": dtypes.int64,
    "Short": dtypes.int16,
    "ComplexFloat": dtypes.complex64,
    "ComplexDouble": dtypes.complex128,
}


def _make_tensor_type(name: str) -> Any:
    kind = _NAMES[name]
    about = f"Zeros of the sizes given, or a copy of data, as {kind.name}; each tensor of that type is an instance."
    fields = {"dtype": kind, "is_cuda": False, "is_sparse": False, "is_xpu": False, "__doc__": about}
    return LegacyTensorType(f"{name}Tensor", (), {**fields, "__module__": "adjoint", "__slots__": ()})


BFloat16Tensor = _make_tensor_type("BFloat16")
BoolTensor, ByteTensor, CharTensor = _make_tensor_type("Bool"), _make_tensor_type("Byte"), _make_tensor_type("Char")
DoubleTensor, FloatTensor, HalfTensor = (
    _make_tensor_type("Double"),
    _make_tensor_type("Float"),
    _make_tensor_type("Half"),
)
IntTensor, LongTensor, ShortTensor = _make_tensor_type("Int"), _make_tensor_type("Long"), _make_tensor_type("Short")


@method
def type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the name of the tensor's type; or the tensor cast to a dtype, a constructor or the name of one."""
    if dtype is None:
        return next(f"{display_name.package}.{name}Tensor" for name, kind in _NAMES.items() if kind is self.dtype)
    return dtype_conversion.to(self, resolve_dtype(dtype))


def resolve_dtype(named: Any) -> dtypes.dtype:
    """Return the dtype of a dtype, a constructor or the name of one. Raises ValueError for another name."""
    if isinstance(named, str):
        name = named.rpartition(".")[2].removesuffix("Tensor")
        if name not in _NAMES and name:
            raise ValueError(f"invalid type: '{named}'")
        return _NAMES.get(name, default.floating)
    if named is Tensor:
        return default.floating
    return named.dtype if isinstance(named, LegacyTensorType) else as_dtype(named)


@method
def new(self: Tensor, *data: Any, size: Any = None, device: Any = None) -> Tensor:
    """Return zeros of the given sizes, or a copy of data, in this tensor's type."""
    check_legacy_device(device)
    if size is not None:
        return creation.zeros(size, dtype=self.dtype)
    return _construct_legacy_tensor(data, self.dtype)


@method
def new_empty(
    self: Tensor,
    *size: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: object = None,
    pin_memory: bool = False,
    **named: Any,
) -> Tensor:
    """Return an uninitialized tensor of this dtype."""
    return creation.empty(*size, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad, **named)


@method
def new_empty_strided(
    self: Tensor,
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: object = None,
    pin_memory: bool = False,
) -> Tensor:
    """Call `empty_strided` with this dtype."""
    from adjoint.functions.shape.as_strided import empty_strided

    return empty_strided(size, stride, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


@method
def apply_(self: Tensor, function: Any) -> Tensor:
    """Replace each element by function(element). Raises RuntimeError for a tensor that requires grad."""
    return _map_elements_inplace("apply_", function, self)


@method
def map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Replace each element by callable(element, y), y the element of `tensor` there. Raises as `apply_` does."""
    return _map_elements_inplace("map_", callable, self, tensor)


@method
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Replace each element by callable(element, x, y), x and y the elements there. Raises as `apply_` does."""
    return _map_elements_inplace("map2_", callable, self, x, y)


def _map_elements_inplace(name: str, function: Any, self: Tensor, *others: Tensor) -> Tensor:
    for x in (self, *others):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}(): expected a tensor, got {x.__class__.__name__}")
        if x.requires_grad:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            )
    array = self.numpy_view(f"{name}()")
    try:
        columns = [
            np.broadcast_to(x.numpy_view(f"{name}()"), array.shape).reshape(-1).tolist() for x in (self, *others)
        ]
    except ValueError as error:
        raise RuntimeError(f"{name}(): {error}") from error
    values = [function(*elements) for elements in zip(*columns, strict=True)]
    wrong = next((v for v in values if not isinstance(v, (Number, Tensor))), None)
    if wrong is not None:
        raise TypeError(f"{name}(): must be real number, not {wrong.__class__.__name__}")
    return dtype_conversion.copy_(self, creation.tensor(np.array(values).reshape(array.shape).astype(array.dtype)))
