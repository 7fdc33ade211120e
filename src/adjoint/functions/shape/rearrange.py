"""Elements in other places: diagonals, rotations, grids, blocks and products of sets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import numpy_dtype, promote
from adjoint.core.op.apply import apply
from adjoint.core.op.spec import broadcast_shapes as _broadcast_shapes
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.storage import View
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.functions.api.compute_dtype import autocast_float32
from adjoint.functions.api.dim_args import one_dim, parse_shape
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.shape import join
from adjoint.functions.shape import shape as shapes
from adjoint.functions.shape.as_strided import diagonal
from adjoint.ops.elementwise import select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import as_strided, movement
from adjoint.ops.reduction import reduction

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod",
    "column_stack", "combinations", "diag", "diag_embed", "diagflat", "diagonal_scatter", "dstack", "fliplr", "flipud",
    "meshgrid", "moveaxis", "roll", "rot90", "row_stack", "select_scatter", "slice_scatter", "trace", "tril_indices",
    "triu_indices",
]  # fmt: skip


@public()
@with_out
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as the diagonal of a matrix of zeros; of a matrix, the diagonal as a vector."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return rename_node(select.copy(_diagonal(input, diagonal)), "DiagonalBackward0_copy")


_diagonal = diagonal


@public()
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last dimension laid on a diagonal of the new dimensions dim1 and dim2."""
    first, second = one_dim(dim1, input.ndim + 1), one_dim(dim2, input.ndim + 1)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    side = input.array.shape[-1] + abs(offset)
    full = list(input.array.shape[:-1])
    for d in sorted((first, second)):
        full.insert(d, side)
    return as_strided.diagonal_back(input, shape=tuple(full), at=(offset, first, second))


@public()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The elements as the diagonal of a matrix of zeros."""
    return diag_embed(shapes.ravel(input), offset)


@public()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with src on a diagonal."""
    return _scatter_into_view(input, src, lambda x: _diagonal(x, offset, dim1, dim2))


@public()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with src at position `index` of `dim`."""
    return _scatter_into_view(input, src, lambda x: shapes.select(x, dim, index))


@public()
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of `input` with src at the slice start:end:step of `dim`."""
    d = one_dim(dim, input.ndim)
    return _scatter_into_view(input, src, lambda x: x[(slice(None),) * d + (slice(start, end, step),)])


def _scatter_into_view(input: Tensor, src: Tensor, view: Any) -> Tensor:
    out = select.copy(input)
    region = view(out)
    if region.array.shape != src.array.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.array.shape)}, slice size = "
            f"{list(region.array.shape)}"
        )
    region.copy_(src)
    return out


@public()
@autocast_float32
def trace(input: Tensor) -> Tensor:
    """Σ x[i, i] of a matrix. Raises RuntimeError for other ranks."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    total = reduction.sum(_diagonal(_widen_integers(input)), axes=(0,), keepdims=False)
    return rename_node(total, "TraceBackward0")


def _widen_integers(x: Tensor) -> Tensor:
    """Integers and truths as int64, in which they are summed."""
    return select.cast(x, dtype=np.dtype(np.int64)) if x.array.dtype.kind in "iub" else x


@public()
def roll(input: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    """The elements moved by `shifts` along `dims`, those beyond the end back to the start; flattened without dims."""
    steps = parse_shape((shifts,))
    axes = parse_shape((dims,)) if dims is not None else ()
    if not steps:
        raise RuntimeError("`shifts` required")
    if not axes:
        if len(steps) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:0")
        return rename_node(shapes.reshape(roll(shapes.ravel(input), steps, (0,)), input.array.shape), "RollBackward0")
    if len(steps) != len(axes):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(axes)}")
    out = input
    for by, dim in zip(steps, axes, strict=True):
        d = one_dim(dim, input.ndim)
        n = input.array.shape[d]
        if n == 0 or by % n == 0:
            continue
        cut = n - by % n
        op: Any = movement.cat
        out = apply(op.op, (shapes.narrow(out, d, cut, n - cut), shapes.narrow(out, d, 0, cut)), {"axis": d})
    return rename_node(select.copy(input) if out is input else out, "RollBackward0")


@public()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """The plane of two dimensions turned k times by 90°, from the first towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = (one_dim(d, input.ndim) for d in dims)
    if first == second:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    turns = k % 4
    if turns == 0:
        out: Any = select.copy(input)
    elif turns == 2:
        out = movement.flip(input, axes=tuple(sorted((first, second))))
    else:
        flipped = select.copy(movement.flip(input, axes=(second if turns == 1 else first,)))
        out = movement.swap(flipped, first, second)
        if type(out.memory) is View:  # it lies as PyTorch's does, and nobody else sees the memory
            out.memory = None
    return rename_node(out, "Rot90Backward0")


@public()
def fliplr(input: Tensor) -> Tensor:
    """Reversed along dimension 1."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return shapes.flip(input, (1,))


@public()
def flipud(input: Tensor) -> Tensor:
    """Reversed along dimension 0."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return shapes.flip(input, (0,))


@public()
def moveaxis(input: Tensor, source: Any, destination: Any) -> Tensor:
    """`movedim`, as NumPy calls it."""
    return shapes.movedim(input, source, destination)


def _as_tensor_list(tensors: tuple[Any, ...]) -> list[Tensor]:
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return for each vector a grid with one dimension per vector, along which its values vary.

    Args:
        *tensors: vectors or 0-d tensors of one dtype, one by one or as a list.
        indexing: "ij", or "xy" to exchange the first two dimensions. Default: None, the same as "ij".

    Returns: a tuple of tensors of one shape; they are views, so clone them before you write.

    Raises: RuntimeError for different dtypes, for tensors of more dimensions, and without any tensor.

    Example:
        >>> rows, columns = ad.meshgrid(ad.arange(2), ad.arange(3), indexing="ij")
        >>> rows
        tensor([[0, 0, 0],
                [1, 1, 1]])
    """
    parts = _as_tensor_list(tensors)
    if not parts:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for part in parts:
        if part.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {part.ndim}D")
        if part.array.dtype != parts[0].array.dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swapped = indexing == "xy" and len(parts) > 1
    if swapped:
        parts[:2] = parts[1::-1]
    full = tuple(part.numel() for part in parts)
    grids = [
        shapes.expand(shapes.reshape(part, tuple(-1 if i == d else 1 for i in range(len(parts)))), full)
        for d, part in enumerate(parts)
    ]
    if swapped:
        grids[:2] = grids[1::-1]
    return tuple(grids)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Tensors expanded to the shape to which all broadcast."""
    parts = _as_tensor_list(tensors)
    try:
        full = _broadcast_shapes(*[part.array.shape for part in parts])
    except ValueError as error:
        raise RuntimeError(str(error)) from error
    return tuple(part if part.array.shape == full else shapes.expand(part, full) for part in parts)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape to which all broadcast. Raises RuntimeError if there is none, ValueError for a negative length."""
    for shape in shapes:
        if not isinstance(shape, (int, tuple, list)):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}")
    given = [parse_shape((shape,)) for shape in shapes]
    if any(n < 0 for shape in given for n in shape):
        raise ValueError("Attempting to broadcast a dimension with negative length!")
    try:
        return Size(_broadcast_shapes(*given))
    except ValueError as error:
        raise RuntimeError(str(error)) from error


def block_diag(*tensors: Any) -> Tensor:
    """Matrices along the diagonal of one, zeros elsewhere; vectors count as rows."""
    parts = [atleast_2d(part) for part in _as_tensor_list(tensors)] or [constant(np.zeros((1, 0), np.float32))]
    for i, part in enumerate(parts):
        if part.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {part.ndim} dimensions"
            )
    kind = promote(part.array for part in parts)
    width = sum(part.array.shape[1] for part in parts)
    rows, start = [], 0
    for part in parts:
        n = part.array.shape[1]
        part = part if part.array.dtype == kind else select.cast(part, dtype=kind)
        rows.append(movement.pad(part, widths=((0, 0), (start, width - start - n)), value=0))
        start += n
    return join.cat(rows)


def cartesian_prod(*tensors: Any) -> Tensor:
    """All tuples with one element of each vector, as rows; of one vector, itself. Raises RuntimeError for others."""
    parts = _as_tensor_list(tensors)
    for part in parts:
        if part.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(part.array.shape)}")
    if len(parts) == 1:
        return parts[0]
    return join.stack([shapes.ravel(grid) for grid in meshgrid(*parts, indexing="ij")], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector, as rows. Raises RuntimeError for other ranks."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.array.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return constant(np.zeros(0, input.array.dtype))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(input.numel()), r)), np.int64).reshape(-1, r)
    op: Any = indexing.index
    return apply(op.op, (input, constant(rows)), {"pattern": (0,)})


def _raise_rank(n: int, tensors: tuple[Any, ...], wrap: Any) -> Any:
    out = tuple(wrap(part) if part.ndim < n else part for part in _as_tensor_list(tensors))
    return out[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else out


def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension."""
    return _raise_rank(1, tensors, lambda x: shapes.reshape(x, (1,)))


def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions; vectors become rows."""
    return _raise_rank(2, tensors, lambda x: shapes.unsqueeze(x, 0) if x.ndim else shapes.reshape(x, (1, 1)))


def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions; a vector gets one on either side, a matrix one behind."""

    def wrap(x: Tensor) -> Tensor:
        return shapes.unsqueeze(x, -1) if x.ndim == 2 else shapes.reshape(x, (1, x.numel(), 1))

    return _raise_rank(3, tensors, wrap)


@with_out
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dimension 2, after `atleast_3d`."""
    join.check_tensor_list("dstack", tensors)
    return join.cat([atleast_3d(part) for part in tensors], 2)


@with_out
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dimension 1; vectors become columns."""
    join.check_tensor_list("column_stack", tensors)
    return join.cat([shapes.reshape(p, (p.numel(), 1)) if p.ndim < 2 else p for p in tensors], 1)


def row_stack(tensors: Sequence[Tensor]) -> Tensor:
    """`vstack`."""
    return join.vstack(tensors)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = np.int64, device: Any = None) -> Tensor:
    """The positions on and below a diagonal of a matrix: (2, count)."""
    return constant(np.array(np.tril_indices(row, offset, col)).astype(numpy_dtype(dtype)))


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = np.int64, device: Any = None) -> Tensor:
    """The positions on and above a diagonal of a matrix: (2, count)."""
    return constant(np.array(np.triu_indices(row, offset, col)).astype(numpy_dtype(dtype)))
