"""Writing, adding and folding at positions that are data: along one dimension, or at index arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy import ndarray

from adjoint.core.dtype.dtype_info import check_range
from adjoint.core.op.eager_kernels import kernel_provider
from adjoint.core.op.elementwise_kernels import KERNEL_TYPES
from adjoint.core.runtime.deterministic import alert_not_deterministic
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor, constant, wrap
from adjoint.core.typing import Function, Operand
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.indexing import direct_write
from adjoint.functions.indexing.gather import _broadcast_or_raise, _check_index
from adjoint.functions.indexing.gather import scatter_add as _scatter_add
from adjoint.functions.indexing.getitem import (
    _apply_basic_indices,
    _indexed_shape,
    _prepare_value,
    assign_masked,
)
from adjoint.functions.indexing.index_plan import IndexPlan
from adjoint.functions.indexing.traced_masks import masked_scatter_traced
from adjoint.functions.shape import shape as shapes
from adjoint.functions.shape.diag_tril import diagonal
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.indexing import indexing
from adjoint.ops.indexing import scatter as ops
from adjoint.ops.indexing.row_positions import ADD_ROWS
from adjoint.ops.movement import movement
from adjoint.ops.mutation import view_update

__all__ = [
    "diagonal_scatter", "index_add", "index_copy", "index_fill", "index_put", "index_reduce", "masked_scatter", "put",
    "scatter", "scatter_reduce", "select_scatter", "slice_scatter", "take",
]  # fmt: skip


@public(inplace=True, write=direct_write.write_along)
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Operand = None, *, value: Operand = None, reduce: str | None = None
) -> Tensor:
    """Return a copy of `input` with values written at the positions `index` along `dim`.

    For dim 0 of a matrix, out[index[i, j], j] = src[i, j]. Of several writes to one place, the last counts.

    Args:
        input: tensor.
        dim: dimension of the positions.
        index: int32 or int64 tensor with as many dimensions as `input`.
        src: tensor of the dtype of `input` that covers `index`, or a number.
        value: number to write, another name of `src`.
        reduce: "add" or "multiply" to combine the values with those of `input`. Default: None, replace them.

    Raises: RuntimeError for a position out of range, and for a `src` of another dtype.

    Example:
        >>> ad.scatter(ad.zeros(2, 3), 1, ad.tensor([[2], [0]]), 5.0)
        tensor([[0., 0., 5.],
                [5., 0., 0.]])
    """
    axis = one_dim(dim, input.ndim)
    source = src if src is not None else value
    if source is None:
        raise TypeError("scatter(): expected a src or a value")
    if 0 in index.array.shape:
        return select.copy(input)
    if reduce is None and isinstance(source, Tensor):
        written = ops.try_scatter_natively(input.array, source.array, index.array, axis)
        if written is not None:
            return ops.scatter(input, source, index, axis=axis, computed=written)
    _check_index("scatter", index, input, axis)
    if not isinstance(source, Tensor):
        check_range(source, input.array.dtype)
        source = np.asarray(source).astype(input.array.dtype)
    elif source.array.dtype != input.array.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if reduce is None:
        part = _crop_to_index(source, index) if isinstance(source, Tensor) else source
        written = ops.try_scatter_checked(input.array, getattr(part, "array", part), index.array, axis)
        out = ops.scatter(input, part, index, axis=axis, **({} if written is None else {"computed": written}))
        return out if isinstance(source, Tensor) else rename_node(out, "ScatterBackward1")
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    spread = source if isinstance(source, Tensor) else wrap(np.broadcast_to(source, index.array.shape))
    if reduce == "add":
        return _scatter_add(input, axis, index, spread)
    return ops.scatter_reduce(input, spread, index, axis=axis, reduce="prod", include_self=True)


def _crop_to_index(source: Tensor, index: Tensor) -> Tensor:
    """Return the part of `source` that `index` speaks of."""
    shape = index.array.shape
    if source.array.shape == shape or source.ndim != len(shape):
        return source
    return movement.slice(source, bounds=tuple((0, n, 1) for n in shape))


@public(inplace=True)
@in_float32
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return the "sum", "prod", "mean", "amax" or "amin" of `input` and all that src brings to `index` along `dim`.

    Where src brings nothing, `input` stays; not `include_self`: of what src brings alone. Extremes share the gradient.

    Raises: RuntimeError for another reduction and for different dtypes.
    """
    axis = one_dim(dim, input.ndim)
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError("reduce argument must be either sum, prod, mean, amax or amin, got " + str(reduce))
    if not index.numel():
        return select.copy(input)
    _check_index("scatter", index, input, axis)
    if src.array.dtype != input.array.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    part = _crop_to_index(src, index)
    if reduce in ("prod", "amax", "amin"):
        return ops.scatter_reduce(input, part, index, axis=axis, reduce=reduce, include_self=include_self)
    start = input if include_self else ops.scatter(input, np.zeros((), input.array.dtype), index, axis=axis)
    shape = input.array.shape
    total = arithmetic.add(start, indexing.scatter_add(part, index, shape=shape, axis=axis))
    if reduce == "mean":
        ones = wrap(np.ones(index.array.shape, input.array.dtype))
        count = indexing.scatter_add(ones, index, shape=shape, axis=axis)
        one = wrap(np.ones((), count.array.dtype))
        count = arithmetic.maximum(arithmetic.add(count, 1 if include_self else 0), one)
        whole = input.array.dtype.kind in "iub"
        total = arithmetic.floor_divide(total, count) if whole else arithmetic.div(total, count)
    return rename_node(total, "ScatterReduceBackward0")


def _check_row_index(
    name: str, index: Tensor, input: Tensor, dim: int, source: Tensor | None
) -> tuple[int, Tensor, Operand]:
    """Return the dimension, the vector of positions, checked, and the source for them."""
    axis = one_dim(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index should have dimension 1 or 0 (got {index.ndim})")
    if index.array.dtype.kind not in "iu":
        error = RuntimeError if name == "index_add" else IndexError
        raise error(f"{name}(): Expected dtype int64 for index, but got {index.dtype}.")
    at = index if index.ndim else movement.reshape(index, shape=(1,))
    size = input.array.shape[axis] if input.ndim else 1
    adds = name == "index_add"
    if source is not None and adds:
        _check_added(input, axis, at, source)
    complaint = f"{name}(): index {{}} is out of bounds for dimension {axis} with size {{size}}"
    low = -size if source is None else 0  # as in PyTorch, where `index_fill` alone counts from the end too
    indexing.check_range(at, size, complaint, low=low, error=RuntimeError if adds and input.ndim > 1 else IndexError)
    if source is None:
        return axis, at, None
    if source.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"{name}(): self ({input.dtype.name}) and source ({source.dtype.name}) must have the same scalar type"
        )
    wanted = (*input.array.shape[:axis], at.array.shape[0], *input.array.shape[axis + 1 :]) if input.ndim else (1,)
    if source.array.shape != wanted:
        if source.numel() != int(np.prod(wanted)) or source.ndim > 1:
            raise RuntimeError(
                f"{name}(): Source/destination tensor must have same slice shapes: expected {list(wanted)}, got "
                f"{list(source.array.shape)}"
            )
        source = movement.reshape(source, shape=wanted)
    return axis, at, source


def _check_added(input: Tensor, axis: int, index: Tensor, source: Tensor) -> None:
    """Raise RuntimeError for a source of another number of slices than indices, or of slices of another shape."""
    x, added = input.array.shape, source.array.shape
    apart = (*x[:axis], *x[axis + 1 :]) != (*added[:axis], *added[axis + 1 :]) or len(x) != len(added)
    if apart and max(len(added), len(x)) > 1:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(x)} source.shape = {list(added)}"
        )
    slices = added[axis] if added else 1
    if index.array.shape[0] != slices:
        raise RuntimeError(
            f"index_add_(): Number of indices ({index.array.shape[0]}) should be equal to source.size(dim): "
            f"({slices}), for dim: {axis}"
        )


def _at_least_1d(input: Tensor) -> Tensor:
    return input if input.ndim else movement.reshape(input, shape=(1,))


@public(inplace=True, write=direct_write.add_rows)
@in_float32
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """Return `input` with alpha · source added to its slices `index` along `dim`, repeatedly where they repeat.

    Raises: RuntimeError for a fractional `alpha` between integers.
    """
    if alpha == 1 and (found := _try_add_rows(input, dim, index, source)) is not None:
        return found
    axis, at, part = _check_row_index("index_add", index, input, dim, source)
    if part.array.dtype.kind in "iub" and not float(alpha).is_integer():
        raise RuntimeError(
            f"index_add(): For integral input tensors, argument alpha must not be a floating point number, got {alpha}"
        )
    part = part if alpha == 1 else arithmetic.mul(part, alpha)
    if input.array.dtype in KERNEL_TYPES and input.array.shape:
        return indexing.add_slices(input, part, at, axis=axis)
    x = _at_least_1d(input)
    out = arithmetic.add(x, indexing.index_add(part, at, shape=x.array.shape, pattern=(None,) * axis + (0,)))
    return rename_node(out if input.ndim else movement.reshape(out, shape=()), "IndexAddBackward0")


def _try_add_rows(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor | None:
    """Return `index_add` of rows by native code, which looks at types and indices; None where that is not for it."""
    if not kernel_provider.enabled or dim != 0 or type(source) is not Tensor or type(index) is not Tensor:
        return None
    x, places, rows = input.array, index.array, source.array
    shape = x.shape
    if (
        type(x) is not ndarray
        or type(rows) is not ndarray
        or not rows.size
        or rows.shape != (*places.shape, *shape[1:])
        or len(places.shape) != 1
        or x.dtype not in KERNEL_TYPES
        or (nondefault.count and mode.needs_slow_path)
    ):
        return None
    out = x.copy()
    flat, added = (out, rows) if len(shape) == 2 else (each.reshape(len(each), -1) for each in (out, rows))
    if not out.flags.c_contiguous or ADD_ROWS.call(added, places, flat) is None:
        return None
    return indexing.add_slices(input, source, index, computed=out, axis=0)


@public(inplace=True, write=direct_write.write_rows)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Return `input` with the slices `index` along `dim` replaced by those of `source`."""
    axis, at, part = _check_row_index("index_copy", index, input, dim, source)
    return rename_node(_put_rows(input, part, axis, at), "IndexCopyBackward0")


@public(inplace=True, write=direct_write.fill_rows)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    """Return `input` with one value in its slices `index` of `dim`. Raises RuntimeError for a value with dimensions."""
    axis, at, _ = _check_row_index("index_fill", index, input, dim, None)
    if isinstance(value, complex) and input.array.dtype.kind != "c":
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if not isinstance(value, Tensor):
        check_range(value, input.array.dtype)
        value = np.asarray(value).astype(input.array.dtype)
    elif value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    elif value.array.dtype != input.array.dtype:
        value = select.cast(value, dtype=input.array.dtype)
    if isinstance(value, Tensor) and value.requires_grad:  # a position named twice still holds one value
        none = constant(np.zeros(input.array.shape, np.bool_))
        out = select.where(_put_rows(none, np.asarray(True), axis, at), value, input)
        return rename_node(out, "IndexFillBackward1")
    return rename_node(_put_rows(input, value, axis, at), "IndexFillBackward0")


def _put_rows(input: Tensor, value: Operand, axis: int, at: Tensor) -> Tensor:
    out = view_update.put_index(_at_least_1d(input), value, at, pattern=(None,) * axis + (0,))
    return out if input.ndim else movement.reshape(out, shape=())


@public(inplace=True)
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Reduce whole slices as `scatter_reduce`: the "prod", "mean", "amax" or "amin" of those that meet.

    Raises: RuntimeError for another reduction.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    axis, at, part = _check_row_index("index_reduce", index, input, dim, source)
    shape = tuple(-1 if d == axis else 1 for d in range(max(input.ndim, 1)))
    along = movement.reshape(at, shape=(*shape[:axis], at.numel(), *shape[axis + 1 :]))
    spread = movement.expand(along, shape=part.array.shape)
    out = scatter_reduce(_at_least_1d(input), axis, spread, part, reduce, include_self=include_self)
    return rename_node(out if input.ndim else movement.reshape(out, shape=()), "IndexReduceBackward0")


@public(inplace=True, write=direct_write.write_at_indices)
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """Return `input` with `values` at a tuple of index tensors; `accumulate` adds them, also at repeated positions.

    Raises: RuntimeError for no index.
    """
    if not len(indices):
        raise RuntimeError("index_put(): at least one index is needed")
    keys = [  # with at least one dimension, since a lone integer would be none that repeats
        slice(None) if i is None else i if i.ndim or i.array.dtype.kind == "b" else movement.reshape(i, shape=(1,))
        for i in indices
    ]
    plan = IndexPlan(input.array.shape, tuple(keys))
    if plan.mask is not None:
        out = assign_masked(_apply_basic_indices(input, plan), plan, values, accumulate)
        return rename_node(movement.reshape(out, shape=input.array.shape), "IndexPutBackward0")
    shape, pattern = tuple(_indexed_shape(plan)), tuple(plan.pattern)
    value = _prepare_value(input, values, shape, True)
    region = _apply_basic_indices(input, plan)
    if accumulate:
        wide = movement.expand(value, shape=shape)
        added = indexing.index_add(wide, *plan.arrays, shape=region.array.shape, pattern=pattern)
        out = arithmetic.add(region, added)
    else:
        out = view_update.put_index(region, value, *plan.arrays, pattern=pattern)
    out = movement.reshape(out, shape=input.array.shape) if plan.new else out
    return rename_node(out, "IndexPutBackward0")


@public(inplace=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `input` with the elements where `mask` is true taken from `source`, one after another.

    Raises RuntimeError if source has too few of them.
    """
    if mask.array.dtype.kind != "b":
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if source.array.dtype != input.array.dtype:
        raise RuntimeError("masked_scatter: expected self and source to have same dtypes")
    shape = _broadcast_or_raise(input.array.shape, mask.array.shape)
    if nondefault.count and mode.interpreter is not None:
        return rename_node(
            masked_scatter_traced(input, movement.expand(mask, shape=shape), source), "MaskedScatterBackward0"
        )
    at = np.flatnonzero(np.broadcast_to(mask.numpy_view("masked_scatter()"), shape))
    if at.size > source.numel():
        raise RuntimeError("Number of elements of source < number of ones in mask")
    flat = movement.reshape(movement.expand(input, shape=shape), shape=(movement.numel(shape),))
    part = movement.slice(movement.reshape(source, shape=(source.numel(),)), bounds=((0, at.size, 1),))
    out = _put_rows(flat, part, 0, constant(at))
    return rename_node(movement.reshape(out, shape=shape), "MaskedScatterBackward0")


@public()
@with_out
def take(input: Tensor, index: Tensor) -> Tensor:
    """Return the elements at positions `index` of the flattened tensor, in the shape of `index`."""
    flat = movement.reshape(input, shape=(input.numel(),))
    out = indexing.index(flat, _check_flat_index("take", index, input), pattern=(0,))
    return rename_node(out, "TakeBackward0")


@public(inplace=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return `input` with source at positions `index` of the flattened tensor, or added there.

    Raises: IndexError unless there is a source for each position.
    """
    if index.numel() != source.numel():
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    if not accumulate:
        alert_not_deterministic("put_")
    n = index.numel()
    flat = movement.reshape(input, shape=(input.numel(),))
    at = movement.reshape(_check_flat_index("put_", index, input), shape=(n,))
    out = index_put(flat, (at,), movement.reshape(source, shape=(n,)), accumulate)
    return rename_node(movement.reshape(out, shape=input.array.shape), "PutBackward0")


def _check_flat_index(name: str, index: Tensor, input: Tensor) -> Tensor:
    if index.array.dtype != np.int64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {index.dtype}")
    indexing.check_range(index, input.numel(), f"{name}(): out of range: tried to access index {{}}", error=IndexError)
    return index


@public()
def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Write one value on the main diagonal; `wrap` starts it anew below a tall matrix, one row apart.

    Raises: RuntimeError below two dimensions, and for more unless they are equal.
    """
    n = self.ndim
    if n < 2:
        raise RuntimeError("dimensions must larger than 1")
    shape = self.array.shape
    if n > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    count = min(shape)
    places = [np.arange(count)] * n
    if wrap and n == 2 and shape[0] > shape[1] + 1:
        rows = np.concatenate([np.arange(a, min(a + count, shape[0])) for a in range(0, shape[0], count + 1)])
        places = [rows, np.arange(rows.size) % count]
    self[tuple(places)] = fill_value
    return self


@public()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a copy of `input` with src on a diagonal."""
    return _scatter_into_view(input, src, lambda x: diagonal(x, offset, dim1, dim2))


@public()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Return a copy of `input` with src at position `index` of `dim`."""
    return _scatter_into_view(input, src, lambda x: shapes.select(x, dim, index))


@public()
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Return a copy of `input` with src at the slice start:end:step of `dim`."""
    d = one_dim(dim, input.ndim)
    return _scatter_into_view(input, src, lambda x: x[(slice(None),) * d + (slice(start, end, step),)])


def _scatter_into_view(input: Tensor, src: Tensor, view: Function) -> Tensor:
    out = select.copy(input)
    region = view(out)
    if region.array.shape != src.array.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.array.shape)}, slice size = "
            f"{list(region.array.shape)}"
        )
    region.copy_(src)
    return out
