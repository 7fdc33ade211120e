"""A node whose gradient carries a mask of `where`, in a pass on bare arrays: the masks are computed when a rule asks.

Most masks come to nothing: they are dropped where a gradient without one is added, or end at a leaf. Until then a link
says how the mask follows from that of the node before. Only a rule that reads values could make NaN of a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.autograd.engine.node_call import recompute_typed, sum_to_input
from adjoint.autograd.engine.saved_values import make_rule_call, rule_arguments, saved_arrays
from adjoint.autograd.engine.where_masks import (
    MOVEMENT_OPS,
    apply_where_mask,
    is_elementwise,
    kept_dims,
    sum_mask_to_input,
)
from adjoint.core.graph.node import Leaf, Node
from adjoint.core.graph.not_implemented import refuse_gradient
from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.typing import Array, Operand

if TYPE_CHECKING:
    from adjoint.autograd.engine.graph_task import GraphTask

ndarray = np.ndarray
MAX_LINKS = 40  # links that one mask waits for: they are followed by recursion


class MaskLink:
    """The mask of what goes to parent `i` of a node, whose own mask is `mask` (None: all of its gradient counts).

    `condition`: where the node is a `where`, its condition. `other`: a second mask, which must block as well.
    """

    __slots__ = ("_found", "condition", "i", "length", "mask", "node", "other")

    def __init__(self, node: Node, i: int, mask: MaskLink | None, condition: Operand = None) -> None:
        self.node, self.i, self.mask, self.condition = node, i, mask, condition
        self.other: MaskLink | None = None
        self.length: int = 1 if mask is None else mask.length + 1
        self._found: Array | bool | None = False
        if self.length > MAX_LINKS:
            self.array()

    @classmethod
    def of_array(cls, node: Node, mask: Array) -> MaskLink:
        """Return a mask that is known."""
        link = cls(node, 0, None)
        link._found = mask
        return link

    def __and__(self, other: MaskLink) -> MaskLink:
        both = MaskLink(self.node, self.i, self.mask, self.condition)
        both._found, both.other = self._found, other
        both.length = max(self.length, other.length) + 1
        if both.length > MAX_LINKS:
            both.array()
        return both

    def array(self) -> Array | None:
        """Return the mask; None if it blocks nothing."""
        if self._found is False or self.other is not None:
            found = self._compute() if self._found is False else self._found
            if self.other is not None:
                second = self.other.array()
                found = None if found is None or second is None else found & second
            # between numbers, NumPy's operators give scalars
            self._found = np.asarray(found) if found is not None and np.any(found) else None
            self.mask = self.condition = self.other = None
            self.length = 1
        assert self._found is None or type(self._found) is np.ndarray
        return self._found

    def _compute(self) -> Operand:
        node, i = self.node, self.i
        before = None if self.mask is None else self.mask.array()
        if self.condition is not None:
            own = np.broadcast_to(np.logical_not(self.condition) if i == 1 else self.condition, node.shape)
            found: Any = own if before is None else own | before
        elif before is None:
            return None
        elif node.op.family == "reduction":
            assert node.shapes is not None
            found = np.broadcast_to(before.reshape(kept_dims(node)), node.shapes[0])
        elif node.op.name in MOVEMENT_OPS:
            rule: Operand = node.op.rule(i)
            found = rule(before, *rule_arguments(node, rule, None, i))
            found = getattr(found, "array", found)
        else:
            found = before
        parent = node.parents[i]
        return found if parent is None or found.shape == parent.shape else sum_mask_to_input(found, parent.shape)


def run_masked_node(gradients: GraphTask, node: Node, g: Array, mask: MaskLink | None) -> list[Operand]:
    """Deliver to the parents of a node what its rules give, and their masks; return those reached first.

    The op is one of real arrays that passes masks on, and the node has no hooks. As in the walk itself, calls of other
    functions are written out.
    """
    op, useful, arrived = node.op, gradients.needed_nodes, gradients.input_buffers
    saved = node.saved_values
    if saved is not None and (type(saved) is not tuple or node.sequence_nr < mutation_log.last):
        saved = saved_arrays(gradients, node)
    rules, positions, calls, dtype = op.rules, op.saved_slots, op.rule_calls, node.dtype
    last = len(rules) - 1
    by_element = passes_masks(op) == BY_ELEMENT
    reads = by_element and mask is not None and op.where_mask is None  # a `where` chooses zeros, and computes nothing
    reached: list[Operand] = []
    i = -1
    for parent in node.parents:
        i += 1
        if parent is None or (useful is not None and parent not in useful):
            continue
        rule: Operand = rules[i] if i < last else rules[last]
        if rule is None:
            refuse_gradient(parent)
        slots = positions[i] if i < last else positions[last]
        arguments: Sequence[Operand] = ()
        if reads:
            arguments = (saved[slots],) if type(slots) is int else rule_arguments(node, rule, saved, i)
            d = rule(g, *arguments)
        elif type(slots) is int:
            d = rule(g, saved[slots])
        else:
            d = (calls[min(i, last)] or make_rule_call(op, i))(g, node, saved, i)
        if type(d) is not ndarray or d.dtype is not dtype:
            d = recompute_typed(gradients, node, rule, d, g, i)
        if reads and mask is not None and arguments:
            # one finite number makes no NaN of a zero
            is_number = len(arguments) == 1 and type(arguments[0]) in (int, float) and isfinite(arguments[0])
            blocked = None if is_number else mask.array()
            if blocked is not None:
                d = apply_where_mask(d, blocked)
        if d.shape != parent.shape or parent.dtype is not dtype:
            d = sum_to_input(gradients, d, parent)
        before = arrived.get(parent)
        if before is None:
            arrived[parent] = d
        else:
            gradients.add_gradient(parent, d)
        if type(parent) is Leaf:
            continue
        if op.where_mask is not None:
            passed: MaskLink | None = MaskLink(node, i, mask, saved[0])
        elif mask is None or (by_element and parent.shape == node.shape):
            passed = mask
        else:
            passed = MaskLink(node, i, mask)
        if before is None:
            reached.append(parent)
            if passed is not None:
                gradients.where_masks[parent] = d, passed
        elif passed is not None:
            gradients.block(parent, passed, before)
    return reached


BY_ELEMENT, BY_PLACE = 2, 1


@cache
def passes_masks(op: Op) -> int:
    """Return how an op passes a mask on: element by element, by moving or reducing it, or, if 0, not at all."""
    if is_elementwise(op):
        return BY_ELEMENT
    return BY_PLACE if op.family == "reduction" or op.name in MOVEMENT_OPS else 0
