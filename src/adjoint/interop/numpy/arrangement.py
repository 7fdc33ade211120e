"""NumPy's functions that make, move, join and choose elements, under NumPy's signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import as_dtype
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation import creation as made
from adjoint.functions.elementwise import allclose, dtype_conversion, float_functions, pointwise
from adjoint.functions.elementwise import complex as parts
from adjoint.functions.indexing import gather
from adjoint.functions.shape import as_strided, join, rearrange
from adjoint.functions.shape import shape as shapes
from adjoint.functions.shape import split as sections
from adjoint.interop.array_api import creation as standard
from adjoint.interop.array_api import manipulation, searching
from adjoint.interop.array_api.operands import cast_to, promote_operands
from adjoint.interop.numpy.ufuncs import tensor_of
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.movement import movement

TABLE: dict[str, Callable[..., Any]] = {}


def _register(function: Callable[..., Any]) -> Callable[..., Any]:
    """Note a function as the counterpart of NumPy's of the same name."""
    TABLE[function.__name__] = function
    return function


def as_common_tensors(given: Sequence[Any]) -> list[Tensor]:
    """Tensors of one type, of tensors, arrays and numbers."""
    return list(promote_operands("NumPy's function", *map(tensor_of, given)))


@_register
def shape(a: Any) -> tuple[int, ...]:
    return tuple(a.shape)


@_register
def ndim(a: Any) -> int:
    return int(a.ndim)


@_register
def size(a: Any, axis: int | None = None) -> int:
    return int(a.numel() if axis is None else a.shape[axis])


@_register
def concatenate(arrays: Any, /, axis: int | None = 0, *, dtype: Any = None) -> Any:
    out = manipulation.concat(as_common_tensors(arrays), axis=axis)
    return out if dtype is None else dtype_conversion.to(out, np.dtype(dtype))


@_register
def stack(arrays: Any, axis: int = 0) -> Any:
    return join.stack(as_common_tensors(arrays), axis)


@_register
def vstack(tup: Any) -> Any:
    return join.vstack(as_common_tensors(tup))


@_register
def hstack(tup: Any) -> Any:
    return join.hstack(as_common_tensors(tup))


@_register
def dstack(tup: Any) -> Any:
    return rearrange.dstack(as_common_tensors(tup))


@_register
def column_stack(tup: Any) -> Any:
    return rearrange.column_stack(as_common_tensors(tup))


@_register
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    return manipulation.concat(as_common_tensors([arr, values]), axis=axis)


@_register
def reshape(a: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    return manipulation.reshape(a, (shape,) if isinstance(shape, int) else tuple(shape), copy=copy)


@_register
def ravel(a: Any) -> Any:
    return shapes.ravel(a)


@_register
def transpose(a: Any, axes: Any = None) -> Any:
    return shapes.permute(a, tuple(reversed(range(a.ndim))) if axes is None else tuple(axes))


@_register
def matrix_transpose(x: Any, /) -> Any:
    return movement.swap(x, -2, -1)


@_register
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    return shapes.movedim(a, source, destination)


@_register
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    return shapes.transpose(a, axis1, axis2)


@_register
def expand_dims(a: Any, axis: Any) -> Any:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = a.ndim + len(axes)
    for d in sorted(d % rank for d in axes):
        a = shapes.unsqueeze(a, d)
    return a


@_register
def squeeze(a: Any, axis: Any = None) -> Any:
    return shapes.squeeze(a) if axis is None else manipulation.squeeze(a, axis)


@_register
def broadcast_to(array: Any, shape: Any) -> Any:
    return manipulation.broadcast_to(array, (shape,) if isinstance(shape, int) else tuple(shape))


@_register
def broadcast_arrays(*args: Any) -> Any:
    tensors = [tensor_of(x) for x in args]
    common = broadcast_shapes(*[x.array.shape for x in tensors])
    return tuple(movement.expand(x, shape=common) for x in tensors)


@_register
def tile(A: Any, reps: Any) -> Any:
    return join.tile(A, (reps,) if isinstance(reps, int) else tuple(reps))


@_register
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    counts = repeats if isinstance(repeats, int) else tensor_of(np.asarray(repeats))
    return manipulation.repeat(a, counts, axis=axis)


@_register
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    return manipulation.roll(a, shift, axis=axis)


@_register
def flip(m: Any, axis: Any = None) -> Any:
    return manipulation.flip(m, axis=axis)


@_register
def fliplr(m: Any) -> Any:
    return rearrange.fliplr(m)


@_register
def flipud(m: Any) -> Any:
    return rearrange.flipud(m)


@_register
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    return rearrange.rot90(m, k, axes)


@_register
def atleast_1d(*arys: Any) -> Any:
    return rearrange.atleast_1d(*map(tensor_of, arys))


@_register
def atleast_2d(*arys: Any) -> Any:
    return rearrange.atleast_2d(*map(tensor_of, arys))


@_register
def atleast_3d(*arys: Any) -> Any:
    return rearrange.atleast_3d(*map(tensor_of, arys))


@_register
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return list(sections.tensor_split(ary, indices_or_sections, axis))


@_register
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    if isinstance(indices_or_sections, int) and ary.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


@_register
def unstack(x: Any, /, *, axis: int = 0) -> Any:
    return manipulation.unstack(x, axis=axis)


@_register
def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    if mode != "constant" or np.ndim(constant_values):
        raise NotImplementedError(
            "np.pad of a tensor: only mode='constant', with one number; others: nn.functional.pad"
        )
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    return movement.pad(array, widths=tuple(map(tuple, widths)), value=constant_values)


@_register
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    truth = cast_to(tensor_of(condition), np.dtype(np.bool_))
    return (
        gather.nonzero(truth, as_tuple=True) if x is None else searching.where(truth, *map(_number_or_tensor, (x, y)))
    )


def _number_or_tensor(x: Any) -> Any:
    return x if isinstance(x, (bool, int, float, complex)) else tensor_of(x)


@_register
def nonzero(a: Any) -> Any:
    return gather.nonzero(a, as_tuple=True)


@_register
def take(a: Any, indices: Any, axis: int | None = None) -> Any:
    flat = shapes.ravel(a) if axis is None else a
    return searching.take(
        flat, tensor_of(np.asarray(indices)) if not isinstance(indices, Tensor) else indices, axis=axis or 0
    )


@_register
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    flat, at = (arr, tensor_of(indices)) if axis is not None else (shapes.ravel(arr), shapes.ravel(tensor_of(indices)))
    return searching.take_along_axis(flat, at, axis=0 if axis is None else axis)


@_register
def tril(m: Any, k: int = 0) -> Any:
    return gather.tril(m, k)


@_register
def triu(m: Any, k: int = 0) -> Any:
    return gather.triu(m, k)


@_register
def diag(v: Any, k: int = 0) -> Any:
    return rearrange.diag(v, k)


@_register
def diagflat(v: Any, k: int = 0) -> Any:
    return rearrange.diagflat(v, k)


@_register
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return as_strided.diagonal(a, offset, axis1, axis2)


@_register
def meshgrid(*xi: Any, indexing: str = "xy") -> Any:
    return tuple(standard.meshgrid(*map(tensor_of, xi), indexing=indexing))


@_register
def copy(a: Any) -> Any:
    return select.copy(a)


@_register
def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
    return dtype_conversion.to(x, np.dtype(dtype), copy=copy)


@_register
def zeros_like(a: Any, dtype: Any = None) -> Any:
    return made.zeros_like(a, dtype=None if dtype is None else as_dtype(dtype))


@_register
def ones_like(a: Any, dtype: Any = None) -> Any:
    return made.ones_like(a, dtype=None if dtype is None else as_dtype(dtype))


@_register
def empty_like(prototype: Any, dtype: Any = None) -> Any:
    return zeros_like(prototype, dtype)


@_register
def full_like(a: Any, fill_value: Any, dtype: Any = None) -> Any:
    return made.full_like(a, fill_value, dtype=None if dtype is None else as_dtype(dtype))


@_register
def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    out = tensor_of(a)
    out = out if low is None else arithmetic.maximum(out, low)
    return out if high is None else arithmetic.minimum(out, high)


@_register
def round(a: Any, decimals: int = 0) -> Any:
    return pointwise.round(a, decimals=decimals)


TABLE["around"] = round


@_register
def fix(x: Any) -> Any:
    return pointwise.trunc(x)


@_register
def real(val: Any) -> Any:
    return parts.real(val)


@_register
def imag(val: Any) -> Any:
    return parts.imag(val)


@_register
def angle(z: Any, deg: bool = False) -> Any:
    found: Any = z.angle()
    return float_functions.rad2deg(found) if deg else found


@_register
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return float_functions.nan_to_num(x, nan, posinf, neginf)


@_register
def sinc(x: Any) -> Any:
    return float_functions.sinc(x)


@_register
def i0(x: Any) -> Any:
    return float_functions.i0(x)


@_register
def isposinf(x: Any) -> Any:
    return float_functions.isposinf(x)


@_register
def isneginf(x: Any) -> Any:
    return float_functions.isneginf(x)


@_register
def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    x, y = as_common_tensors([a, b])
    return allclose.isclose(x, y, rtol, atol, equal_nan)
