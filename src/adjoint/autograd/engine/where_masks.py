"""Masks for the branch that `where` did not choose: its gradient stays 0 even where a slope is infinite.

`where(a <= 0, exp(a), 1 + a)` at a = 100 chooses `1 + a`. A zero sent back through `exp` would meet exp(100) = inf and
become NaN. So a mask goes along with such a gradient from node to node, as long as elements correspond: through
elementwise ops, which give exactly 0 under it, and through movements and reductions. It is dropped where a gradient
without a mask is added, and at all other ops.

Source: pytorch#52248, pytorch#68425.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.autograd.engine.saved_values import rule_arguments, unpack_node_values
from adjoint.core.graph.node import GraphNode, Leaf, Node, OutputSlot
from adjoint.core.op.eager_kernels import kernel_provider
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor, restore_saved, wrap
from adjoint.core.typing import Array, Operand
from adjoint.ops.elementwise.select import FILL, choose
from adjoint.ops.movement.movement import expand, reshape
from adjoint.ops.reduction.reduction import all

if TYPE_CHECKING:
    from adjoint.autograd.engine.graph_task import GraphTask

ELEMENTWISE_FAMILIES = frozenset({"unary", "binary", "elementwise"})
MOVEMENT_OPS = frozenset({"reshape", "permute", "flip", "slice", "select", "pad", "expand", "cat", "roll"})


def is_elementwise(op: Op) -> bool:
    """True if each element of a result is computed from one of each operand, in one op or in several made one."""
    return op.family in ELEMENTWISE_FAMILIES or (
        op.family == "fused" and op.preserves_strides and op.name != "euclidean_norm"
    )


def apply_where_mask(d: Operand, mask: Operand) -> Operand:
    """Return `d`, an array or a tensor, with exact zeros where there is no gradient."""
    if isinstance(d, Tensor):
        return choose(mask, 0.0, d)
    if kernel_provider.enabled and mask.shape == d.shape and (found := FILL.call(d, mask, 0.0)) is not None:
        return found
    return np.where(mask, d.dtype.type(0), d)


def propagate_where_mask(gradients: GraphTask, node: GraphNode | OutputSlot, mask: Operand) -> list[Operand] | None:
    """Return for each input of an op the mask of no gradient, None if unknown; `mask` is the output's."""
    masks: list[Operand]
    if not isinstance(node, Node):
        return None
    op = node.op
    if op.where_mask is not None:
        condition = restore_saved(unpack_node_values(gradients, node)[0], None)
        # the ranks first: sizes at different places, of which some may be symbols, are not to be compared
        if (condition.ndim, *condition.shape) != (len(node.shape), *node.shape):
            condition = expand(condition, shape=node.shape)
        masks = list(op.where_mask(condition.array if gradients.on_arrays else condition))
        if mask is not None:
            masks = [None if m is None else m | mask for m in masks]
    elif is_elementwise(op):
        masks = [mask] * len(node.parents)
    elif op.family == "reduction" and node.params is not None and node.shapes is not None:
        masks = [expand(reshape(_tensor(mask), shape=kept_dims(node)), shape=node.shapes[0])]
    elif op.name in MOVEMENT_OPS:
        rules: list[Operand] = [op.rule(i) for i in range(len(node.parents))]  # a mask moves back as a gradient does
        masks = [
            None if parent is None else rule(mask, *rule_arguments(node, rule, None, i))
            for i, (parent, rule) in enumerate(zip(node.parents, rules, strict=True))
        ]
    else:
        return None
    masks = [
        None if m is None or parent is None or type(parent) is Leaf else _reduce_mask(gradients, m, parent.shape)
        for m, parent in zip(masks, node.parents, strict=True)
    ]
    # a mask that blocks nothing would send all that is behind it the slow way
    return [None if type(m) is np.ndarray and not m.any() else m for m in masks]


def kept_dims(node: Node) -> tuple[int, ...]:
    """Return the shape of what a reduction reduced, with 1 for the dimensions that it reduced."""
    assert node.params is not None
    assert node.shapes is not None
    return tuple([1 if i in node.params["axes"] else n for i, n in enumerate(node.shapes[0])])


def sum_mask_to_input(mask: Array, shape: tuple[int, ...]) -> Array:
    """Return a mask over what an input was broadcast to, as one over the input: blocked where all its copies are."""
    extra = mask.ndim - len(shape)
    axes = tuple([d for d in range(mask.ndim) if d < extra or (shape[d - extra] == 1 and mask.shape[d] != 1)])
    return np.logical_and.reduce(mask, axis=axes).reshape(shape)


def _tensor(value: Operand) -> Tensor:
    return wrap(value) if hasattr(value, "dtype") and not isinstance(value, Tensor) else value


def _reduce_mask(gradients: GraphTask, mask: Operand, shape: tuple[int, ...]) -> Operand:
    """Return a mask over what an input was broadcast to, as one over the input: blocked where all its copies are."""
    mask = _tensor(mask)
    have = tuple(mask.shape)
    if have != shape:
        extra = len(have) - len(shape)
        axes = tuple(d for d in range(len(have)) if d < extra or (shape[d - extra] == 1 and have[d] != 1))
        mask = reshape(all(mask, axes=axes, keepdims=True), shape=shape)
    return mask.array if gradients.on_arrays else mask
