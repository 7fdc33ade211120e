"""What the tests of single passes share: the graph of a function, and its groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint.compiler.ir.graph import Argument, Graph, Value
from adjoint.compiler.ir.interpreter import evaluate
from adjoint.compiler.passes.fusion import Fusion, fuse
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.materialize import materialize_views
from adjoint.compiler.passes.simplify import rewrite
from adjoint.compiler.trace.tracer import Tracer


def graph_of(function: Callable[..., Any], *arrays: Any) -> Graph:
    """The traced graph; `function` returns a tensor or a sequence of them."""
    tracer = Tracer("test")
    tensors = [ad.from_numpy(a.copy()) for a in arrays]
    for i, tensor in enumerate(tensors):
        tracer.bind_argument(tensor, i, f"{i}")
    try:
        out = tracer.trace(function, tuple(tensors), {})
        outputs = [out] if isinstance(out, ad.Tensor) else list(out)
        tracer.graph.outputs = [tracer.adopt(t) for t in outputs]
    finally:
        tracer.restore()
    tracer.graph.verify()
    return tracer.graph


def values(graph: Graph, *arrays: Any) -> list[Any]:
    """The graph's outputs, equation by equation on NumPy."""
    return evaluate(graph, {v: arrays[v.source.number] for v in arguments(graph)})


def arguments(graph: Graph) -> list[Value]:
    """The inputs that a call passes."""
    return graph.inputs_of_kind(Argument)


def names(graph: Graph) -> list[str]:
    """The ops, in order."""
    return [v.op.name for v in graph.equations]


def fused(function: Callable[..., Any], *arrays: Any) -> Fusion:
    """The groups of a function's graph, rewritten and laid out."""
    return fuse(materialize_views(rewrite(graph_of(function, *arrays))))


def ops(group: Group) -> list[str]:
    """The ops of a group, in order."""
    return [v.op.name for v in group.equations]
