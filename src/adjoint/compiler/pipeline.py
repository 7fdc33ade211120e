"""From a traced graph to kernels: rewrite, lay out, place, fuse, lower."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjoint.compiler.ir.graph import Graph, Value
from adjoint.compiler.kernels.lowerings import lower_all
from adjoint.compiler.kernels.plan import CachedPlan
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.checkpoint import recompute_checkpoints
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.index_checks import insert_index_checks
from adjoint.compiler.passes.inline_producers import inline_producers
from adjoint.compiler.passes.materialize import materialize_views
from adjoint.compiler.passes.rematerialize import rematerialize
from adjoint.compiler.passes.simplify import eliminate_dead_code, rewrite


def run_pipeline(graph: Graph, written: Sequence[Value], precision: str) -> CachedPlan:
    """All passes over the graph of a step, which overwrites the inputs `written`; outputs stay in their order."""
    graph = simplify(graph)
    rounds = has_float32_matmuls(graph)
    plan = schedule(
        eliminate_dead_code(rematerialize(graph, list(written))), written, precision if rounds else "highest"
    )
    return plan._replace(rounds=rounds)


def simplify(graph: Graph) -> Graph:
    """The graph after the rules, with its checks, and checkpoints computed again."""
    return eliminate_dead_code(recompute_checkpoints(insert_index_checks(rewrite(graph))))


def has_float32_matmuls(graph: Graph) -> bool:
    """True if the result depends on how precise products of float32 matrices are to be."""
    return any(v.op.name in ("mm", "bmm") and v.dtype == np.float32 for v in graph.equations)


def schedule(graph: Graph, written: Sequence[Value], precision: str) -> CachedPlan:
    """The passes that decide where values lie, and what is computed together."""
    graph, late = inline_producers(materialize_views(graph), list(written), precision)
    graph.verify()
    fusion = Fusion(graph, late, precision)
    return CachedPlan(graph, fusion, lower_all(fusion, host()))
