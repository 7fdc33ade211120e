"""Batches of positions: `index`, its transpose and its assignment, where x, the index arrays or both are batched.

NumPy puts the dimensions of the index arrays where these stand, or in front where others lie between. Dimensions go by
labels here: "batch", ("index", i), ("kept", d); what NumPy does and what an example is to look like are two orders.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Params
from adjoint.ops.indexing import indexing
from adjoint.ops.indexing.row_positions import Pattern
from adjoint.ops.movement.movement import permute
from adjoint.ops.mutation.view_update import put_index
from adjoint.transforms.vmap.batching_rules import (
    BatchOperand,
    BatchOperands,
    batch_to_front,
    example_shape,
    pad_example_rank,
    register_rule,
)

BATCH = ("batch", 0)
Label = tuple[str, int]


class IndexLayout(NamedTuple):
    """The index arrays and the pattern that do it for all examples, and the order in which NumPy has the result."""

    arrays: list[object]
    pattern: Pattern
    order: list[Label]
    result_order: list[Label]

    def to_wanted(self, x: Tensor) -> Tensor:
        """Return NumPy's result with the batch in front, and the example's dimensions in their order."""
        return permute(x, axes=tuple(self.order.index(label) for label in self.result_order))

    def from_wanted(self, x: Tensor) -> Tensor:
        """Return the inverse of `to_wanted`."""
        return permute(x, axes=tuple(self.result_order.index(label) for label in self.order))


def _plan_layout(indices: BatchOperands, pattern: Pattern, rank: int, x_batched: bool, size: int) -> IndexLayout:
    """Return the plan; `rank` is that of an example of x, and `x_batched` says whether x has the batch in front."""
    pattern = pattern + (None,) * (rank - len(pattern))
    depth = max(len(example_shape(i)) for i in indices)
    middle: list[Label] = [("index", i) for i in range(depth)]
    kept: list[Label] = [("kept", d) for d, slot in enumerate(pattern) if slot is None]
    wanted = [BATCH, *_label_order(pattern, middle, kept)]
    arrays = [pad_example_rank(i, depth) for i in indices]
    if not any(i.batched for i in indices):
        whole: Pattern = (None, *pattern)
        return IndexLayout(arrays, whole, _label_order(whole, middle, [BATCH, *kept]), wanted)
    if not x_batched:
        return IndexLayout(arrays, pattern, _label_order(pattern, [BATCH, *middle], kept), wanted)
    own = constant(np.arange(size, dtype=np.int64).reshape(size, *(1,) * depth))
    whole = (0, *(None if slot is None else slot + 1 for slot in pattern))
    return IndexLayout([own, *arrays], whole, _label_order(whole, [BATCH, *middle], kept), wanted)


def _label_order(pattern: Pattern, middle: list[Label], kept: list[Label]) -> list[Label]:
    at = [d for d, slot in enumerate(pattern) if slot is not None]
    front = at[0] if at[-1] - at[0] + 1 == len(at) else 0
    return [*kept[:front], *middle, *kept[front:]]


@register_rule(indexing.index)
def _index_rule(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    x, *indices = operands
    layout = _plan_layout(indices, params["pattern"], len(example_shape(x)), x.batched, size)
    return layout.to_wanted(indexing.index(x.value, *layout.arrays, pattern=layout.pattern))


@register_rule(indexing.index_add)
def _index_add_rule(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    x, *indices = operands
    shape = params["shape"]
    layout = _plan_layout(indices, params["pattern"], len(shape), True, size)
    values = layout.from_wanted(batch_to_front(x, size))
    return indexing.index_add(values, *layout.arrays, shape=(size, *shape), pattern=layout.pattern)


@register_rule(put_index)
def _put_index_rule(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    x, value, *indices = operands
    layout = _plan_layout(indices, params["pattern"], len(example_shape(x)), True, size)
    given = value.value
    if hasattr(given, "shape"):
        given = layout.from_wanted(
            pad_example_rank(BatchOperand(batch_to_front(value, size), True), len(layout.order) - 1)
        )
    return put_index(batch_to_front(x, size), given, *layout.arrays, pattern=layout.pattern)
