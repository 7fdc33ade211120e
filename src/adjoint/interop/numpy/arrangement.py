"""NumPy's functions that make, move, join and choose elements, under NumPy's signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import as_dtype, dtype
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DtypeLike, Function, Operand
from adjoint.functions.creation import creation
from adjoint.functions.elementwise import allclose, dtype_conversion, float_functions, pointwise
from adjoint.functions.elementwise import complex as parts
from adjoint.functions.indexing import masked_nonzero
from adjoint.functions.shape import diag_tril, flip_roll, join
from adjoint.functions.shape import repeat as repetition
from adjoint.functions.shape import shape as shapes
from adjoint.functions.shape import split as sections
from adjoint.interop.array_api import creation as standard
from adjoint.interop.array_api import manipulation, searching
from adjoint.interop.array_api.operands import cast_to, promote_operands
from adjoint.interop.numpy.ufuncs import tensor_of
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.movement import movement


def as_common_tensors(operands: Sequence[Operand]) -> list[Tensor]:
    """Convert tensors, arrays and numbers to tensors of one type."""
    return list(promote_operands("NumPy's function", *map(tensor_of, operands)))


def as_dtype_or_none(dtype: DtypeLike) -> dtype | None:
    """Convert `dtype=` of a NumPy call, which may be absent."""
    return None if dtype is None else as_dtype(dtype)


def as_sizes(shape: Any) -> tuple[int, ...]:
    """Convert one size or a sequence of them."""
    return (shape,) if isinstance(shape, int) else tuple(shape)


def register(*tables: dict[str, Function]) -> Callable[[Function], Function]:
    """Enter a function into tables, as the counterpart of NumPy's of the same name."""

    def enter(function: Function) -> Function:
        for table in tables:
            table[function.__name__] = function
        return function

    return enter


TABLE: dict[str, Function] = {
    "shape": lambda a: tuple(a.shape),
    "ndim": lambda a: int(a.ndim),
    "size": lambda a, axis=None: int(a.numel() if axis is None else a.shape[axis]),
    "stack": lambda arrays, axis=0: join.stack(as_common_tensors(arrays), axis),
    "vstack": lambda tup: join.vstack(as_common_tensors(tup)),
    "hstack": lambda tup: join.hstack(as_common_tensors(tup)),
    "dstack": lambda tup: join.dstack(as_common_tensors(tup)),
    "column_stack": lambda tup: join.column_stack(as_common_tensors(tup)),
    "append": lambda arr, values, axis=None: manipulation.concat(as_common_tensors([arr, values]), axis=axis),
    "reshape": lambda a, /, shape, *, copy=None: manipulation.reshape(a, as_sizes(shape), copy=copy),
    "ravel": lambda a: shapes.ravel(a),
    "transpose": lambda a, axes=None: shapes.permute(a, tuple(range(a.ndim))[::-1] if axes is None else tuple(axes)),
    "matrix_transpose": lambda x, /: movement.swap(x, -2, -1),
    "moveaxis": lambda a, source, destination: shapes.movedim(a, source, destination),
    "swapaxes": lambda a, axis1, axis2: shapes.transpose(a, axis1, axis2),
    "squeeze": lambda a, axis=None: shapes.squeeze(a) if axis is None else manipulation.squeeze(a, axis),
    "broadcast_to": lambda array, shape: manipulation.broadcast_to(array, as_sizes(shape)),
    "tile": lambda A, reps: repetition.tile(A, as_sizes(reps)),
    "roll": lambda a, shift, axis=None: manipulation.roll(a, shift, axis=axis),
    "flip": lambda m, axis=None: manipulation.flip(m, axis=axis),
    "fliplr": lambda m: flip_roll.fliplr(m),
    "flipud": lambda m: flip_roll.flipud(m),
    "rot90": lambda m, k=1, axes=(0, 1): flip_roll.rot90(m, k, axes),
    "atleast_1d": lambda *arys: join.atleast_1d(*map(tensor_of, arys)),
    "atleast_2d": lambda *arys: join.atleast_2d(*map(tensor_of, arys)),
    "atleast_3d": lambda *arys: join.atleast_3d(*map(tensor_of, arys)),
    "array_split": lambda ary, indices_or_sections, axis=0: _array_split(ary, indices_or_sections, axis),
    "unstack": lambda x, /, *, axis=0: manipulation.unstack(x, axis=axis),
    "nonzero": lambda a: masked_nonzero.nonzero(a, as_tuple=True),
    "tril": lambda m, k=0: diag_tril.tril(m, k),
    "triu": lambda m, k=0: diag_tril.triu(m, k),
    "diag": lambda v, k=0: diag_tril.diag(v, k),
    "diagflat": lambda v, k=0: diag_tril.diagflat(v, k),
    "diagonal": lambda a, offset=0, axis1=0, axis2=1: diag_tril.diagonal(a, offset, axis1, axis2),
    "meshgrid": lambda *xi, indexing="xy": tuple(standard.meshgrid(*map(tensor_of, xi), indexing=indexing)),
    "copy": lambda a: select.copy(a),
    "astype": lambda x, dtype, /, *, copy=True: dtype_conversion.to(x, np.dtype(dtype), copy=copy),
    "zeros_like": lambda a, dtype=None: creation.zeros_like(a, dtype=as_dtype_or_none(dtype)),
    "ones_like": lambda a, dtype=None: creation.ones_like(a, dtype=as_dtype_or_none(dtype)),
    "empty_like": lambda prototype, dtype=None: creation.zeros_like(prototype, dtype=as_dtype_or_none(dtype)),
    "full_like": lambda a, fill_value, dtype=None: creation.full_like(a, fill_value, dtype=as_dtype_or_none(dtype)),
    "round": lambda a, decimals=0: pointwise.round(a, decimals=decimals),
    "around": lambda a, decimals=0: pointwise.round(a, decimals=decimals),
    "fix": lambda x: pointwise.trunc(x),
    "real": lambda val: parts.real(val),
    "imag": lambda val: parts.imag(val),
    "angle": lambda z, deg=False: float_functions.rad2deg(parts.angle(z)) if deg else parts.angle(z),
    "sinc": lambda x: float_functions.sinc(x),
    "i0": lambda x: float_functions.i0(x),
    "isposinf": lambda x: float_functions.isposinf(x),
    "isneginf": lambda x: float_functions.isneginf(x),
}


@register(TABLE)
def concatenate(arrays: Sequence[Tensor], /, axis: int | None = 0, *, dtype: Any = None) -> Tensor:
    out = manipulation.concat(as_common_tensors(arrays), axis=axis)
    return out if dtype is None else dtype_conversion.to(out, np.dtype(dtype))


@register(TABLE)
def expand_dims(a: Operand, axis: Any) -> Any:
    axes = as_sizes(axis)
    rank = a.ndim + len(axes)
    for d in sorted(d % rank for d in axes):
        a = shapes.unsqueeze(a, d)
    return a


@register(TABLE)
def broadcast_arrays(*args: Any) -> tuple[Tensor, Tensor]:
    tensors = [tensor_of(x) for x in args]
    shape = broadcast_shapes(*[x.array.shape for x in tensors])
    return tuple(movement.expand(x, shape=shape) for x in tensors)


@register(TABLE)
def repeat(a: Operand, repeats: Any, axis: int | None = None) -> Any:
    counts = repeats if isinstance(repeats, int) else tensor_of(np.asarray(repeats))
    return manipulation.repeat(a, counts, axis=axis)


def _array_split(ary: Any, indices_or_sections: Any, axis: int) -> list[Any]:
    return list(sections.tensor_split(ary, indices_or_sections, axis))


@register(TABLE)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    if isinstance(indices_or_sections, int) and ary.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return _array_split(ary, indices_or_sections, axis)


@register(TABLE)
def pad(array: Operand, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    if mode != "constant" or np.ndim(constant_values):
        raise NotImplementedError(
            "np.pad of a tensor: only mode='constant', with one number; others: nn.functional.pad"
        )
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    return movement.pad(array, widths=tuple(map(tuple, widths)), value=constant_values)


@register(TABLE)
def where(condition: Operand, x: Operand = None, y: Operand = None, /) -> Any:
    mask = cast_to(tensor_of(condition), np.dtype(np.bool_))
    if x is None:
        return masked_nonzero.nonzero(mask, as_tuple=True)
    return searching.where(mask, *[v if isinstance(v, (bool, int, float, complex)) else tensor_of(v) for v in (x, y)])


@register(TABLE)
def take(a: Tensor, indices: Operand, axis: int | None = None) -> Tensor:
    positions = indices if isinstance(indices, Tensor) else tensor_of(np.asarray(indices))
    return searching.take(shapes.ravel(a) if axis is None else a, positions, axis=axis or 0)


@register(TABLE)
def take_along_axis(arr: Any, indices: Operand, axis: int | None = -1) -> Any:
    if axis is None:
        return searching.take_along_axis(shapes.ravel(arr), shapes.ravel(tensor_of(indices)), axis=0)
    return searching.take_along_axis(arr, tensor_of(indices), axis=axis)


@register(TABLE)
def clip(a: Operand, a_min: Operand = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Tensor:
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    out = tensor_of(a)
    out = out if low is None else arithmetic.maximum(out, low)
    return out if high is None else arithmetic.minimum(out, high)


@register(TABLE)
def nan_to_num(x: Operand, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return float_functions.nan_to_num(x, nan, posinf, neginf)


@register(TABLE)
def isclose(a: Operand, b: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    x, y = as_common_tensors([a, b])
    return allclose.isclose(x, y, rtol, atol, equal_nan)
