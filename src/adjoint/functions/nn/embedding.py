"""Encodings of integers: rows of a table (embedding), and one-hot vectors."""

from __future__ import annotations

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.elementwise_kernels import KERNEL_TYPES
from adjoint.core.op.recorder import wrap_unrecorded
from adjoint.core.runtime.mode import ModeScope, mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api.publish import rename_node
from adjoint.functions.indexing.gather import is_of_positions
from adjoint.functions.linalg import norms
from adjoint.ops.creation import ones, positions
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.indexing import indexing
from adjoint.ops.indexing.row_positions import row_starts
from adjoint.ops.movement import movement

TAKE_ROWS = SmallArrayKernel("take_rows")
__all__ = ["embedding", "embedding_renorm_", "one_hot"]


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of `weight` (V, D) at the indices `input` (…): (…, D). The row `padding_idx` gets no gradient.

    `max_norm` shortens the rows that are looked up, in place; `scale_grad_by_freq` divides each row's gradient by how
    often it is looked up. With `sparse`, the gradient of a leaf `weight` is a sparse tensor of these rows. Raises
    IndexError for indices outside [0, V).
    """
    if padding_idx is None is max_norm and not (scale_grad_by_freq or sparse):
        found = _try_lookup(weight, input)
        if found is not None:
            return rename_node(found, "EmbeddingBackward0")
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    check_indices(input)
    rows = weight.array.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    indexing.check_range(input, rows, f"index out of range in self: {{}}, embedding has {rows!r} rows", low=0)
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    padding = None if padding_idx is None else padding_idx % rows
    out, sparse = lookup_rows(weight, input, sparse, padding)
    if scale_grad_by_freq:
        out = scale_grad_by_frequency(out, input, rows)
    if sparse:
        return out
    if padding is None:
        return rename_node(out, "EmbeddingBackward0")
    padded = comparison.eq(input, padding)
    mask = movement.reshape(padded, shape=(*input.array.shape, 1))
    return rename_node(select.where(mask, out.detach(), out), "EmbeddingBackward0")


def _try_lookup(weight: Tensor, input: Tensor) -> Tensor | None:
    """Return the rows of a matrix by native code, which looks at types and indices; None where that is not for it."""
    table, indices = weight.array, input.array
    if (
        type(table) is not np.ndarray
        or type(indices) is not np.ndarray
        or len(table.shape) != 2
        or table.dtype not in KERNEL_TYPES
        or not table.size
        or not kernel_provider.enabled
        or (nondefault.count and mode.alters_ops)
    ):
        return None
    rows = np.empty((*indices.shape, table.shape[1]), table.dtype)
    if TAKE_ROWS.call(table, indices, rows) is None:
        return None
    return indexing.index(weight, input, computed=rows, pattern=(0,))


def check_indices(input: Tensor) -> None:
    """Raise RuntimeError unless the indices are integers."""
    if not is_of_positions(input.array.dtype):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.dtype} instead (while checking arguments for embedding)"
        )


def lookup_rows(weight: Tensor, input: Tensor, sparse: bool = False, padding: int | None = None) -> tuple[Tensor, bool]:
    """Return the rows of (V, …) at the indices (…), and whether their gradient will be sparse.

    It is where that is asked for, of a leaf; then the row `padding` gets none.
    """
    if sparse and type(weight.node) is Leaf:
        return indexing.lookup_sparse(weight, input, padding=padding), True
    return indexing.index(weight, input, pattern=(0,)), False


def scale_grad_by_frequency(out: Tensor, input: Tensor, rows: int) -> Tensor:
    """Return `out`, whose gradient reaches a row divided by the number of times that it is looked up."""
    once = ones(input.array.shape, out.array.dtype)
    times = indexing.index_add(once, input, shape=(rows,), pattern=(0,))
    part = arithmetic.div(out, indexing.index(times, input, pattern=(0,)).unsqueeze(-1))
    return out.detach() + (part - part.detach())


def embedding_renorm_(weight: Tensor, input: Tensor, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Shorten the rows of `weight` (V, D) at the indices `input` to the length `max_norm`, in place.

    No derivative knows of it.
    """
    rows = weight.array.shape[0]
    with ModeScope(recording=False):
        once = ones(input.array.shape, np.dtype(np.int64))
        met = comparison.gt(indexing.index_add(once, input, shape=(rows,), pattern=(0,)), 0)
        size = norms.norm(weight.detach(), norm_type, 1, True)
        long = comparison.logical_and(movement.reshape(met, shape=(rows, 1)), comparison.gt(size, max_norm))
        weight.detach().mul_(select.where(long, arithmetic.div(max_norm, size + 1e-7), 1.0))
    return weight


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return 1 at the class of each element, else 0: (…) to (…, classes), int64. -1 classes: the largest plus one.

    Raises RuntimeError for other types than int64, for classes outside [0, classes), and for no elements without a
    number of classes.
    """
    if tensor.array.dtype != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if isinstance(num_classes, Tensor):
        num_classes = num_classes.item()
    if num_classes == -1 and not tensor.numel():
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    classes = num_classes if num_classes != -1 else max(tensor.max().item() + 1, 1)
    complaint = "Class values must be non-negative and smaller than num_classes, but got {}"
    indexing.check_range(tensor, classes, complaint, low=0, error=RuntimeError)
    if type(tensor.array) is np.ndarray and not (nondefault.count and mode.alters_ops):
        out = np.zeros((*tensor.array.shape, classes), np.int64)
        out.reshape(-1)[row_starts(tensor.array.size, classes) + tensor.array.reshape(-1)] = 1
        return wrap_unrecorded(out)
    column = movement.reshape(tensor, shape=(*tensor.array.shape, 1))
    whole = np.dtype(np.int64)
    return select.cast(comparison.eq(column, positions(classes, whole)), dtype=whole)
