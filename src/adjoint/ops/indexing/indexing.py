"""Indexing with tensors: gather, and its transpose, scatter-add."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.op.apply import apply
from adjoint.core.op.eager_kernels import RowKernel, SmallArrayKernel, kernel_provider
from adjoint.core.op.evaluation import compute
from adjoint.core.op.families import primitive, with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec, broadcast_shapes
from adjoint.core.runtime.mode import has_interpreter
from adjoint.core.tensor.sparse_array import SparseArray, sparse_gradient_slot
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.elementwise.arithmetic import add
from adjoint.ops.elementwise.comparison import ge, logical_and, lt
from adjoint.ops.indexing.row_positions import (
    ADD_ROWS,
    Pattern,
    drop_repeats,
    positions_along,
    positions_of_indices,
    row_starts,
)
from adjoint.ops.movement.movement import is_bare, reshape
from adjoint.ops.reduction.reduction import all

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

ARGSORT = RowKernel("argsort", finds_positions=True)
GATHER, ADD_ALONG_ROWS = SmallArrayKernel("gather"), SmallArrayKernel("add_along_rows")
MAX_SORTED_SIZE = 512  # elements, which NumPy sorts in less time than a native function is bound to them
SECONDS_PER_ADDED_ELEMENT = 3e-9


def indexed_shape(shape: Shape, index_shapes: list[tuple[int, ...]], pattern: Pattern) -> Shape:
    """Return the shape by NumPy's rule: adjacent indices are replaced in place, separated ones go to the front."""
    pattern = pattern + (None,) * (len(shape) - len(pattern))
    at = [d for d, slot in enumerate(pattern) if slot is not None]
    middle = broadcast_shapes(*index_shapes)
    kept = [n for n, slot in zip(shape, pattern, strict=True) if slot is None]
    front = at[0] if at and at[-1] - at[0] + 1 == len(at) else 0
    return (*kept[:front], *middle, *kept[front:])


def _key(indices: tuple[Array, ...], pattern: Pattern) -> tuple[Any, ...]:
    return tuple(slice(None) if slot is None else indices[slot] for slot in pattern)


def _can_sum_bare(g: Operand) -> bool:
    """Return whether a gradient is a bare array, and not of bfloat16, which the call of an op sums in float32."""
    return is_bare(g) and g.dtype.kind != "V"


@primitive(
    family="index",
    spec=lambda x, *indices, pattern: Spec(indexed_shape(x.shape, [i.shape for i in indices], pattern), x.dtype),
    node="IndexBackward0",
    linear=True,
    dx=lambda g, x_shape, indices, pattern: _index_dx(g, indices, x_shape, pattern),
)
def index(x: Operand, *indices: Array, pattern: Pattern) -> Operand:
    """x at integer index arrays, which broadcast together; each stands for one dimension of x."""
    if len(indices) == 1:
        return x.take(indices[0].astype(np.intp, copy=False), pattern.index(0))  # a third of the time
    try:
        return np.asarray(x[_key(indices, pattern)], order="C")  # NumPy leaves some results transposed in memory
    except IndexError as error:
        message = str(error).replace("axis", "dimension")
        if message.endswith("with size 0"):
            message = "index is out of bounds for dimension with size 0"
        raise IndexError(message) from None


@primitive(
    family="index",
    spec=lambda x, *indices, shape, pattern: Spec(shape, x.dtype),
    linear=True,
    native=lambda x, *indices, shape, pattern: (
        0.0 if _are_rows(x, indices, pattern) else x.size * SECONDS_PER_ADDED_ELEMENT
    ),
    dx=lambda g, indices, pattern: index(g, *indices, pattern=pattern),
)
def index_add(x: Array, *indices: Array, shape: Shape, pattern: Pattern) -> Array:
    """x added at the index arrays into zeros of `shape`, repeatedly where they repeat: the transpose of `index`."""
    out = np.zeros(shape, x.dtype)
    if _are_rows(x, indices, pattern):
        return _add_rows(out, indices[0].ravel(), x.reshape(indices[0].size, *shape[1:]))
    places = positions_of_indices(shape, indices, pattern)
    if places is not None and places.fold_into(ADD_ROWS, out, x):
        return out
    np.add.at(out, _key(indices, pattern), x)
    return out


def _index_dx(g: Operand, indices: tuple[Operand, ...], shape: Shape, pattern: Pattern) -> Operand:
    """Return `index_add` of a gradient: of large arrays by a kernel."""
    if not _can_sum_bare(g):
        return index_add(g, *indices, shape=shape, pattern=pattern)
    if g.size * SECONDS_PER_ADDED_ELEMENT < kernel_provider.min_seconds:
        return op_of(index_add).evaluate(g, *indices, shape=shape, pattern=pattern)
    return compute(op_of(index_add), (g, *indices), {"shape": shape, "pattern": pattern})


@with_eager_fast_path(
    composite=lambda x, source, indices, *, axis: add(
        x, index_add(source, indices, shape=x.array.shape, pattern=(None,) * axis + (0,))
    ),
    node="IndexAddBackward0",
    dx=lambda g: g,
    dsource=lambda g, indices, axis: (
        g.take(indices.astype(np.intp, copy=False), axis)
        if is_bare(g)
        else index(g, indices, pattern=(None,) * axis + (0,) + (None,) * (len(g.shape) - axis - 1))
    ),
)
def add_slices(x: Array, source: Array, indices: Array, *, axis: int) -> Array:
    """x with the slices of `source` added to its own at a vector of positions along `axis`, none negative."""
    out = x.copy()
    pattern: Pattern = (None,) * axis + (0,) + (None,) * (x.ndim - axis - 1)
    places = positions_of_indices(x.shape, (indices,), pattern)
    if places is None or not places.fold_into(ADD_ROWS, out, source):
        np.add.at(out, _key((indices,), pattern), source)
    return out


@primitive(
    family="index",
    spec=lambda x, rows, *, padding: Spec((*rows.shape, *x.shape[1:]), x.dtype),
    node="EmbeddingBackward0",
    raises=True,
    linear=True,
    dx=lambda g, x_shape, rows, padding: _sparse_rows(g, rows, x_shape, padding),
)
def lookup_sparse(x: Operand, rows: Array, *, padding: int | None) -> Operand:
    """The rows of x at indices; the gradient is a sparse tensor of those that were looked up, but for the `padding`."""
    return x.take(rows.astype(np.intp, copy=False), 0)


def _sparse_rows(g: Operand, rows: Operand, shape: Shape, padding: int | None) -> Operand:
    if type(g) is not np.ndarray:
        return sparse_gradient_slot.call(rows, g, shape, padding)
    places, values = np.asarray(rows, np.int64).reshape(-1), g.reshape(rows.size, *shape[1:])
    if padding is not None:
        held = places != padding
        places, values = places[held], values[held]
    return SparseArray(shape, places[None], values)


def _are_rows(x: Array, indices: tuple[Array, ...], pattern: Pattern) -> bool:
    """True if x consists of whole rows, and an index for each."""
    return pattern[0] == 0 and not any(slot is not None for slot in pattern[1:]) and x.ndim > indices[0].ndim


def picks_rows(indices: Array, axis: int, row: Shape) -> bool:
    """True if `indices` along the first dimension hold one index for each whole row, expanded over it."""
    if axis or indices.ndim < 2 or indices.shape[1:] != row or not indices.size:
        return False
    for step, n in zip(indices.strides[1:], row, strict=True):  # noqa: SIM110  a third of the time of `any`
        if step and n > 1:
            return False
    return True


def first_column(indices: Array) -> Array:
    """Return the first of the equal columns of expanded indices, a vector."""
    while indices.ndim > 1:
        indices = indices[:, 0]
    return indices


def _add_rows(out: Array, rows: Array, x: Array) -> Array:
    """Add natively, or sum sorted runs of equal rows at once: `np.add.at` takes ten times as long on wide rows."""
    if not rows.size:
        return out
    if kernel_provider.enabled and x.size:
        parts = np.ascontiguousarray(x.reshape(rows.size, -1))
        if ADD_ROWS.call(parts, rows, out) is not None:
            return out
    rows = np.where(rows < 0, rows + len(out), rows)
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    out[rows[starts]] = np.add.reduceat(x[order], starts, axis=0)
    return out


def index_grid(shape: Shape, indices: Array, axis: int) -> tuple[Array, ...]:
    """Index arrays of `indices` along `axis`, and of each element's own position along the other dimensions."""
    rank = indices.ndim
    grid: list[Array] = [np.arange(n).reshape((n,) + (1,) * (rank - d - 1)) for d, n in enumerate(indices.shape)]
    if grid:  # a scalar has no dimension to index
        grid[axis] = indices
    return tuple(grid)


@primitive(
    family="gather",
    linear=True,
    native=4e-9,
    spec=lambda x, indices, *, axis: Spec(indices.shape, x.dtype),
    dx=lambda g, indices, x_shape, axis: _gather_dx(g, indices, x_shape, axis),
)
def gather(x: Operand, indices: Operand, *, axis: int) -> Array:
    """out[i…] = x[i…] with `indices[i…]` in place of the index along `axis`."""
    if kernel_provider.enabled and axis == x.ndim - 1 and indices.shape[:-1] == x.shape[:-1]:
        found = GATHER.call(x, indices)
        if found is not None:
            return found
    if picks_rows(indices, axis, x.shape[1:]):
        rows = first_column(indices).astype(np.intp, copy=False)
        return x.take(rows, 0) if x.flags.c_contiguous else x[rows]  # a third of the time
    is_of_columns = axis == 0 and x.ndim > 1 and indices.shape[1:] == x.shape[1:] and x.size > 0
    if is_of_columns and x.flags.c_contiguous and indices.dtype == np.int64:
        width = x[:1].size  # half the time of an index array for each dimension
        return x.reshape(-1).take(indices * width + row_starts(width, 1).reshape(x.shape[1:]))
    return x[index_grid(x.shape, indices, axis)]


@primitive(
    family="gather",
    linear=True,
    native=lambda x, indices, *, shape, axis: 0.0 if picks_rows(indices, axis, shape[1:]) else x.size * 1e-8,
    spec=lambda x, indices, *, shape, axis: Spec(shape, x.dtype),
    dx=lambda g, indices, axis: gather(g, indices, axis=axis),
)
def scatter_add(x: Array, indices: Array, *, shape: Shape, axis: int) -> Array:
    """x added at `indices` along `axis` into zeros of `shape`: the transpose of `gather`."""
    out = np.zeros(shape, x.dtype)
    if x.shape != indices.shape:
        x = x[tuple(slice(n) for n in indices.shape)]
    can_be_native = kernel_provider.enabled and axis == len(shape) - 1 and indices.size > 0
    if can_be_native and indices.shape[:-1] == shape[:-1] and ADD_ALONG_ROWS.call(x, indices, out) is not None:
        return out
    if picks_rows(indices, axis, shape[1:]):
        return _add_rows(out, first_column(indices), x)
    places = positions_along(shape, indices, axis)
    if places is not None and places.fold_into(ADD_ROWS, out, x):
        return out
    np.add.at(out, index_grid(shape, indices, axis), x)
    return out


@with_eager_fast_path(
    composite=lambda x, source, indices, *, axis: add(x, scatter_add(source, indices, shape=x.array.shape, axis=axis)),
    node="ScatterAddBackward0",
    dx=lambda g: g,
    dsource=lambda g, indices, axis: gather(g, indices, axis=axis),
)
def add_along(x: Array, source: Array, indices: Array, *, axis: int) -> Array:
    """x with the elements of `source` added at `indices` along `axis`, none negative."""
    if kernel_provider.enabled and axis == x.ndim - 1 and indices.size and indices.shape[:-1] == x.shape[:-1]:
        out = x.copy("C")
        if ADD_ALONG_ROWS.call(source, indices, out) is not None:
            return out
    total: Array = x + op_of(scatter_add).evaluate(source, indices, shape=x.shape, axis=axis)
    return total


def _gather_dx(g: Operand, indices: Operand, shape: Shape, axis: int) -> Operand:
    if not _can_sum_bare(g):
        return scatter_add(g, indices, shape=shape, axis=axis)
    if axis == len(shape) - 1 and kernel_provider.enabled and g.size and g.shape[:-1] == shape[:-1]:
        out = np.zeros(shape, g.dtype)
        if ADD_ALONG_ROWS.call(g, indices, out) is not None:
            return out
    if axis == len(shape) - 1 and g.shape == (*shape[:-1], 1):  # one element of each row, as the score of a label
        return _put_along(g, indices, shape, axis)
    return compute(op_of(scatter_add), (g, indices), {"shape": shape, "axis": axis})


def _with_axis(x: Operand, axis: int) -> Tensor:
    return reshape(x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))


def _put_along(g: Operand, indices: Operand, shape: Shape, axis: int) -> Operand:
    """Return the transpose of `take_along`: each line along `axis` gets one element."""
    if is_bare(g):
        out = np.zeros(shape, g.dtype)
        lead, count = prod(shape[:axis]), prod(shape[axis + 1 :])
        rows = row_starts(lead, shape[axis] * count)
        if count == 1:
            out.reshape(-1)[rows + indices.reshape(-1)] = g.reshape(-1)
        else:
            places = rows[:, None] + indices.reshape(lead, count) * count + row_starts(count, 1)
            out.reshape(-1)[places] = g.reshape(lead, count)
        return out
    return scatter_add(_with_axis(g, axis), _with_axis(indices, axis), shape=shape, axis=axis)


@with_eager_fast_path(
    composite=lambda x, indices, *, axis: reshape(gather(x, _with_axis(indices, axis), axis=axis), shape=indices.shape),
    node="MaxBackward0",
    linear=True,
    dx=lambda g, indices, x_shape, axis: _put_along(g, indices, x_shape, axis),
)
def take_along(x: Array, indices: Array, *, axis: int) -> Array:
    """The element of each line along `axis` at `indices`, which lack this dimension, as the result does."""
    return np.asarray(np.take_along_axis(x, np.expand_dims(indices, axis), axis).squeeze(axis), order="C")


@primitive(spec=lambda x, *, axis, descending: Spec(x.shape, np.dtype(np.int64)))
def argsort(x: Array, *, axis: int, descending: bool) -> Array:
    """Indices that sort x along `axis`, equal elements in their order; NaN is the largest."""
    native: Array | None = ARGSORT.call(x, axis=axis, descending=descending) if x.size > MAX_SORTED_SIZE else None
    if native is not None:
        return native
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    back = (slice(None),) * axis + (slice(None, None, -1),)
    return np.ascontiguousarray(x.shape[axis] - 1 - x[back].argsort(axis, "stable")[back])


def check_range(
    indices: Operand, size: int, complaint: str, *, low: int | None = None, error: type[Exception] = IndexError
) -> None:
    """Raise error(complaint.format(bad, size=size)) if an index lies outside [low, size); `low` is -size unless given.

    Compiled steps check it on each run.
    """
    if low == 0 and all_in_range(indices, size):
        return
    params = {"low": -size if low is None else low, "size": size, "complaint": complaint, "error": error}
    apply(op_of(_check_range), (indices,), params)


def all_in_range(indices: Tensor, size: int) -> bool:
    """True if all indices are known to lie in [0, size): an eager check at half the cost of `check_range`."""
    if has_interpreter() or type(indices.array) is not np.ndarray or indices.array.dtype != np.int64:
        return False
    unsigned = drop_repeats(indices.array).view(np.uint64)  # negative ones become the largest
    return not unsigned.size or bool(np.maximum.reduce(unsigned, None) < size)


def _check_composite(indices: Tensor, *, low: int, size: int, complaint: str, error: type[Exception]) -> Tensor:
    """`_check_range` in a trace: a kernel makes the test, and Python reads only its result."""
    inside = logical_and(ge(indices, low), lt(indices, size))
    holds = all(inside, axes=tuple(range(len(indices.shape))), keepdims=False)
    return require(holds, indices, low=low, size=size, complaint=complaint, error=error)


def _flag_spec(*_: object, **__: object) -> Spec:
    return Spec((), np.dtype(np.bool_))


@primitive(effect=True, composite=_check_composite, spec=_flag_spec)
def _check_range(indices: Array, *, low: int, size: int, complaint: str, error: type[Exception]) -> Operand:
    if indices.size:
        lowest, highest = indices.min(), indices.max()
        if lowest < low or highest >= size:
            raise error(complaint.format(int(highest if highest >= size else lowest), size=size))
    return np.True_


@primitive(family="check", effect=True, spec=_flag_spec)
def require(holds: Array, indices: Array, *, low: int, size: int, complaint: str, error: type[Exception]) -> Array:
    """Raise the error for the index that lies outside, unless `holds`."""
    if holds:
        return holds
    return op_of(_check_range).evaluate(indices, low=low, size=size, complaint=complaint, error=error)
