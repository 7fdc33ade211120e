"""The backward walk, one node at a time, with the counts that say why a node may run."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from adjoint.autograd.backward import make_seed
from adjoint.autograd.engine.accumulate_grad import accumulate
from adjoint.autograd.engine.engine import pass_scope, run_nodes
from adjoint.autograd.engine.error_notes import add_node_note
from adjoint.autograd.engine.graph_task import UNDEFINED, GraphTask, OutputGrads
from adjoint.core.graph.node import GraphNode, Leaf, OutputSlot, Vertex
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.runtime.notebook import show_in_notebook
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

    def _repr_html_(self) -> str | None:
        return show_in_notebook(self)


class BackwardSteps(Iterator[Step]):
    """The steps of a backward pass, which run as they are asked for. A notebook shows all of them, with a slider."""

    def __init__(self, root: Tensor, gradient: Tensor | None, retain_graph: bool) -> None:
        self.root, self.gradient = root, gradient
        self.has_begun = False
        self._steps = _iter_steps(root, gradient, retain_graph)

    def __next__(self) -> Step:
        self.has_begun = True
        return next(self._steps)

    def close(self) -> None:
        """End the pass where it is; no gradient is accumulated."""
        self._steps.close()

    def __repr__(self) -> str:
        where = "under way" if self.has_begun else "not begun"
        return f"<steps of backward from {self.root.node!r}, {where}: iterate over them>"

    _repr_html_ = show_in_notebook


def backward_steps(root: Tensor, gradient: Tensor | None = None, retain_graph: bool = False) -> BackwardSteps:
    """`root.backward(gradient)`, stopping before each node: `for step in backward_steps(loss): print(step)`.

    The gradients are accumulated when the iterator has run to its end, not if it is dropped before. A notebook shows
    the iterator as a graph with a slider; that changes no `.grad`.
    """
    return BackwardSteps(root, gradient, retain_graph)


def _iter_steps(root: Tensor, gradient: Tensor | None, retain_graph: bool) -> Generator[Step, None, None]:
    gradients = GraphTask([make_seed(0, root, gradient)], retain_graph, create_graph=False)
    for node, g, counts in walk_nodes(gradients):
        queue = tuple(sorted((n for n, count in counts.items() if count == 0), key=lambda n: -n.sequence_nr))
        arrived = {other: _snapshot_gradient(gradients, value) for other, value in gradients.input_buffers.items()}
        yield Step(node, _snapshot_gradient(gradients, g), {node: 0, **counts}, queue, arrived)
    with np.errstate(all="ignore"), ModeScope(recording=False), pass_scope(gradients):
        accumulate(gradients)


def walk_nodes(gradients: GraphTask) -> Iterator[tuple[Vertex, Operand, dict[Vertex, int]]]:
    """Run the nodes of a backward pass; before each, yield it, its gradient, and the counts of those that wait.

    At the end the gradients of leaves stand in `gradients.input_buffers`.
    """
    counts = count_deliveries(gradients.input_buffers)
    nodes = run_nodes(gradients, stepwise=True)
    while True:
        with np.errstate(all="ignore"), ModeScope(recording=False), pass_scope(gradients):
            try:
                running = next(nodes, None)
            except Exception as error:
                add_node_note(error, run_nodes.__code__)
                raise
        if running is None:
            return
        node, g = running
        del counts[node]
        yield node, g, counts
        for parent in node.parents:
            if parent in counts:
                counts[parent] -= 1


def dependencies(root: Tensor) -> dict[Vertex, int]:
    """Return for each node below `root`, in the order in which they run, the number of edges that deliver to it.

    PyTorch's dependency count: an op that uses a tensor twice counts twice, a branch that does not lead to `root` not
    at all. Leaves are not counted; nothing waits for them.
    """
    return count_deliveries([] if root.node is None else [root.node])


def count_deliveries(roots: Iterable[Vertex]) -> dict[Vertex, int]:
    """Return the same for several roots."""
    counts: dict[Vertex, int] = {root: 0 for root in roots if type(root) is not Leaf}
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
