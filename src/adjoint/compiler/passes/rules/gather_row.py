"""One element of each row, and writing to one: a comparison of every position with the index, which fuses with what
makes the row or reads it, where `gather` and `scatter_add` would have it in memory.

What is picked is the largest of itself and -inf: itself to the bit, -0 and NaN too, as a sum of it and zeros is not.
Wrong indices are no concern here: a check comes before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from adjoint.compiler.ir.symbolic_size import size_value
from adjoint.compiler.passes.pattern import rule
from adjoint.compiler.passes.rules.algebra import dtype_kind
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand
from adjoint.ops.creation import iota
from adjoint.ops.elementwise.arithmetic import add
from adjoint.ops.elementwise.comparison import eq, logical_and, lt
from adjoint.ops.elementwise.select import cast, where
from adjoint.ops.indexing.indexing import gather, index, lookup_sparse, scatter_add
from adjoint.ops.movement.movement import reshape
from adjoint.ops.reduction.reduction import any, argmax, argmin, max, min

MAX_STORED_ROW = 64  # elements of a row in memory which are read as quickly as the one among them
POSITION_DTYPE = np.dtype(np.int32)  # of which a register holds as many as of float32


@rule
def look_up_rows(x: Operand, rows: Operand, *, padding: int | None) -> Iterator[Operand]:
    yield lookup_sparse(x, rows, padding=padding)
    yield index(x, rows, pattern=(0,))


@rule(where_is=[argmax, argmin])
def integer_at_its_extreme(x: Operand, *, where_is: Function, axis: int) -> Iterator[Operand]:
    """The extreme of integers needs no place; that of floats does, where zeros of both signs, or NaN, are equal."""
    yield gather(x, where_is(x, axis=axis, keepdims=True), axis=axis)
    if dtype_kind(x) in "iu":
        yield (max if where_is is argmax else min)(x, axes=(axis,), keepdims=True)


@rule
def gather_one_of_a_row(x: Operand, indices: Operand, *, axis: int) -> Iterator[Operand]:
    yield gather(x, indices, axis=axis)
    kernel_type = dtype_kind(x) in "fiub" and x.array.dtype != np.float16
    size = x.shape[axis] if kernel_type and _one_each(indices, indices, tuple(x.shape), axis) else 0
    # Of what a kernel makes, element by element, it can look at each, and need not store them.
    if size and (size_value(size) <= MAX_STORED_ROW or (x.array.op is not None and x.array.op.scalar is not None)):
        here = _positions(indices, size, axis, len(x.shape))
        if dtype_kind(x) == "b":
            yield any(logical_and(here, x), axes=(axis,), keepdims=True)
        else:
            dtype = x.array.dtype
            least = -math.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)
            yield max(where(here, x, least), axes=(axis,), keepdims=True)


@rule
def scatter_one_to_a_row(x: Operand, indices: Operand, *, shape: tuple[int, ...], axis: int) -> Iterator[Operand]:
    yield scatter_add(x, indices, shape=shape, axis=axis)
    if _one_each(x, indices, shape, axis) and dtype_kind(x) in "fiub":
        here = _positions(indices, shape[axis], axis, len(shape))
        # As it is added to a zero, -0 becomes 0.
        yield where(here, add(x, 0.0) if dtype_kind(x) == "f" else x, 0.0 if dtype_kind(x) == "f" else 0)


def _one_each(x: Operand, indices: Operand, shape: tuple[int, ...], axis: int) -> bool:
    """True if x has one element for each row of an array of this shape."""
    if not shape or not 1 <= shape[axis] <= np.iinfo(POSITION_DTYPE).max:
        return False
    one = tuple(1 if d == axis else n for d, n in enumerate(shape))
    return tuple(x.shape) == tuple(indices.shape) == one


def _positions(indices: Operand, size: int, axis: int, rank: int) -> Tensor:
    """Return a mask that is true where the position along `axis` equals the index."""
    if dtype_kind(indices) == "i":
        indices = where(lt(indices, 0), add(indices, size), indices)
    column = reshape(
        iota(count=size, start=0, step=1, dtype=POSITION_DTYPE),
        shape=tuple(size if d == axis else 1 for d in range(rank)),
    )
    return eq(cast(indices, dtype=POSITION_DTYPE), column)
