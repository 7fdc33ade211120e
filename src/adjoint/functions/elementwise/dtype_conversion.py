"""Other element types, and values written as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any, cast

import numpy as np

from adjoint.core.dtype import dtype as dtypes
from adjoint.core.dtype.device import CPU, device, require_cpu
from adjoint.core.dtype.dtype import numpy_dtype
from adjoint.core.graph.source_location import warn_user
from adjoint.core.tensor.memory_format import memory_format, preserve_format
from adjoint.core.tensor.meta import MetaArray
from adjoint.core.tensor.shape_tracer import device_like, move_to_device
from adjoint.core.tensor.tensor import Tensor, method, strided_stand_in
from adjoint.core.typing import DeviceLike, DtypeLike, Function, Operand, ShapeLike
from adjoint.functions.api.memory_format import dim_order_for_copy
from adjoint.functions.api.quiet_write import mark_quiet_write, quiet_array
from adjoint.functions.creation import creation
from adjoint.functions.elementwise.pointwise import clone
from adjoint.functions.shape.shape import contiguous, expand
from adjoint.ops.elementwise import select
from adjoint.ops.movement.memory_format import copy_in_order, is_channels_last
from adjoint.ops.mutation.inplace import content_of, write_in_place

__all__: list[str] = []
MAX_QUICK_FILL = 3e38  # which float32 holds


@method
def to(
    self: Tensor,
    *args: Any,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    copy: bool = False,
    non_blocking: bool = False,
    memory_format: memory_format | None = None,
) -> Tensor:
    """Return the tensor in another dtype or on another device; itself if nothing changes.

    Args:
        *args: a dtype, a device, both, or a tensor that has them.
        dtype: element type. Default: unchanged.
        device: "cpu", or "meta" for a tensor without elements. Default: unchanged.
        copy: True to copy even if nothing changes. Default: False.
        non_blocking: ignored.
        memory_format: order of the elements in memory. Default: that of this tensor.

    Raises: DeviceError, a RuntimeError, for other devices; NotImplementedError from "meta" to "cpu".

    Example:
        >>> ad.tensor([1.7, -1.7]).to(ad.int64)
        tensor([ 1, -1])
    """
    for given in args:
        if isinstance(given, Tensor):
            dtype, device = given.dtype, given.device
        elif isinstance(given, (str, _Device)) or type(given) is int:
            device = given
        elif not isinstance(given, bool):
            dtype = given
    if device is not None:
        self = move_to_device(self, device)
    if dtype is None or numpy_dtype(dtype) == self.array.dtype:
        out = clone(self) if copy else self
    else:
        target = numpy_dtype(dtype)
        if self.array.dtype.kind == "c" and target.kind not in "cb":
            warn_user("Casting complex values to real discards the imaginary part", UserWarning)
        out = select.cast(self, dtype=target)
    return out if memory_format in (None, preserve_format) else _apply_memory_format(out, memory_format)


def _apply_memory_format(x: Tensor, memory_format: memory_format) -> Tensor:
    """Return x, or a copy unless it has that order; for sizes of 1 the strides of their dimensions decide."""
    order, last = dim_order_for_copy(x, memory_format), is_channels_last(strided_stand_in(x))
    if order:
        return x if last else copy_in_order(x, order=order)
    return select.copy(x) if last else contiguous(x)


_Device = device


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Return the tensor in the dtype of `other`."""
    return to(self, other.dtype)


@method
def cpu(self: Tensor) -> Tensor:
    """Return the tensor itself: it is on the CPU. Raises NotImplementedError for one without values."""
    return self if type(self.array) is not MetaArray else move_to_device(self, CPU)


def _other_device(name: str) -> None:
    def move(
        self: Tensor, device: DeviceLike = None, non_blocking: bool = False, memory_format: memory_format | None = None
    ) -> Tensor:
        require_cpu(name)
        return to(self, name if device is None else device, memory_format=memory_format)

    move.__name__ = name
    move.__doc__ = "Raise DeviceError; return the tensor where these devices mean the CPU."
    method(move)


_other_device("cuda")
_other_device("xpu")


def add_cast_method(name: str, kind: dtypes.dtype) -> None:
    """Give tensors a method that converts them to one type."""

    def convert(self: Tensor, memory_format: memory_format | None = None) -> Tensor:
        if memory_format is None and dtypes.DTYPES.get(self.array.dtype) is kind:
            return self
        return to(self, kind, memory_format=memory_format)

    convert.__name__ = name
    convert.__doc__ = f"The tensor as {kind.name}."
    method(convert)


for _name, _kind in {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
}.items():
    add_cast_method(_name, _kind)


@method
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Write the values of `src`, a tensor or a number, broadcast and converted, into this tensor.

    Raises: TypeError for anything else.
    """
    if not isinstance(src, Tensor):
        if not isinstance(src, Number):
            raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
        src = creation.tensor(src)
    array, values = quiet_array(self, src), src.array
    if array is not None and type(values) is np.ndarray and values.shape == array.shape and values.dtype is array.dtype:
        array[...] = values
        mark_quiet_write(self, array)
        return self
    out = src if values.dtype == self.array.dtype else select.cast(src, dtype=self.array.dtype)
    if out.array.shape != self.array.shape:
        out = expand(out, self.array.shape)
    return write_in_place(self, content_of(out, self), "copy_")


@method
def fill_(self: Tensor, value: Tensor | float) -> Tensor:
    """Write one value into every element."""
    if isinstance(value, Tensor):
        return copy_(self, value)
    array = quiet_array(self) if type(value) in (int, float) and -MAX_QUICK_FILL < value < MAX_QUICK_FILL else None
    if array is not None and array.dtype.kind == "f" and array.itemsize >= 4:
        array.fill(value)
        mark_quiet_write(self, array)
        return self
    return write_in_place(self, creation.full_like(self, value), "fill_")


@method
def zero_(self: Tensor) -> Tensor:
    """Write zeros."""
    array = quiet_array(self)
    if array is None or array.dtype.kind not in "fiub":
        return fill_(self, 0)
    array.fill(0)
    mark_quiet_write(self, array)
    return self


def _add_new_filled_method(fill: Function) -> None:
    def new(
        self: Tensor,
        *size: ShapeLike,
        dtype: DtypeLike = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
        layout: object = None,
        pin_memory: bool = False,
        **named: object,
    ) -> Tensor:
        dtype, device = dtype or self.dtype, device_like(self, device)
        return cast("Tensor", fill(*size, dtype=dtype, device=device, requires_grad=requires_grad, **named))

    new.__name__ = f"new_{fill.__name__}"
    new.__doc__ = f"Return {fill.__name__} of this dtype."
    method(new)


_add_new_filled_method(creation.zeros)
_add_new_filled_method(creation.ones)


@method
def new_full(
    self: Tensor,
    size: int | Sequence[int],
    fill_value: Operand,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: object = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return one value, of this dtype."""
    return creation.full(
        size, fill_value, dtype=dtype or self.dtype, device=device_like(self, device), requires_grad=requires_grad
    )


@method
def new_tensor(
    self: Tensor,
    data: Operand,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: object = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return a copy of `data` in this dtype."""
    return creation.tensor(
        data, dtype=dtype or self.dtype, device=device_like(self, device), requires_grad=requires_grad
    )
