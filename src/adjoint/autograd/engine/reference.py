"""Reverse mode in its plainest form: the reference that the engine is tested against. Start reading here.

A gradient is the derivative of one number, the loss, with respect to an array. A node of the graph knows the nodes that
made its inputs, `parents`, and for each of them a rule: from the gradient of the node's output to that of this input.
The chain rule is then a walk from the loss back to the leaves. Each node runs once, after all nodes that use its
output, when its gradient is complete.

`engine` does the same walk faster. It also runs hooks, frees saved values, skips nodes that lead to no target, records
itself for second derivatives and keeps zeros exact behind `where`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from adjoint.autograd.engine.graph_task import UNDEFINED, GraphTask, OutputGrads, Root
from adjoint.autograd.engine.node_call import call_node
from adjoint.core.graph.node import Leaf, Vertex
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand


def compute_gradients(roots: Sequence[Root], targets: Iterable[Vertex]) -> list[Tensor | None]:
    """Return the gradients at the nodes `targets`, None where none arrives; `roots`: nodes and their gradients.

    The graph is left as it was. No hook of a tensor runs.
    """
    task = GraphTask((), retain_graph=True, create_graph=False)
    gradients: dict[Vertex, Operand] = {}  # for each node the gradient of its output, as far as it is summed
    for node, g in roots:
        gradients[node] = _add(gradients.get(node, UNDEFINED), g.array)
    with np.errstate(all="ignore"), ModeScope(recording=False):
        for node in sort_topologically(node for node, _ in roots):
            if type(node) is not Leaf and node in gradients:
                for parent, g in zip(node.parents, call_node(task, node, gradients[node]), strict=True):
                    if parent is not None:
                        gradients[parent] = _add(gradients.get(parent, UNDEFINED), g)
    arrays = [gradients.get(target, UNDEFINED) for target in targets]
    return [None if array is UNDEFINED else wrap(np.array(array)) for array in arrays]


def sort_topologically(roots: Iterable[Vertex]) -> list[Vertex]:
    """Return all nodes below the roots, each before its parents, by a depth-first search."""
    postorder, visited = [], set()
    stack = [(root, False) for root in roots]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            postorder.append(node)
        elif node not in visited:
            visited.add(node)
            stack.append((node, True))
            stack += [(parent, False) for parent in node.parents if parent is not None]
    return postorder[::-1]


def _add(x: Operand, y: Operand) -> Operand:
    """Return x + y of arrays, or of lists with one gradient for each output of a node."""
    if x is None or x is UNDEFINED:
        return y
    if y is None or y is UNDEFINED:
        return x
    return OutputGrads(map(_add, x, y)) if type(x) is OutputGrads else np.asarray(x + y)
