"""One node of a backward pass that is itself recorded, for a second derivative: its rules run as ops on tensors.

This is the part of `call_node` for an op of real tensors without hooks and masks, with its calls of other functions
written out: for a product it takes two thirds of the time.
"""

from __future__ import annotations

import numpy as np

from adjoint.autograd.engine.graph_task import GraphTask
from adjoint.autograd.engine.node_call import sum_to_input
from adjoint.autograd.engine.saved_values import make_rule_call, unpack_node_values
from adjoint.core.graph.node import Leaf, Node, Vertex
from adjoint.core.graph.not_implemented import refuse_gradient
from adjoint.core.op.recorder import allocate_tensor
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.tensor import Tensor, restore_saved
from adjoint.core.typing import Operand

ndarray = np.ndarray


def can_run_recorded(node: Vertex, g: Operand) -> bool:
    """Return whether `run_recorded_node` can take the place of `call_node`, where no mode needs the slow path."""
    return (
        isinstance(node, Node)
        and node.op.fast_backward
        and node.hooks is None
        and type(g) is Tensor
        and type(g.array) is ndarray
        and node.dtype.kind != "c"
    )


def run_recorded_node(gradients: GraphTask, node: Node, g: Tensor) -> list[Operand]:
    """Deliver to the parents of a node what its rules give, as tensors with a history; return those reached first."""
    op, useful, arrived, parents = node.op, gradients.needed_nodes, gradients.input_buffers, node.parents
    saved: Operand = node.saved_values
    if saved is not None:
        if type(saved) is not tuple or node.sequence_nr < mutation_log.last:
            saved = unpack_node_values(gradients, node)
        saved = _restore_all(saved, node)
    rules, positions, calls = op.rules, op.saved_slots, op.rule_calls
    last = len(rules) - 1
    reached: list[Operand] = []
    i = -1
    for parent in parents:
        i += 1
        if parent is None or (useful is not None and parent not in useful):
            continue
        rule = rules[i] if i < last else rules[last]
        if rule is None:
            refuse_gradient(parent)
        slots = positions[i] if i < last else positions[last]
        if type(slots) is int:
            d: Operand = rule(g, saved[slots])
        else:
            d = (calls[min(i, last)] or make_rule_call(op, i))(g, node, saved, i)
        array = d.array
        if type(array) is not ndarray or array.shape != parent.shape or array.dtype is not parent.dtype:
            d = sum_to_input(gradients, d, parent)
        if parent in arrived:
            gradients.add_gradient(parent, d)
        else:
            arrived[parent] = d
            if type(parent) is not Leaf:
                reached.append(parent)
    return reached


def _restore_all(saved: tuple[Operand, ...], node: Node) -> list[Operand]:
    """Return the saved values as tensors with their history, as `saved_as_tensors` does."""
    restored: list[Operand] = []
    for value, maker in zip(saved, (*node.parents, node), strict=True):
        if value is None:
            restored.append(None)
        elif type(value) is not ndarray or type(maker) is Leaf:
            restored.append(restore_saved(value, maker))
        else:
            tensor = allocate_tensor()
            tensor.array, tensor.node = value, maker
            tensor._grad = tensor.storage_ = None
            restored.append(tensor)
    return restored
