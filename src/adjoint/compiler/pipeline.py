"""From a traced graph to kernels: rewrite, lay out, place, fuse, lower."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjoint.compiler.ir.graph import Graph, Value
from adjoint.compiler.kernels.lowerings import lower_all
from adjoint.compiler.kernels.plan import Plan
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.checkpoint import recompute
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.index_checks import checked
from adjoint.compiler.passes.inline_producers import place
from adjoint.compiler.passes.materialize import lay_out
from adjoint.compiler.passes.rematerialize import remake
from adjoint.compiler.passes.simplify import rewrite, without_dead


def planned(graph: Graph, written: Sequence[Value], precision: str) -> Plan:
    """All passes over the graph of a step, which overwrites the inputs `written`; outputs stay in their order."""
    graph = simplified(graph)
    rounds = has_products(graph)
    plan = scheduled(without_dead(remake(graph, list(written))), written, precision if rounds else "highest")
    return plan._replace(rounds=rounds)


def simplified(graph: Graph) -> Graph:
    """The graph after the rules, with its checks, and checkpoints computed again."""
    return without_dead(recompute(checked(rewrite(graph))))


def has_products(graph: Graph) -> bool:
    """True if the result depends on how precise products of float32 matrices are to be."""
    return any(v.op.name in ("mm", "bmm") and v.dtype == np.float32 for v in graph.equations)


def scheduled(graph: Graph, written: Sequence[Value], precision: str) -> Plan:
    """The passes that decide where values lie, and what is computed together."""
    graph, late = place(lay_out(graph), list(written), precision)
    graph.verify()
    fusion = Fusion(graph, late, precision)
    return Plan(graph, fusion, lower_all(fusion, host()))
