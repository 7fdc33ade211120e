"""Writing where a mask is true while its values are not known, for a step is traced: by `where`, and running counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.typing import Operand
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

MISMATCH = "shape mismatch: value tensor of shape {} cannot be broadcast"


def masked_assign_traced(region: Tensor, mask: Tensor, at: int, value: Tensor, accumulate: bool) -> Operand:
    """Return `region` with `value`, or with it added, where `mask` is true, which spans its dimensions from `at` on.

    `value` broadcasts to what the mask would choose: one dimension, as long as the mask has truths, in place of its
    own. Raises RuntimeError, if need be when the step runs, where it does not.
    """
    shape, end = region.array.shape, at + mask.ndim
    after = len(shape) - end
    value = drop_leading_ones(value, at + 1 + after)
    given = value.array.shape
    if value.ndim > after:
        count, along = given[-after - 1], value.ndim - after - 1
        if count != 1:
            chosen = ", ".join(map(str, (*shape[:at], "{}", *shape[end:])))
            complaint = f"{MISMATCH.format(list(given))} to indexing result of shape [{chosen}]"
            indexing.check_range(_count_true(mask), count + 1, complaint, low=count, error=RuntimeError)
            value = _take_along_mask(value, mask, along)
        else:
            value = movement.reshape(value, shape=(*given[:along], *(1,) * mask.ndim, *given[along + 1 :]))
    try:
        fits = broadcast_shapes(value.array.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"{MISMATCH.format(list(given))} to the elements that a mask of shape {list(mask.array.shape)} chooses of "
            f"{list(shape)}"
        )
    where = movement.reshape(mask, shape=(*mask.array.shape, *(1,) * after))
    if accumulate:
        return arithmetic.add(region, select.where(where, value, np.zeros((), region.array.dtype)))
    return select.where(where, value, region)


def masked_scatter_traced(input: Tensor, mask: Tensor, source: Tensor) -> Operand:
    """Return `input` with the elements where `mask`, of the same shape, is true taken from `source` in order."""
    total, have = _count_true(mask), source.numel()
    complaint = "Number of elements of source < number of ones in mask"
    indexing.check_range(total, have + 1, complaint, low=0, error=RuntimeError)
    return select.where(mask, _take_along_mask(movement.reshape(source, shape=(have,)), mask, 0), input)


def drop_leading_ones(value: Tensor, ndim: int) -> Tensor:
    """Return `value` without the leading dimensions of size 1 that it has beyond `ndim`."""
    given = value.array.shape
    extra = len(given) - ndim
    return movement.reshape(value, shape=given[extra:]) if extra > 0 and set(given[:extra]) == {1} else value


def _take_along_mask(value: Tensor, mask: Tensor, axis: int) -> Tensor:
    """Replace a dimension by those of the mask: its elements in order where that is true, elsewhere any."""
    shape = value.array.shape
    before, count, rest = shape[:axis], shape[axis], shape[axis + 1 :]
    if not count:
        nothing = reduction.sum(value, axes=(axis,), keepdims=True)
        nothing = movement.reshape(nothing, shape=(*before, *(1,) * mask.ndim, *rest))
        return movement.expand(nothing, shape=(*before, *mask.array.shape, *rest))
    places = arithmetic.sub(reduction.cumsum(_mask_as_integers(mask), axis=0), 1)
    places = arithmetic.minimum(arithmetic.maximum(places, 0), count - 1)
    taken = indexing.index(value, places, pattern=(None,) * axis + (0,))
    return movement.reshape(taken, shape=(*before, *mask.array.shape, *rest))


def _mask_as_integers(mask: Tensor) -> Tensor:
    """Return the mask in one row, as integers."""
    return select.cast(movement.reshape(mask, shape=(mask.numel(),)), dtype=np.dtype(np.int64))


def _count_true(mask: Tensor) -> Tensor:
    return reduction.sum(_mask_as_integers(mask), axes=(0,), keepdims=False)
