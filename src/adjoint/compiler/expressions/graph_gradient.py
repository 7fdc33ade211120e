"""The gradient of a graph, as more equations of it: by the rules and the walk that eager backward has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from adjoint.autograd.engine.engine import run_grad
from adjoint.compiler.expressions.builder import DETACH, Expression
from adjoint.compiler.ir.graph import Graph, Value, ValueOrigin, op_of
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.graph.node import Leaf, Node, Vertex, next_sequence_nr
from adjoint.core.graph.not_implemented import Undifferentiable
from adjoint.core.graph.source_location import Site
from adjoint.core.op.spec import Spec, describe
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand
from adjoint.ops.elementwise.select import cast

UNKNOWN_SITE = Site("<unknown>", 0, "<unknown>")


def compute_gradient(root: Tensor, root_grad: Operand, targets: Iterable[Tensor]) -> dict[Tensor, Tensor]:
    """Return the gradient of `root` by each of `targets`, weighted by `root_grad` (a tensor or number; 1 if None).

    For tensors of a `symbolic()` block. Nothing is executed: the gradients are tensors of the same graph, to be read,
    compiled or differentiated again. A target that does not lead to `root` has no entry. `detach`, integers, and
    tensors made where gradients are switched off, end the way.

    Raises: RuntimeError for a root that is not symbolic, or without a `root_grad` of its shape unless it has one
        element. NotImplementedError, a RuntimeError, for an op without a rule on the way.
    """
    value = root.array
    if not isinstance(value, Expression):
        raise RuntimeError(
            "compute_gradient works on the tensors of a symbolic() block; elsewhere, and in a compiled step, "
            "adjoint.autograd.grad gives the gradient"
        )
    graph = value.graph
    wanted = {tensor: graph.value_of(tensor) for tensor in targets}
    found = append_gradients(
        graph, {value: _root_gradient(graph, value, root_grad)}, [v for v in wanted.values() if v is not None]
    )
    return {tensor: wrap(found[v]) for tensor, v in wanted.items() if v in found}


def _root_gradient(graph: Graph, root: Value, given: Operand) -> Value:
    """The gradient that enters at the root."""
    if root.dtype.kind not in "fcV":
        raise RuntimeError(f"compute_gradient: the root is {describe(root)}: only floating elements have a gradient")
    if given is None and root.size != 1:
        raise RuntimeError(
            f"grad can be implicitly created only for scalar outputs; this one is {describe(root)}. Pass root_grad"
        )
    if not isinstance(given, Tensor):
        return graph.constant(np.full(root.shape, 1.0 if given is None else given, root.dtype))
    if tuple(given.array.shape) != root.shape:
        raise RuntimeError(f"compute_gradient: root_grad is {describe(given.array)}, the root {describe(root)}")
    seed: Value = given.array if isinstance(given.array, Value) else graph.constant(given.array)
    if seed.dtype == root.dtype:
        return seed
    return graph.add(op_of(cast), (seed,), {"dtype": root.dtype}, Spec(root.shape, root.dtype), None)


def append_gradients(graph: Graph, seeds: dict[Value, Value], targets: Iterable[Value]) -> dict[Value, Value]:
    """Append the gradients of the roots in `seeds`, weighted and summed, by `targets`; those that lead to none lack.

    The graph's equations become nodes of the backward walk, as far as they lie between targets and roots.
    """
    nodes = _make_nodes(graph, seeds, dict.fromkeys(targets))
    roots = [(nodes[root], wrap(seed)) for root, seed in seeds.items() if root in nodes]
    wanted = {nodes[target]: target for target in targets if target in nodes}
    if not roots or not wanted:
        return {}
    tracer = _GradientTracer(graph)
    try:
        with ModeScope(interpreter=tracer, recording=False):
            found = run_grad(roots, retain_graph=False, create_graph=False, targets=list(wanted))
    finally:
        tracer.restore()
    return {wanted[node]: g.array for node, g in found.items()}


def _make_nodes(graph: Graph, roots: Iterable[Value], targets: Iterable[Value]) -> dict[Value, Vertex]:
    """A node for each target, and for each equation on the way from one to a root."""
    needed = set(roots)
    for v in reversed(graph.equations):
        if v in needed:
            needed.update(v.operands)
    asked = set(targets)
    nodes: dict[Value, Vertex] = {v: Leaf(wrap(v)) for v in targets if v.op is None and v in needed}
    for v in graph.equations:
        if v in needed and v.dtype.kind in "fcV":
            makers = [nodes.get(x) if isinstance(x, Value) else None for x in v.inputs]
            if v in asked or (any(makers) and v.op is not DETACH):
                nodes[v] = _EquationNode(v, [None] * len(makers) if v.op is DETACH else makers)
    return nodes


class _EquationNode(Node):
    """An equation of a graph, as the walk knows an application of an op."""

    __slots__ = ("origin",)

    def __init__(self, value: Value, makers: Sequence[Vertex | None]) -> None:
        self.op, self.params = value.op, value.params
        self.origin = value.origin
        self.parents = tuple(
            m if m is None or value.op.rule(i) is not None else _MissingRule(value, m, value.inputs[i])
            for i, m in enumerate(makers)
        )
        self.shape, self.dtype = value.shape, value.dtype
        self.shapes = tuple(x.shape if isinstance(x, Value) else () for x in value.inputs)
        self.saved_values = (*value.inputs, value)
        self.hooks = None
        self.sequence_nr = next_sequence_nr()

    @property
    def site(self) -> Site:
        """The user's line that made the equation."""
        return UNKNOWN_SITE if self.origin is None else self.origin.site

    def name(self) -> str:
        """The op's name."""
        return str(self.op.name)


class _MissingRule(Undifferentiable):
    """Stands between an equation and an operand for which its op has no gradient rule."""

    __slots__ = ("origin",)

    def __init__(self, value: Value, maker: Vertex, operand: Operand) -> None:
        super().__init__(value.op, maker, operand)
        self.origin = value.origin

    @property
    def site(self) -> Site:
        """The user's line that made the equation."""
        return UNKNOWN_SITE if self.origin is None else self.origin.site


class _GradientTracer(Tracer):
    """Appends to a graph; each equation comes from where the one did whose gradient it belongs to."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        self.graph = graph
        self._gradient_origin: ValueOrigin | None = None

    def follow(self, node: Any) -> None:
        """Equations belong to the gradient of this node until told otherwise."""
        origin = getattr(node, "origin", None)
        if origin is not None:
            origin = origin._replace(backward=True, of=node.op.name, merged_origins=())
        self._gradient_origin = origin

    def origin(self) -> ValueOrigin:
        """Return the origin of the forward equation whose gradient is made, if there is one."""
        return self._gradient_origin if self._gradient_origin is not None else super().origin()
