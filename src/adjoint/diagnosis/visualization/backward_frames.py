"""Frames of a backward pass for the viewer's slider: which node runs, what arrives, what is added, what is freed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from adjoint.autograd.backward import make_seed
from adjoint.autograd.debug.backward_steps import walk_nodes
from adjoint.autograd.engine.graph_task import GraphTask, OutputGrads
from adjoint.core.graph.node import GraphNode, Leaf, OutputSlot, Vertex
from adjoint.core.op.spec import describe
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.core.viewer.document import DetailTable, Walk, WalkFrame
from adjoint.diagnosis.visualization.graph_contents import SAVED_BYTES, GraphContents, label_of

MAX_QUEUE = 6
GRADIENT_BYTES = "gradient bytes"


def record_backward(contents: GraphContents, gradient: Tensor | None = None) -> Walk:
    """Run the backward pass of the roots, and note each step; no `.grad` changes, and nothing is freed.

    `gradient` enters at the root, of which there is one then.

    The values that a pass frees are those that it would free without `retain_graph`. Hooks run, but not those of
    leaves.

    Raises: RuntimeError for a root that is no scalar and has no gradient, or a graph that was freed.
    """
    for name, root in contents.roots:
        if gradient is None and root.array.size != 1:
            raise RuntimeError(
                f"visualize: backward=True starts at scalars, as backward() does, and {name} has shape "
                f"{list(root.array.shape)}: reduce it first, as in .sum()"
            )
    seeds = [make_seed(i, root, gradient) for i, (_, root) in enumerate(contents.roots) if root.node is not None]
    recorder = _FrameRecorder(contents, GraphTask(seeds, retain_graph=True, create_graph=False))
    return Walk("backward", tuple(recorder.frames()), is_backward=True)


@dataclass
class _Running:
    """The node that runs, which receivers had a gradient before, and the nodes that wait for nothing more."""

    node: GraphNode
    gradient: Operand
    before: set[Vertex]
    states: dict[str, str]
    queue: Sequence[Vertex]


class _FrameRecorder:
    """A backward pass that is noted; a frame is complete when its node has run, so that it tells what that gave."""

    def __init__(self, contents: GraphContents, task: GraphTask) -> None:
        self.contents, self.task = contents, task
        task.pending_edges.clear()  # else leaves with hooks would get their .grad on the way
        self.saved = sum(v.nbytes for values in contents.kept.values() for v in values if not v.of_leaf)
        self.states: dict[str, str] = {}  # of the next frame: the node that has run is done
        self.ready: dict[Vertex, None] = {}

    def frames(self) -> Iterator[WalkFrame]:
        """Run the pass; yield a frame for each node, and one for the leaves."""
        running: _Running | None = None
        last: Vertex | None = None
        for node, gradient, counts in walk_nodes(self.task):
            if last is None:
                self.ready = {vertex: None for vertex, count in counts.items() if count == 0}
            for parent in () if last is None else last.parents:
                if parent is not None and counts.get(parent) == 0:
                    self.ready[parent] = None
            self.ready.pop(node, None)
            last = node
            if running is not None:
                yield self._finish(running, {node: gradient})
            running = self._begin(node, gradient) if isinstance(node, GraphNode) else None
        if running is not None:
            yield self._finish(running, {})
        if self.contents.leaves:
            yield self._accumulate()

    def _begin(self, node: GraphNode, gradient: Operand) -> _Running:
        queue = [vertex for vertex in self.ready if not isinstance(vertex, OutputSlot)]
        states = {self.contents.keys[vertex]: "ready" for vertex in queue}
        states[self.contents.keys[node]] = "running"
        copy = gradient.copy() if isinstance(gradient, np.ndarray) else gradient
        before = {parent for parent in node.parents if parent is not None and parent in self.task.input_buffers}
        return _Running(node, copy, before, states, queue)

    def _finish(self, running: _Running, following: Mapping[Vertex, Operand]) -> WalkFrame:
        """Return the frame of a node that has run; `following`: the next node and its gradient."""
        node, key = running.node, self.contents.keys[running.node]
        notes = dict.fromkeys(self.states, "")
        given = list(self._list_given(running, {**self.task.input_buffers, **following}))
        for vertex, (_, text, norm, _) in zip(self._receivers(node), given, strict=True):
            if text:
                notes[self.contents.keys[vertex]] = f"‖∇‖ {norm}"
        freed = [value for value in self.contents.kept.get(node, ()) if not value.of_leaf]
        freed_bytes = sum(value.nbytes for value in freed)
        self.saved -= freed_bytes
        names = [label_of(vertex) for vertex in running.queue if isinstance(vertex, GraphNode)]
        if len(names) > MAX_QUEUE:
            names = [*names[:MAX_QUEUE], f"{len(names) - MAX_QUEUE:,} more"]
        rows = [
            ("runs", f"{node.name()}, recorded at {self.contents.sites[node].describe_briefly()}"),
            ("arrives", _describe_gradient(running.gradient)),
            ("frees", f"{pluralize(len(freed), 'value')}, {freed_bytes:,} bytes" if freed else "nothing"),
            ("ready", ", ".join(names) or "nothing else"),
        ]
        states = {**self.states, **running.states}
        self.states = {key: "done"}
        held = sum(map(_nbytes, (*self.task.input_buffers.values(), *following.values())))
        amounts = {SAVED_BYTES: self.saved, GRADIENT_BYTES: held}
        tables = (DetailTable("gives", ("to", "gradient", "norm", ""), tuple(given), right=(2,)),) if given else ()
        return WalkFrame(key, f"{label_of(node)} runs", tuple(rows), states, notes, amounts, tables)

    @staticmethod
    def _receivers(node: GraphNode) -> list[Vertex]:
        return list(dict.fromkeys(parent for parent in node.parents if parent is not None))

    def _list_given(
        self, running: _Running, gradients: Mapping[Vertex, Operand]
    ) -> Iterator[tuple[str, str, str, str]]:
        """Yield for each receiver its name, the gradient there now, its norm, and whether it was added to another."""
        for vertex in self._receivers(running.node):
            now = gradients.get(vertex)
            times = sum(parent is vertex for parent in running.node.parents)
            was = vertex in running.before
            how = "added to what had arrived" if was else "first to arrive" if times == 1 else f"sum of {times}"
            if isinstance(vertex, OutputSlot) and isinstance(now, OutputGrads):
                now = now[vertex.number]
            if not isinstance(now, np.ndarray):
                yield self._name(vertex), "", "", "" if now is None else "no gradient"
            else:
                yield self._name(vertex), describe(now), format_norm(now), how

    def _name(self, vertex: Vertex) -> str:
        if isinstance(vertex, Leaf):
            return self.contents.leaf_names.get(vertex, "leaf")
        if isinstance(vertex, OutputSlot):
            return f"{label_of(vertex.owner)}, output {vertex.number}"
        return label_of(vertex)

    def _accumulate(self) -> WalkFrame:
        """Return the last frame: the leaves add what has arrived to their `.grad`."""
        rows, states = [], dict(self.states)
        for leaf in self.contents.leaves:
            states[self.contents.keys[leaf]] = "done"
            gradient, tensor = self.task.input_buffers.get(leaf), leaf.variable
            if isinstance(gradient, np.ndarray):
                held = tensor.grad if isinstance(tensor, Tensor) else None
                how = "becomes .grad" if held is None else f"added to .grad of norm {format_norm(held.array)}"
                rows.append((self._name(leaf), describe(gradient), format_norm(gradient), how))
        table = DetailTable("accumulated", ("leaf", "gradient", "norm", ""), tuple(rows), right=(2,))
        told = (("leaves", f"{len(rows):,} get a gradient"),)
        notes = dict.fromkeys(self.states, "")
        amounts = {SAVED_BYTES: 0, GRADIENT_BYTES: sum(map(_nbytes, self.task.input_buffers.values()))}
        return WalkFrame("", "leaves accumulate", told, states, notes, amounts, (table,))


def _nbytes(gradient: Operand) -> int:
    if isinstance(gradient, OutputGrads):
        return sum(map(_nbytes, gradient))
    return getattr(gradient, "nbytes", 0)


def format_norm(gradient: Operand) -> str:
    """Return the Euclidean norm of an array, to four digits."""
    sizes = np.abs(gradient) if gradient.dtype.kind == "c" else gradient.astype(np.float64)
    with np.errstate(all="ignore"):
        return f"{float(np.sqrt(np.sum(sizes * sizes))):.4g}"


def _describe_gradient(gradient: Operand) -> str:
    if isinstance(gradient, OutputGrads):
        return "; ".join("nothing" if one is None else _describe_gradient(one) for one in gradient)
    if not isinstance(gradient, np.ndarray):
        return "nothing"
    text = f"{describe(gradient)}, norm {format_norm(gradient)}"
    return text if gradient.size != 1 else f"{describe(gradient)}, {gradient.item():.6g}"
