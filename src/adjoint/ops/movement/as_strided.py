"""Views at given strides, sliding windows and the diagonal, with their transposes."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.op.apply import apply
from adjoint.core.op.families import movement_op, primitive
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.interpreter import EAGER
from adjoint.core.runtime.mode import mode, nondefault, recorded_by_caller
from adjoint.core.tensor.as_strided import (
    dense_strides,
    element_positions,
    element_strides,
    memory_span,
    offset,
    owner,
    strided_view,
)
from adjoint.core.tensor.storage import share_view, view_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Params
from adjoint.ops.elementwise.select import where
from adjoint.ops.mutation.view_update import replay_view

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

Sizes = tuple[int, ...]
Geometry = tuple[Sizes, int]  # the strides of a view in elements, and the place of its first element


def _start(storage_offset: int | None, geometry: Geometry) -> int:
    return geometry[1] if storage_offset is None else storage_offset


@primitive(
    spec=lambda x, *, size, **_: Spec(size, x.dtype),
    linear=True,
    dx=lambda g, x_shape, size, stride, storage_offset, geometry: strided_sum(
        g, shape=x_shape, stride=stride, start=_start(storage_offset, geometry), geometry=geometry
    ),
)
def as_strided(x: Array, *, size: Sizes, stride: Sizes, storage_offset: int | None, geometry: Geometry) -> Array:
    """The memory of x at other strides: a view where x has the layout `geometry`, else `restride`."""
    start = _start(storage_offset, geometry)
    if element_strides(x) == geometry[0] and offset(x) == geometry[1]:
        return strided_view(x, size, stride, start)
    return _restride_array(x, size, stride, start, geometry)


def _restride_array(x: Array, size: Sizes, stride: Sizes, start: int, geometry: Geometry) -> Array:
    own = element_positions(x.shape, *geometry)
    memory = np.zeros(max(memory_span(x.shape, *geometry), memory_span(size, stride, start)), x.dtype)
    np.add.at(memory, own, x)
    return (memory / _count(memory, own))[element_positions(size, stride, start)].astype(x.dtype, copy=False)


def _count(memory: Array, own: Array) -> Array:
    """Count the elements of a view at each place of the memory; 1 where there is none."""
    return np.maximum(np.bincount(own.ravel().astype(np.intp, copy=False), minlength=memory.size), 1)


@primitive(
    spec=lambda x, *, size, stride, start, geometry: Spec(size, x.dtype),
    linear=True,
    dx=lambda g, x_shape, stride, start, geometry: strided_sum(
        g, shape=x_shape, stride=stride, start=start, geometry=geometry
    ),
)
def restride(x: Array, *, size: Sizes, stride: Sizes, start: int, geometry: Geometry) -> Array:
    """x put into zeroed memory in the layout `geometry`, and read at other strides."""
    return _restride_array(x, size, stride, start, geometry)


@primitive(
    spec=lambda x, *, shape, stride, start, geometry: Spec(shape, x.dtype),
    linear=True,
    dx=lambda g, x_shape, stride, start, geometry: restride(
        g, size=x_shape, stride=stride, start=start, geometry=geometry
    ),
)
def strided_sum(x: Array, *, shape: Sizes, stride: Sizes, start: int, geometry: Geometry) -> Operand:
    """x added into memory at its strides, and read in the layout `geometry`: the transpose of `restride`."""
    own = element_positions(shape, *geometry)
    memory = np.zeros(max(memory_span(shape, *geometry), memory_span(x.shape, stride, start)), x.dtype)
    np.add.at(memory, element_positions(x.shape, stride, start), x)
    return (memory / _count(memory, own))[own].astype(x.dtype, copy=False)


def geometry_of(x: Tensor, reader: str = "as_strided()") -> Geometry:
    """Return the layout of a tensor in its memory; a symbolic one, or its base, counts as in memory of its own."""
    if nondefault.count and mode.interpreter is not None:
        mode.interpreter.adopt(x)
    if type(x.array) is np.ndarray:
        return element_strides(x.array), offset(x.array)
    if (around := (mode.interpreter or EAGER).tensor_around(x)) is not None:
        (physical, batched), block = around
        with block:
            strides, start = geometry_of(physical, reader)
        return strides[batched:], start
    view = view_of(x)
    base = x if view is None else view.base
    if mode.interpreter is not None:
        mode.interpreter.rely_on_whole_memory(base, reader)
    if not base.is_contiguous():
        x.array.refuse(f"{reader} of a tensor whose memory is not in row-major order")
    shape = base.array.shape
    array = strided_view(np.empty(1, np.int8), shape, dense_strides(shape), 0)  # without memory: only look at it
    array = array if view is None else replay_view(array, view.steps)
    return element_strides(array), offset(array)


def storage_size(x: Tensor) -> int:
    """The number of elements of the tensor's memory."""
    if type(x.array) is np.ndarray:
        return int(owner(x.array).nbytes // x.element_size())
    if (around := (mode.interpreter or EAGER).tensor_around(x)) is not None:
        (physical, _), block = around
        with block:
            return storage_size(physical)
    view = view_of(x)
    return x.numel() if view is None else view.base.numel()


def _unfold_spec(x: Operand, *, dimension: int, size: int, step: int) -> Spec:
    count = (x.shape[dimension] - size) // step + 1
    return Spec((*x.shape[:dimension], count, *x.shape[dimension + 1 :], size), x.dtype)


@primitive(
    spec=_unfold_spec,
    linear=True,
    dx=lambda g, x_shape, dimension, step: unfold_back(g, shape=x_shape, dimension=dimension, step=step),
)
def unfold(x: Array, *, dimension: int, size: int, step: int) -> Array:
    """The pieces of `size` at every `step` along a dimension, as a last dimension: a view."""
    shape = _unfold_spec(x, dimension=dimension, size=size, step=step).shape
    if x.flags.c_contiguous and x.size:
        steps = x.strides
        places = (*steps[:dimension], steps[dimension] * step, *steps[dimension + 1 :], steps[dimension])
        return np.ndarray(shape, x.dtype, x, 0, places)  # a fifth of the time
    strides = element_strides(x)
    moved = (*strides[:dimension], strides[dimension] * step, *strides[dimension + 1 :], strides[dimension])
    return strided_view(x, shape, moved, offset(x))


@primitive(
    spec=lambda x, *, shape, dimension, step: Spec(shape, x.dtype),
    linear=True,
    dx=lambda g, x_shape, dimension, step: unfold(g, dimension=dimension, size=x_shape[-1], step=step),
)
def unfold_back(x: Array, *, shape: Sizes, dimension: int, step: int) -> Array:
    """The pieces added at their places into zeros of `shape`: the transpose of `unfold`."""
    out = np.zeros(shape, x.dtype)
    count = x.shape[dimension]
    for tap in range(x.shape[-1]):
        at = builtins.slice(tap, tap + (count - 1) * step + 1, step)
        out[(builtins.slice(None),) * dimension + (at,)] += x[..., tap]
    return out


def apply_as_view(op: Op, x: Tensor, **params: Any) -> Tensor:
    """Apply `op`, and register a result in the memory of x as its view; `as_strided` as a view of the base of x."""
    out, around = apply(op, (x,), params), view_of(x)
    symbolic = type(out.array) is not np.ndarray
    if not symbolic and owner(out.array) is not owner(x.array):
        return out
    if "geometry" not in params or around is None:
        share_view(x, out, op, params)
        return out
    start = _start(params["storage_offset"], params["geometry"])
    whole = {**params, "storage_offset": start, "geometry": geometry_of(around.base)}
    if symbolic and (mode.interpreter or EAGER).tensor_around(x) is None:
        out = _complete_from_base(op, x, out, around.base, whole, params["geometry"])
    share_view(around.base, out, op, whole, around.creation_meta)
    return out


def _complete_from_base(op: Op, x: Tensor, out: Tensor, base: Tensor, whole: Params, geometry: Geometry) -> Tensor:
    """Complete `as_strided` of a symbolic view, which lacks all elements but its own, from its base."""
    own = _own_elements(x.array.shape, geometry, whole)
    if own.all():
        return out
    with recorded_by_caller():
        beyond = apply(op, (base,), whole)
    return where(own, out, beyond)


def _own_elements(shape: Sizes, geometry: Geometry, view: Params) -> Array:
    """Return which elements of a view are those of a tensor with this shape and layout."""
    wanted = element_positions(view["size"], view["stride"], view["storage_offset"])
    return np.isin(wanted, element_positions(shape, *geometry))


def sees_only(shape: Sizes, **view: Operand) -> bool:
    """Return whether a view by `as_strided` has no elements but those of a tensor of this shape."""
    geometry = view["geometry"]
    view["storage_offset"] = _start(view["storage_offset"], geometry)
    return bool(_own_elements(shape, geometry, view).all())


Corner = tuple[int, int, int]  # how far above the main diagonal, and the two dimensions


def diagonal_length(rows: int, columns: int, above: int) -> int:
    """Return the number of elements of a diagonal."""
    return max(0, min(rows + min(above, 0), columns - max(above, 0)))


def _diagonal(x: Array, *, at: Corner) -> Array:
    found: Operand = x.diagonal(*at)
    if x.flags.writeable:
        found.setflags(True)  # by position it takes a sixth of the time of `found.flags.writeable = True`
    return found


@movement_op(
    spec=lambda x, *, at: Spec(
        (
            *(n for d, n in enumerate(x.shape) if d not in at[1:]),
            diagonal_length(x.shape[at[1]], x.shape[at[2]], at[0]),
        ),
        x.dtype,
    ),
    grad_slice=_diagonal,
    dx=lambda g, x_shape, at: diagonal_back(g, shape=x_shape, at=at),
)
def diagonal(x: Array, *, at: Corner) -> Array:
    """The elements x[i, i + above] of two dimensions, as the last one: a view."""
    return _diagonal(x, at=at)


@movement_op(
    view=False,
    spec=lambda x, *, shape, at: Spec(shape, x.dtype),
    node="DiagEmbedBackward0",
    dx=lambda g, at: diagonal(g, at=at),
)
def diagonal_back(x: Array, *, shape: Sizes, at: Corner) -> Array:
    """Zeros of `shape` with x on a diagonal: the transpose of `diagonal`."""
    out = np.zeros(shape, x.dtype)
    _diagonal(out, at=at)[...] = x
    return out
