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
from adjoint.interop.array_api.operands import in_type, together
from adjoint.interop.numpy.ufuncs import tensor_of
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.movement import movement

TABLE: dict[str, Callable[..., Any]] = {}


def _numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Note a function as the counterpart of NumPy's of the same name."""
    TABLE[function.__name__] = function
    return function


def alike(given: Sequence[Any]) -> list[Tensor]:
    """Tensors of one type, of tensors, arrays and numbers."""
    return list(together("NumPy's function", *map(tensor_of, given)))


@_numpy
def shape(a: Any) -> tuple[int, ...]:
    return tuple(a.shape)


@_numpy
def ndim(a: Any) -> int:
    return int(a.ndim)


@_numpy
def size(a: Any, axis: int | None = None) -> int:
    return int(a.numel() if axis is None else a.shape[axis])


@_numpy
def concatenate(arrays: Any, /, axis: int | None = 0, *, dtype: Any = None) -> Any:
    out = manipulation.concat(alike(arrays), axis=axis)
    return out if dtype is None else dtype_conversion.to(out, np.dtype(dtype))


@_numpy
def stack(arrays: Any, axis: int = 0) -> Any:
    return join.stack(alike(arrays), axis)


@_numpy
def vstack(tup: Any) -> Any:
    return join.vstack(alike(tup))


@_numpy
def hstack(tup: Any) -> Any:
    return join.hstack(alike(tup))


@_numpy
def dstack(tup: Any) -> Any:
    return rearrange.dstack(alike(tup))


@_numpy
def column_stack(tup: Any) -> Any:
    return rearrange.column_stack(alike(tup))


@_numpy
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    return manipulation.concat(alike([arr, values]), axis=axis)


@_numpy
def reshape(a: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    return manipulation.reshape(a, (shape,) if isinstance(shape, int) else tuple(shape), copy=copy)


@_numpy
def ravel(a: Any) -> Any:
    return shapes.ravel(a)


@_numpy
def transpose(a: Any, axes: Any = None) -> Any:
    return shapes.permute(a, tuple(reversed(range(a.ndim))) if axes is None else tuple(axes))


@_numpy
def matrix_transpose(x: Any, /) -> Any:
    return movement.swap(x, -2, -1)


@_numpy
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    return shapes.movedim(a, source, destination)


@_numpy
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    return shapes.transpose(a, axis1, axis2)


@_numpy
def expand_dims(a: Any, axis: Any) -> Any:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = a.ndim + len(axes)
    for d in sorted(d % rank for d in axes):
        a = shapes.unsqueeze(a, d)
    return a


@_numpy
def squeeze(a: Any, axis: Any = None) -> Any:
    return shapes.squeeze(a) if axis is None else manipulation.squeeze(a, axis)


@_numpy
def broadcast_to(array: Any, shape: Any) -> Any:
    return manipulation.broadcast_to(array, (shape,) if isinstance(shape, int) else tuple(shape))


@_numpy
def broadcast_arrays(*args: Any) -> Any:
    tensors = [tensor_of(x) for x in args]
    common = broadcast_shapes(*[x.array.shape for x in tensors])
    return tuple(movement.expand(x, shape=common) for x in tensors)


@_numpy
def tile(A: Any, reps: Any) -> Any:
    return join.tile(A, (reps,) if isinstance(reps, int) else tuple(reps))


@_numpy
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    counts = repeats if isinstance(repeats, int) else tensor_of(np.asarray(repeats))
    return manipulation.repeat(a, counts, axis=axis)


@_numpy
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    return manipulation.roll(a, shift, axis=axis)


@_numpy
def flip(m: Any, axis: Any = None) -> Any:
    return manipulation.flip(m, axis=axis)


@_numpy
def fliplr(m: Any) -> Any:
    return rearrange.fliplr(m)


@_numpy
def flipud(m: Any) -> Any:
    return rearrange.flipud(m)


@_numpy
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    return rearrange.rot90(m, k, axes)


@_numpy
def atleast_1d(*arys: Any) -> Any:
    return rearrange.atleast_1d(*map(tensor_of, arys))


@_numpy
def atleast_2d(*arys: Any) -> Any:
    return rearrange.atleast_2d(*map(tensor_of, arys))


@_numpy
def atleast_3d(*arys: Any) -> Any:
    return rearrange.atleast_3d(*map(tensor_of, arys))


@_numpy
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return list(sections.tensor_split(ary, indices_or_sections, axis))


@_numpy
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    if isinstance(indices_or_sections, int) and ary.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


@_numpy
def unstack(x: Any, /, *, axis: int = 0) -> Any:
    return manipulation.unstack(x, axis=axis)


@_numpy
def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    if mode != "constant" or np.ndim(constant_values):
        raise NotImplementedError(
            "np.pad of a tensor: only mode='constant', with one number; others: nn.functional.pad"
        )
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    return movement.pad(array, widths=tuple(map(tuple, widths)), value=constant_values)


@_numpy
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    truth = in_type(tensor_of(condition), np.dtype(np.bool_))
    return (
        gather.nonzero(truth, as_tuple=True) if x is None else searching.where(truth, *map(_number_or_tensor, (x, y)))
    )


def _number_or_tensor(x: Any) -> Any:
    return x if isinstance(x, (bool, int, float, complex)) else tensor_of(x)


@_numpy
def nonzero(a: Any) -> Any:
    return gather.nonzero(a, as_tuple=True)


@_numpy
def take(a: Any, indices: Any, axis: int | None = None) -> Any:
    flat = shapes.ravel(a) if axis is None else a
    return searching.take(
        flat, tensor_of(np.asarray(indices)) if not isinstance(indices, Tensor) else indices, axis=axis or 0
    )


@_numpy
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    flat, at = (arr, tensor_of(indices)) if axis is not None else (shapes.ravel(arr), shapes.ravel(tensor_of(indices)))
    return searching.take_along_axis(flat, at, axis=0 if axis is None else axis)


@_numpy
def tril(m: Any, k: int = 0) -> Any:
    return gather.tril(m, k)


@_numpy
def triu(m: Any, k: int = 0) -> Any:
    return gather.triu(m, k)


@_numpy
def diag(v: Any, k: int = 0) -> Any:
    return rearrange.diag(v, k)


@_numpy
def diagflat(v: Any, k: int = 0) -> Any:
    return rearrange.diagflat(v, k)


@_numpy
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return as_strided.diagonal(a, offset, axis1, axis2)


@_numpy
def meshgrid(*xi: Any, indexing: str = "xy") -> Any:
    return tuple(standard.meshgrid(*map(tensor_of, xi), indexing=indexing))


@_numpy
def copy(a: Any) -> Any:
    return select.copy(a)


@_numpy
def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
    return dtype_conversion.to(x, np.dtype(dtype), copy=copy)


@_numpy
def zeros_like(a: Any, dtype: Any = None) -> Any:
    return made.zeros_like(a, dtype=None if dtype is None else as_dtype(dtype))


@_numpy
def ones_like(a: Any, dtype: Any = None) -> Any:
    return made.ones_like(a, dtype=None if dtype is None else as_dtype(dtype))


@_numpy
def empty_like(prototype: Any, dtype: Any = None) -> Any:
    return zeros_like(prototype, dtype)


@_numpy
def full_like(a: Any, fill_value: Any, dtype: Any = None) -> Any:
    return made.full_like(a, fill_value, dtype=None if dtype is None else as_dtype(dtype))


@_numpy
def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    out = tensor_of(a)
    out = out if low is None else arithmetic.maximum(out, low)
    return out if high is None else arithmetic.minimum(out, high)


@_numpy
def round(a: Any, decimals: int = 0) -> Any:
    return pointwise.round(a, decimals=decimals)


TABLE["around"] = round


@_numpy
def fix(x: Any) -> Any:
    return pointwise.trunc(x)


@_numpy
def real(val: Any) -> Any:
    return parts.real(val)


@_numpy
def imag(val: Any) -> Any:
    return parts.imag(val)


@_numpy
def angle(z: Any, deg: bool = False) -> Any:
    found: Any = z.angle()
    return float_functions.rad2deg(found) if deg else found


@_numpy
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return float_functions.nan_to_num(x, nan, posinf, neginf)


@_numpy
def sinc(x: Any) -> Any:
    return float_functions.sinc(x)


@_numpy
def i0(x: Any) -> Any:
    return float_functions.i0(x)


@_numpy
def isposinf(x: Any) -> Any:
    return float_functions.isposinf(x)


@_numpy
def isneginf(x: Any) -> Any:
    return float_functions.isneginf(x)


@_numpy
def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    x, y = alike([a, b])
    return allclose.isclose(x, y, rtol, atol, equal_nan)
