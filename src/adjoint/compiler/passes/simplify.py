"""Simplification: rules applied, constants folded, equal equations shared, dead ones removed."""

from __future__ import annotations

from adjoint.compiler.ir.graph import Constant, Graph, Value
from adjoint.compiler.passes.index_checks import needs_index_check
from adjoint.compiler.passes.materialize import may_raise
from adjoint.compiler.passes.rewriter import Rewriter
from adjoint.compiler.passes.rewrites.gated_matmul import interleave_gates
from adjoint.compiler.passes.rewrites.matmul_rewrites import merge_products, merge_sums, transpose_products
from adjoint.compiler.passes.rewrites.slice_gradients import merge_slices


def apply_rules(graph: Graph) -> Graph:
    """Rewrite each equation by the rules, fold constants, and share equal equations."""
    rewriter = Rewriter(graph)
    renamed: dict[Value, Value] = {v: rewriter.input(v) for v in graph.inputs}
    for v in graph.equations:
        renamed[v] = rewriter.rebuild(v, renamed)
    rewriter.out.outputs = [renamed[v] for v in graph.outputs]
    return rewriter.out


REWRITES = (apply_rules, merge_slices, merge_sums, merge_products, transpose_products, interleave_gates)


def rewrite(graph: Graph) -> Graph:
    """Apply all REWRITES: a graph of the same outputs with less to do."""
    for run in REWRITES:
        graph = eliminate_dead_code(run(graph), checked=False)
    return graph


def eliminate_dead_code(graph: Graph, *, checked: bool = True) -> Graph:
    """Keep the equations that lead to an output, have an effect or may raise, and their constants.

    `checked`: the checks of indices are in the graph; before that, an index may raise too.
    """
    needed = set(graph.outputs)
    kept = []
    for v in reversed(graph.equations):
        if v in needed or v.op.effect or may_raise(v) or (not checked and needs_index_check(v)):
            kept.append(v)
            needed.update(v.operands)
    out = Graph(graph.name, graph.sizes)
    out.inputs = [v for v in graph.inputs if v in needed or not isinstance(v.source, Constant)]
    out.equations = kept[::-1]
    out.outputs = graph.outputs
    return out
