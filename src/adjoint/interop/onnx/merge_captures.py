"""One graph of several traces: the same equations, whose numbers may differ with the sizes of the free axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from adjoint.compiler.ir.graph import Argument, Constant, Graph, StateInput, Value
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Params, Shape
from adjoint.interop.onnx.capture import Capture
from adjoint.interop.onnx.free_numbers import StructureError, TracedValue, merge_trees
from adjoint.interop.onnx.modes import OnnxExporterError

VIEWS = ("slice", "expand", "reshape")


class MergedGraph(NamedTuple):
    """The traces as one graph: what is needed for the outputs, in order. `arrays`: those of states and constants."""

    inputs: list[TracedValue]
    states: list[TracedValue]
    equations: list[TracedValue]
    outputs: list[TracedValue]
    arrays: dict[tuple[int, ...], tuple[Array, ...]]
    tensors: dict[tuple[int, ...], Tensor]


def merge_captures(captures: Sequence[Capture], axes: str) -> MergedGraph:
    """Return the traces as one graph. Raises OnnxExporterError where they differ in more than sizes."""
    captures = [drop_whole_views(c) for c in captures]
    merge = _Merge(captures, axes)
    graph = merge.graph
    while (value := merge.next_value()) is not None:
        row = value.traces
        if value.op is not None:
            graph.equations.append(value)
        elif not isinstance(row[0].source, Argument):
            key = tuple(map(id, row))
            graph.states.append(value)
            graph.arrays[key] = tuple(_array_of(c, v) for c, v in zip(captures, row, strict=True))
            if row[0] in captures[0].tensors:
                graph.tensors[key] = captures[0].tensors[row[0]]
    for row in zip(*(c.inputs for c in captures), strict=True):
        graph.inputs.append(merge.known.get(id(row[0])) or merge.merge_row(row))
    if len({len(c.outputs) for c in captures}) > 1:
        raise OnnxExporterError(f"torch.onnx.export: the model has another number of outputs at other sizes of {axes}")
    for row in zip(*(c.outputs for c in captures), strict=True):
        try:
            graph.outputs.append(merge.find(row))
        except StructureError:
            merge.refuse(row[0])
    return graph


class _Merge:
    """The walk through the traces side by side.

    A view that changes nothing is left out of a trace: a slice of all elements, at one size. It is put in.
    """

    def __init__(self, captures: Sequence[Capture], axes: str) -> None:
        self.graph = MergedGraph([], [], [], [], {}, {})
        self.known: dict[int, TracedValue] = {}  # by the identity of the value in the first trace
        self._axes = axes
        self._queues = [list(reversed(_needed_values(c.outputs, c))) for c in captures]
        self._views: dict[tuple[int, int], Value] = {}  # put in: by the trace, and the identity of what they show

    def next_value(self) -> TracedValue | None:
        """Return the next value of all traces; None at their end."""
        heads = [queue[-1] if queue else None for queue in self._queues]
        if not any(heads):
            return None
        viewed = next((v for v in heads if v is not None and v.op is not None and v.op.name in VIEWS), None)
        row = []
        for i, (head, queue) in enumerate(zip(heads, self._queues, strict=True)):
            if viewed is not None and (head is None or head.op is not viewed.op):
                row.append(self._make_view(i, viewed, heads.index(viewed)))
            elif head is None:
                self.refuse(next(v for v in heads if v is not None))
            else:
                row.append(queue.pop())
        return self.merge_row(row)

    def _make_view(self, trace: int, like: Value, of: int) -> Value:
        """Return a view of all elements in one trace, where another one has the view `like`."""
        source = like.operands[0]
        merged = next((t for t in self.known.values() if t.traces[of] is source), None)
        if merged is None or len(like.shape) != len(source.shape):
            self.refuse(like)
        shown = merged.traces[trace]
        params: Params = {"shape": shown.shape}
        if like.op.name == "slice":
            params = {"bounds": tuple((0, n, 1) for n in shown.shape)}
        made = Value(like.op, (shown,), params, Spec(shown.shape, shown.dtype), like.origin)
        self._views[trace, id(shown)] = made
        return made

    def merge_row(self, row: Sequence[Value]) -> TracedValue:
        """Return one value of all traces as one."""
        first = row[0]
        for v in row:
            if v.op is not first.op or v.dtype != first.dtype or len(v.shape) != len(first.shape):
                self.refuse(v)
        try:
            inputs = tuple(
                self.find(xs) if isinstance(xs[0], Value) else merge_trees(xs)
                for xs in zip(*(v.inputs for v in row), strict=True)
            )
            params = {key: merge_trees(tuple(v.params[key] for v in row)) for key in first.params}
            shape: Shape = merge_trees(tuple(tuple(v.shape) for v in row))
        except (StructureError, ValueError, KeyError):
            self.refuse(first)
        value = TracedValue(first.op, inputs, params, shape, first.dtype, first.origin, tuple(row))
        self.known[id(first)] = value
        return value

    def find(self, xs: Sequence[Value]) -> TracedValue:
        """Return the merged value of these in the traces. Raises StructureError if there is none."""
        chains = [self._chain(i, x) for i, x in enumerate(xs)]
        for first in reversed(chains[0]):
            value = self.known.get(id(first))
            if value is not None and all(
                any(x is y for x in chain) for chain, y in zip(chains, value.traces, strict=True)
            ):
                return value
        raise StructureError

    def _chain(self, trace: int, value: Value) -> list[Value]:
        """Return a value of a trace, and the views of all of it that were put in, the last one last."""
        chain = [value]
        while (view := self._views.get((trace, id(chain[-1])))) is not None:
            chain.append(view)
        return chain

    def refuse(self, value: Value) -> NoReturn:
        """Raise OnnxExporterError: here the traces part."""
        what = "an input" if value.op is None else value.op.name
        what += f" at {value.origin.site}" if value.origin else ""
        raise OnnxExporterError(
            f"torch.onnx.export: at other sizes of {self._axes} the model computes something else, from {what} on: a "
            "graph has one path. Do not name that axis in dynamic_axes or dynamic_shapes, or let the path not depend "
            "on sizes"
        )


def _needed_values(outputs: Sequence[Value], traced: Capture) -> list[Value]:
    """Return the inputs and equations that the outputs depend on, in the order in which they came about."""
    needed: set[Value] = set()
    stack = list(outputs)
    while stack:
        value = stack.pop()
        if value not in needed:
            needed.add(value)
            stack.extend(value.operands)
    return [v for v in (*traced.graph.inputs, *traced.graph.equations) if v in needed]


def drop_whole_views(traced: Capture) -> Capture:
    """Return a trace without views of the same shape, which show all elements."""
    kept: dict[Value, Value] = {}
    equations = []
    for value in traced.graph.equations:
        inputs = tuple(kept.get(x, x) if isinstance(x, Value) else x for x in value.inputs)
        if value.op.name in VIEWS and value.shape == value.operands[0].shape:
            kept[value] = inputs[0]
            continue
        if any(x is not y for x, y in zip(inputs, value.inputs, strict=True)):
            kept[value] = value = Value(value.op, inputs, value.params, value, value.origin)
        equations.append(value)
    graph = Graph(traced.graph.name)
    graph.inputs, graph.equations = traced.graph.inputs, equations
    return traced._replace(graph=graph, outputs=[kept.get(x, x) for x in traced.outputs])


def _array_of(traced: Capture, value: Value) -> Array:
    if isinstance(value.source, Constant):
        return value.source.array
    if isinstance(value.source, StateInput):
        return np.asarray(traced.tensors[value].array)
    raise OnnxExporterError("torch.onnx.export: the model reads a number that differs from call to call")
