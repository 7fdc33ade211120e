"""Graph to graph: rules applied, constants computed, equal equations shared, and what nobody needs left out."""

from __future__ import annotations

from adjoint.compiler.ir.graph import Constant, Graph, Value
from adjoint.compiler.passes import gated_matmul, matmul_rewrites
from adjoint.compiler.passes.materialize import may_raise
from adjoint.compiler.passes.rewriter import Rewriter


def rewrite(graph: Graph) -> Graph:
    """A graph of the same outputs with less to do."""
    graph = eliminate_dead_code(_simplify_graph(graph))
    for form in (
        matmul_rewrites.merge_sums,
        matmul_rewrites.merge_products,
        matmul_rewrites.transpose_products,
        gated_matmul.interleave_gates,
    ):
        graph = eliminate_dead_code(form(graph, Rewriter(graph)))
    return graph


def _simplify_graph(graph: Graph) -> Graph:
    """Each equation in turn made of what has become of its operands."""
    rewriter = Rewriter(graph)
    renamed: dict[Value, Value] = {v: rewriter.input(v) for v in graph.inputs}
    for v in graph.equations:
        renamed[v] = rewriter.again(v, renamed)
    rewriter.out.outputs = [renamed[v] for v in graph.outputs]
    return rewriter.out


def eliminate_dead_code(graph: Graph) -> Graph:
    """Only the equations that lead to an output, do something besides computing or may raise, and their constants."""
    needed = set(graph.outputs)
    kept = []
    for v in reversed(graph.equations):
        if v in needed or v.op.effect or may_raise(v):
            kept.append(v)
            needed.update(v.operands)
    out = Graph(graph.name)
    out.inputs = [v for v in graph.inputs if v in needed or not isinstance(v.source, Constant)]
    out.equations = kept[::-1]
    out.outputs = graph.outputs
    return out
