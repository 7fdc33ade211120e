"""The backward walk, one node at a time, with the counts that say why a node may run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from adjoint.autograd.backward import make_seed
from adjoint.autograd.engine.accumulate_grad import accumulate
from adjoint.autograd.engine.engine import pass_scope, run_nodes
from adjoint.autograd.engine.error_notes import add_node_note
from adjoint.autograd.engine.graph_task import UNDEFINED, GraphTask, OutputGrads
from adjoint.core.graph.node import GraphNode, Leaf, OutputSlot, Vertex
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand


class Step(NamedTuple):
    """The moment before a node runs.

    `gradient`: what arrived for it (a tuple for a node with several outputs); `counts`: for each node that has not run,
    how many edges have yet to deliver to it; `queue`: the nodes, newest first, which wait for nothing any more, `node`
    not among them; `gradients`: what has arrived elsewhere.
    """

    node: Any
    gradient: Operand
    counts: dict[Vertex, int]
    queue: tuple[Vertex, ...]
    gradients: dict[Vertex, Operand]

    def __repr__(self) -> str:
        waiting = ", ".join(f"{_name(node)}: {count}" for node, count in self.counts.items())
        return f"Step({_name(self.node)}, queue=[{', '.join(map(_name, self.queue))}], counts={{{waiting}}})"


def backward_steps(root: Tensor, gradient: Tensor | None = None, retain_graph: bool = False) -> Iterator[Step]:
    """`root.backward(gradient)`, stopping before each node: `for step in backward_steps(loss): print(step)`.

    The gradients are accumulated when the iterator has run to its end, not if it is dropped before.
    """
    counts = dependencies(root)
    gradients = GraphTask([make_seed(0, root, gradient)], retain_graph, create_graph=False)
    nodes = run_nodes(gradients, stepwise=True)
    while True:
        with np.errstate(all="ignore"), ModeScope(recording=False), pass_scope(gradients):
            try:
                running = next(nodes, None)
            except Exception as error:
                add_node_note(error, run_nodes.__code__)
                raise
        if running is None:
            break
        node, g = running
        del counts[node]
        queue = tuple(sorted((n for n, count in counts.items() if count == 0), key=lambda n: -n.sequence_nr))
        arrived = {other: _snapshot_gradient(gradients, value) for other, value in gradients.input_buffers.items()}
        yield Step(node, _snapshot_gradient(gradients, g), {node: 0, **counts}, queue, arrived)
        for parent in node.parents:
            if parent in counts:
                counts[parent] -= 1
    with np.errstate(all="ignore"), ModeScope(recording=False), pass_scope(gradients):
        accumulate(gradients)


def dependencies(root: Tensor) -> dict[Vertex, int]:
    """Return for each node below `root`, in the order in which they run, the number of edges that deliver to it.

    PyTorch's dependency count: an op that uses a tensor twice counts twice, a branch that does not lead to `root` not
    at all. Leaves are not counted; nothing waits for them.
    """
    counts: dict[Vertex, int] = {} if root.node is None or type(root.node) is Leaf else {root.node: 0}
    stack = list(counts)
    while stack:
        for parent in stack.pop().parents:
            if parent is None or type(parent) is Leaf:
                continue
            if parent not in counts:
                counts[parent] = 0
                stack.append(parent)
            counts[parent] += 1
    return {node: counts[node] for node in sorted(counts, key=lambda node: -node.sequence_nr)}


def _snapshot_gradient(gradients: GraphTask, g: Array | OutputGrads | None) -> Tensor | tuple[Operand, ...] | None:
    """Return a gradient as it is now: later steps do not change it."""
    if type(g) is OutputGrads:
        return tuple(_snapshot_gradient(gradients, one) for one in g)
    tensor = None if g is UNDEFINED else gradients.wrap_gradient(g)
    if tensor is not None and gradients.on_arrays:
        tensor.array = tensor.array.copy()
    return tensor


def _name(node: GraphNode | OutputSlot | Leaf) -> str:
    return f"{_name(node.owner)}[{node.number}]" if type(node) is OutputSlot else str(node.name())
