"""Moving elements without computing any: each op's gradient is the movement back."""

from __future__ import annotations

import builtins
import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from adjoint.core.op.families import movement_op, primitive
from adjoint.core.op.movement_call import make_movement_call
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.memory_format import sorted_dims
from adjoint.core.tensor.size import range_length
from adjoint.core.typing import Array, Function, Operand, Shape

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

ndarray = np.ndarray


def is_bare(g: Operand) -> bool:
    """Return whether a gradient is an array whose movements nothing watches, so that no op need be called."""
    return type(g) is ndarray and not mode.needs_slow_path


def _name_from_params(params_to_name: dict[str, str], default: str) -> Function:
    def title(node: Any) -> str:
        return params_to_name.get(node.params.get("called", ""), default)

    return title


@movement_op(
    spec=lambda x, *, shape: Spec(shape, x.dtype),
    index=lambda view, *, shape: view.reshape(shape),
    method=np.ndarray.reshape,
    node="ViewBackward0",
    dx=lambda g, x_shape: g.reshape(x_shape) if is_bare(g) else reshape(g, shape=x_shape),
)
def reshape(x: Operand, *, shape: Shape) -> Array:
    """The same elements in row-major order under another shape; a view where the memory allows."""
    return x.reshape(shape)


_reshape_without_view = make_movement_call(op_of(reshape), op_of(reshape).evaluate, False, np.ndarray.reshape)


def reshape_unshared(x: Tensor, shape: Shape) -> Operand:
    """`reshape` of a temporary: the result owns the memory and is no view."""
    return _reshape_without_view(x, shape=shape)


@cache
def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes `axes`."""
    result = [0] * len(axes)
    for i, axis in enumerate(axes):
        result[axis] = i
    return tuple(result)


@movement_op(
    spec=lambda x, *, axes, called="permute": Spec(tuple(x.shape[a] for a in axes), x.dtype),
    index=lambda view, *, axes, called="permute": view.permute(axes),
    method=np.ndarray.transpose,
    node=_name_from_params({"t": "TBackward0", "transpose": "TransposeBackward0"}, "PermuteBackward0"),
    dx=lambda g, axes: g.transpose(inverse(axes)) if is_bare(g) else permute(g, axes=inverse(axes)),
)
def permute(x: Array, *, axes: tuple[int, ...], called: str = "permute") -> Array:
    """Dimension i of the result is dimension `axes[i]` of x. `called`: the name of the user's function."""
    return x.transpose(axes)


def swap(x: Operand, a: int, b: int) -> Tensor:
    """x with dimensions a and b exchanged, counted from the end if negative."""
    return permute(x, axes=exchange(len(x.shape), a, b), called="transpose")


@cache
def reverse_axes(rank: int) -> tuple[int, ...]:
    """The permutation that reverses the order of dimensions."""
    return tuple(range(rank))[::-1]


@cache
def axis_to_end(rank: int, axis: int) -> tuple[int, ...]:
    """The permutation that moves dimension `axis` behind all others."""
    return (*range(axis), *range(axis + 1, rank), axis)


@cache
def exchange(rank: int, a: int, b: int) -> tuple[int, ...]:
    """The permutation that exchanges dimensions a and b of `rank`. Raises IndexError for other dimensions."""
    axes = list(range(rank))
    axes[a], axes[b] = axes[b], axes[a]
    return tuple(axes)


@movement_op(
    spec=lambda x, *, shape: Spec(shape, x.dtype), index=lambda view, *, shape: view.expand(shape), dx=lambda g: g
)
def expand(x: Operand, *, shape: Shape) -> Array:
    """x repeated along new and size-1 dimensions without copying; its gradient is summed by the walk."""
    sizes = x.shape
    strides = _expanded_strides(sizes, x.strides, shape)
    if strides is None:  # nothing is repeated, so it may be written
        return x.reshape(shape) if sizes and x.flags.c_contiguous else x[(None,) * (len(shape) - len(sizes)) + (...,)]
    if not x.flags.c_contiguous or not x.size:
        return np.broadcast_to(x, shape)
    out = np.ndarray(shape, x.dtype, x, 0, strides)  # a tenth of the time of `broadcast_to`
    set_flags: Operand = out.setflags
    set_flags(False)  # by position it takes half the time, and a sixth of that of `out.flags.writeable = False`
    return out


_expand_array = op_of(expand).evaluate


def expand_gradient(g: Operand, shape: Shape) -> Operand:
    """Return a gradient expanded; an array in a backward pass without the call of an op."""
    if type(g) is not ndarray or mode.needs_slow_path:
        return expand(g, shape=shape)
    return _expand_array(g, shape=shape)


@lru_cache(1024)
def _expanded_strides(sizes: Shape, strides: Shape, shape: Shape) -> Shape | None:
    """Return the strides of a row-major array that is expanded to `shape`; None if nothing is repeated."""
    lead = len(shape) - len(sizes)
    if shape[lead:] == sizes and not (lead and shape[:lead] != (1,) * lead):
        return None
    if shape[lead:] != sizes:
        strides = tuple(0 if n == 1 else step for n, step in zip(sizes, strides, strict=True))
    if lead == 1 and shape[0] != 1:
        return (0, *strides)
    for at in range(lead - 1, -1, -1):  # a new dimension of size 1 gets the stride of a row-major array
        strides = (shape[at + 1] * strides[0] if shape[at] == 1 and strides else 0, *strides)
    return strides


@movement_op(
    view=False,
    spec=lambda x, *, axes: Spec(x.shape, x.dtype),
    index=lambda view, *, axes: view.flip(axes),
    dx=lambda g, axes: flip(g, axes=axes),
)
def flip(x: Operand, *, axes: tuple[int, ...]) -> Array:
    """x with the order of elements reversed along `axes`."""
    if x.flags.c_contiguous and x.ndim:
        return x[_reversed_key(axes, x.ndim)].copy()
    order = sorted_dims(x.shape, x.strides)  # PyTorch keeps it
    flipped = np.flip(x, axes) if x.ndim else x  # of a 0-d array NumPy makes a scalar
    return flipped.transpose(order).copy().transpose(np.argsort(order))


@lru_cache(1024)
def _reversed_key(axes: tuple[int, ...], rank: int) -> tuple[builtins.slice, ...]:
    return tuple(builtins.slice(None, None, -1 if axis in axes else 1) for axis in range(rank))


WHOLE_DIM = builtins.slice(None)
Range = tuple[int, int, int]  # start, stop and step
Bounds = tuple[Range, ...]  # of each dimension


def compose_slices(outer: Range, inner: Range) -> Range:
    """Return the slice that a slice of a slice is, both with positive steps."""
    (first, _, step), (start, stop, stride) = outer, inner
    return first + start * step, first + stop * step, step * stride


@movement_op(
    spec=lambda x, *, bounds: Spec(tuple(range_length(*b) for b in bounds), x.dtype),
    index=lambda view, *, bounds: view.slice(bounds),
    node="SliceBackward0",
    grad_slice=lambda array, *, bounds: op_of(slice).evaluate(array, bounds=bounds),
    dx=lambda g, x_shape, bounds: _unslice_gradient(g, x_shape, bounds),
)
def slice(x: Array, *, bounds: Bounds) -> Operand:
    """x[start:stop:step] for one (start, stop, step) per dimension, steps positive, all within the dimension."""
    return x[_key(bounds)] if bounds else x[...]  # without slices NumPy would make a scalar


@lru_cache(1024)
def _key(bounds: Bounds) -> tuple[builtins.slice, ...]:
    return tuple(builtins.slice(*b) for b in bounds)


@movement_op(
    view=False, spec=lambda x, *, shape, bounds: Spec(shape, x.dtype), dx=lambda g, bounds: slice(g, bounds=bounds)
)
def unslice(x: Array, *, shape: Shape, bounds: Bounds) -> Array:
    """Zeros of `shape` with x written at `bounds`: the transpose of `slice`."""
    out = np.zeros(shape, x.dtype)
    out[_key(bounds)] = x
    return out


def _unslice_gradient(g: Operand, shape: Shape, bounds: Bounds) -> Operand:
    if not is_bare(g):
        return unslice(g, shape=shape, bounds=bounds)
    out = np.zeros(shape, g.dtype)
    out[_key(bounds)] = g
    return out


def _unselect_gradient(g: Operand, shape: Shape, axis: int, at: int) -> Operand:
    if is_bare(g):
        out = np.zeros(shape, g.dtype)
        out[(WHOLE_DIM,) * axis + (at,)] = g
        return out
    return unslice(
        reshape(g, shape=(*shape[:axis], 1, *shape[axis + 1 :])),
        shape=shape,
        bounds=tuple((at, at + 1, 1) if d == axis else (0, n, 1) for d, n in enumerate(shape)),
    )


@movement_op(
    spec=lambda x, *, axis, at: Spec(x.shape[:axis] + x.shape[axis + 1 :], x.dtype),
    index=lambda view, *, axis, at: view.select(axis, at),
    grad_slice=lambda array, *, axis, at: array[(builtins.slice(None),) * axis + (at, ...)],
    dx=lambda g, x_shape, axis, at: _unselect_gradient(g, x_shape, axis, at),
)
def select(x: Array, *, axis: int, at: int) -> Array:
    """The elements of x at index `at` along `axis`, without that dimension."""
    return x[(WHOLE_DIM,) * axis + (at, ...)] if axis else x[at, ...]


Widths = tuple[tuple[int, int], ...]


@movement_op(
    view=False,
    spec=lambda x, *, widths, value=0.0: Spec(
        tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)), x.dtype
    ),
    node="ConstantPadNdBackward0",
    dx=lambda g, x_shape, widths: slice(
        g, bounds=tuple((a, a + n, 1) for n, (a, _) in zip(x_shape, widths, strict=True))
    ),
)
def pad(x: Array, *, widths: Widths, value: float = 0.0) -> Array:
    """x padded with `value`: (before, after) elements for each dimension, none negative."""
    shape, inner = _plan_pad(x.shape, widths)
    order: Literal["F", "C"] = "F" if x.flags.fnc else "C"
    is_zero = value == 0 and not (type(value) is float and math.copysign(1.0, value) < 0)
    out = np.zeros(shape, x.dtype, order) if is_zero else np.full(shape, value, x.dtype, order)
    out[inner] = x  # an eighth of the time of `np.pad`
    return out


@lru_cache(1024)
def _plan_pad(shape: Shape, widths: Widths) -> tuple[Shape, tuple[builtins.slice, ...]]:
    """Return the shape with the border, and the part of it inside."""
    sizes = list(zip(shape, widths, strict=True))
    return tuple([n + a + b for n, (a, b) in sizes]), tuple([builtins.slice(a, a + n) for n, (a, _) in sizes])


def _cat_slice(g: Operand, i: int, tensors_shape: tuple[tuple[int, ...], ...], axis: int) -> Operand:
    if is_bare(g):
        part: Operand = g[_find_part_keys(tensors_shape, axis)[i]]
        return part
    find = _find_part_bounds if type(g) is np.ndarray else _find_part_bounds.__wrapped__  # sizes may be symbols
    return slice(g, bounds=find(tensors_shape, axis)[i])


@lru_cache(256)
def _find_part_bounds(shapes: tuple[Shape, ...], axis: int) -> list[Bounds]:
    """Return the bounds of tensors of these shapes in the one that they are joined to along `axis`."""
    bounds, start = [], 0
    for shape in shapes:
        stop = start + shape[axis]
        bounds.append(tuple((start, stop, 1) if d == axis else (0, n, 1) for d, n in enumerate(shape)))
        start = stop
    return bounds


@lru_cache(256)
def _find_part_keys(shapes: tuple[Shape, ...], axis: int) -> list[tuple[builtins.slice, ...]]:
    """Return the same as keys of NumPy's arrays."""
    return [_key(bounds) for bounds in _find_part_bounds(shapes, axis)]


@primitive(
    family="cat",
    spec=lambda x, *rest, axis: Spec(
        (*x.shape[:axis], sum(t.shape[axis] for t in (x, *rest)), *x.shape[axis + 1 :]), x.dtype
    ),
    linear=True,
    dtensors=_cat_slice,
)
def cat(*tensors: Array, axis: int) -> Array:
    """Tensors of one type joined along `axis`."""
    out = np.concatenate(tensors, axis)
    return out if out.flags.c_contiguous else np.ascontiguousarray(out)  # of transposed parts NumPy makes such a whole


def numel(shape: Shape) -> int:
    """Number of elements of an array of this shape."""
    return math.prod(shape)
