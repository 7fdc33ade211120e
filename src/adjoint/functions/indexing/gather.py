"""Elements gathered from, and added at, positions along a dimension."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.eager_kernels import BIT_TWINS, call_with_bits, kernel_provider
from adjoint.core.op.elementwise_kernels import KERNEL_TYPES
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import NumpyDtype
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.indexing import direct_write
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement

__all__ = ["gather", "index_select", "scatter_add", "take_along_dim"]


def is_of_positions(kind: NumpyDtype) -> bool:
    """Return whether elements of a type may be positions: int32 or int64."""
    return kind.kind == "i" and kind.itemsize >= 4


def _check_index(name: str, index: Tensor, input: Tensor, axis: int) -> None:
    """Raise RuntimeError for an index that is not of integers, has another rank, is too large or out of range."""
    if not is_of_positions(index.array.dtype):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    at, shape = index.array.shape, input.array.shape
    if len(at) != len(shape):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    if at != shape:
        for d, (n, m) in enumerate(zip(at, shape, strict=True)):
            if d != axis and n > m:
                raise RuntimeError(
                    f"Size does not match at dimension {d} expected index {list(at)} to be no larger than self "
                    f"{list(shape)} apart from dimension {axis}"
                )
    size = shape[axis] if shape else 1
    if indexing.all_in_range(index, size):
        return
    complaint = f"index {{}} is out of bounds for dimension {axis} with size {{size}}"
    indexing.check_range(index, size, complaint, low=0, error=RuntimeError)


@public()
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Return the elements of `input` at the positions `index` along `dim`.

    For dim 0 of a matrix, out[i, j] = input[index[i, j], j]; for dim 1, out[i, j] = input[i, index[i, j]].

    Args:
        input: tensor.
        dim: dimension of the positions.
        index: int32 or int64 tensor with as many dimensions as `input`; the result has its shape.
        sparse_grad: ignored; gradients are dense.

    Raises: RuntimeError for a position out of range, and for an `index` larger than `input` in another dimension.

    Example:
        >>> ad.gather(ad.tensor([[1, 2], [3, 4]]), 1, ad.tensor([[0], [1]]))
        tensor([[1],
                [4]])
    """
    rank = len(input.array.shape)
    axis = one_dim(dim, rank)
    if 0 in index.array.shape:
        none = movement.slice(movement.reshape(input, shape=(input.numel(),)), bounds=((0, 0, 1),))
        return movement.reshape(none, shape=index.array.shape)
    if rank < 2 and {rank, index.ndim} == {0, 1}:  # a 0-d tensor is taken as one dimension, as PyTorch does
        flat, at = (movement.reshape(x, shape=(x.numel(),)) for x in (input, index))
        out = gather(flat, 0, at)
        return movement.reshape(out, shape=index.array.shape)
    if axis == rank - 1 and kernel_provider.enabled and not (nondefault.count and mode.alters_ops):
        x, indices = input.array, index.array
        if type(x) is type(indices) is np.ndarray and x.shape[:-1] == indices.shape[:-1]:
            if x.dtype in BIT_TWINS:
                found = call_with_bits(indexing.GATHER, (x,), after=(indices,))
            else:
                found = indexing.GATHER.call(x, indices)
            if found is not None:
                return indexing.gather(input, index, computed=found, axis=axis)
    _check_index("gather", index, input, axis)
    return indexing.gather(input, index, axis=axis)


@public()
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Return `gather` with `input` and `indices` broadcast in the other dimensions; both flattened without a `dim`.

    Raises: RuntimeError unless indices are int64 and there are as many dimensions.
    """
    if indices.array.dtype != np.int64:
        raise RuntimeError(f"take_along_dim(): dtype of indices should be Long but got {indices.dtype}")
    if dim is None:
        flat, at = (movement.reshape(v, shape=(v.numel(),)) for v in (input, indices))
        return gather(flat, 0, at)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            f"take_along_dim(): input and indices should have the same number of dimensions, but got {input.ndim} "
            f"dimensions for input, and {indices.ndim} dimensions for indices"
        )
    axis = one_dim(dim, input.ndim)
    x, at = input.array.shape, indices.array.shape
    common = _broadcast_or_raise((*x[:axis], 1, *x[axis + 1 :]), (*at[:axis], 1, *at[axis + 1 :]))
    source, taken = ((*common[:axis], shape[axis], *common[axis + 1 :]) for shape in (x, at))
    if not indexing.all_in_range(indices, x[axis]):  # here they may count from the end
        indices = select.where(comparison.lt(indices, 0), arithmetic.add(indices, x[axis]), indices)
    input = input if x == source else movement.expand(input, shape=source)
    return gather(input, axis, indices if at == taken else movement.expand(indices, shape=taken))


def _broadcast_or_raise(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return broadcast_shapes(*shapes)
    except ValueError as error:
        raise RuntimeError(str(error)) from error


@public(inplace=True, write=direct_write.add_along)
@in_float32
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return `input` with src added at `index` along `dim`; repeated positions add up.

    Raises: RuntimeError for different dtypes.
    """
    axis = one_dim(dim, input.ndim)
    if not index.numel():
        return select.copy(input)
    _check_index("scatter_add", index, input, axis)
    if src.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"scatter_add(): Expected self.dtype to be equal to src.dtype, got {input.dtype} and {src.dtype}"
        )
    part = src
    if src.array.shape != index.array.shape:
        part = movement.slice(src, bounds=tuple((0, n, 1) for n in index.array.shape))
    if input.array.dtype in KERNEL_TYPES and input.array.shape:
        return indexing.add_along(input, part, index, axis=axis)
    return arithmetic.add(input, indexing.scatter_add(part, index, shape=input.array.shape, axis=axis))


@public()
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return the slices of `input` along `dim` at the positions `index`, in this order.

    Args:
        input: tensor.
        dim: dimension of the positions.
        index: int32 or int64 vector of positions, which may repeat.
        out: tensor that takes the result.

    Raises: IndexError for a position outside dimension 0, RuntimeError for one outside another dimension.

    Example:
        >>> ad.index_select(ad.tensor([[1, 2], [3, 4], [5, 6]]), 0, ad.tensor([2, 0]))
        tensor([[5, 6],
                [1, 2]])
    """
    axis = one_dim(dim, input.ndim)
    if not is_of_positions(index.array.dtype):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    size = input.array.shape[axis] if input.ndim else 1
    if not size and index.numel() and input.ndim > 1:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    if axis:
        complaint = "INDICES element is out of DATA bounds, id={} axis_dim={size}"
        indexing.check_range(index, size, complaint, low=0, error=RuntimeError)
    else:
        indexing.check_range(index, size, "index out of range in self: {}", low=0)
    at = index if index.ndim else movement.reshape(index, shape=(1,))
    if not input.ndim:
        if index.numel() != 1:
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.numel()} value(s)")
        return select.copy(input)
    return rename_node(indexing.index(input, at, pattern=(None,) * axis + (0,)), "IndexSelectBackward0")
