"""The pipeline from a traced graph to kernels: a list of passes with names.

Each pass is a function. The first ten make a graph of a graph; `inline_producers`, `fuse` and `lower` make the plan of
its kernels. `passes.partition` cuts a step whose `backward()` is called outside in two, after SIMPLIFY; SCHEDULE then
runs for each half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint.compiler.ir.graph import Graph, Value
from adjoint.compiler.kernels.lowerings import lower_all
from adjoint.compiler.kernels.plan import CachedPlan
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.log import LOGGED, log, pass_observers, take_rule_hits
from adjoint.compiler.passes.checkpoint import recompute_checkpoints
from adjoint.compiler.passes.fusion import Fusion, fuse
from adjoint.compiler.passes.index_checks import insert_index_checks
from adjoint.compiler.passes.inline_producers import InlinedGraph, inline_producers
from adjoint.compiler.passes.materialize import materialize_views
from adjoint.compiler.passes.rematerialize import rematerialize
from adjoint.compiler.passes.simplify import REWRITES, eliminate_dead_code
from adjoint.compiler.progress import progress
from adjoint.core.runtime.text_table import pluralize

Stage = Graph | InlinedGraph | Fusion | CachedPlan


class StepFacts(NamedTuple):
    """The facts about a step that passes read: the inputs that it overwrites, the precision of its products."""

    written: Sequence[Value] = ()
    precision: str = "highest"


class Pass(NamedTuple):
    """A step of the pipeline: `run` makes the next stage, a graph or a plan, of the one before."""

    name: str
    run: Callable[[Any, StepFacts], Stage]


def _graph_pass(run: Callable[[Graph], Graph]) -> Pass:
    checked = run not in REWRITES
    return Pass(run.__name__, lambda graph, _: eliminate_dead_code(run(graph), checked=checked))


def _fuse(inlined: InlinedGraph, facts: StepFacts) -> Fusion:
    inlined.graph.verify()
    return inlined.fusion or fuse(inlined.graph, inlined.inlined, facts.precision)


def _lower(fusion: Fusion, facts: StepFacts) -> CachedPlan:
    return CachedPlan(fusion.graph, fusion, lower_all(fusion, host()))


SIMPLIFY = tuple(map(_graph_pass, (*REWRITES, insert_index_checks, recompute_checkpoints)))
REMATERIALIZE = (Pass("rematerialize", lambda graph, facts: eliminate_dead_code(rematerialize(graph, facts.written))),)
SCHEDULE = (
    _graph_pass(materialize_views),
    Pass("inline_producers", lambda graph, facts: inline_producers(graph, facts.written, facts.precision)),
    Pass("fuse", _fuse),
    Pass("lower", _lower),
)
PIPELINE = (*SIMPLIFY, *REMATERIALIZE, *SCHEDULE)

Observer = Callable[[Pass, Stage], None]


def run_passes(passes: Sequence[Pass], stage: Stage, facts: StepFacts, observe: Observer | None = None) -> Any:
    """Return what the passes make of a graph, one after another; `observe` sees the stage after each."""
    for each in passes:
        progress.note(f"planning: {each.name}")
        before, stage = stage, each.run(stage, facts)
        if "rewrite" in LOGGED:
            _log_pass(each.name, before, stage)
        if observe is not None:
            observe(each, stage)
        for tell in pass_observers:
            tell(each.name, before, stage)
    return stage


def _log_pass(name: str, before: Stage, after: Stage) -> None:
    """Log a pass that changed the graph: the number of equations, and the rules that applied."""
    before, after = (stage if isinstance(stage, Graph) else stage.graph for stage in (before, after))
    hits = take_rule_hits()
    if hits or str(before) != str(after):
        equations = pluralize(len(after.equations), "equation")
        log("rewrite", f"{after.name}: {name}: {len(before.equations):,} → {equations}{hits}")


def simplify(graph: Graph, observe: Observer | None = None) -> Graph:
    """Return the graph after SIMPLIFY."""
    simplified: Graph = run_passes(SIMPLIFY, graph, StepFacts(), observe)
    return simplified


def schedule(graph: Graph, written: Sequence[Value], precision: str, observe: Observer | None = None) -> CachedPlan:
    """Return the plan that SCHEDULE makes of a graph."""
    plan: CachedPlan = run_passes(SCHEDULE, graph, StepFacts(written, precision), observe)
    return plan


def run_pipeline(graph: Graph, written: Sequence[Value], precision: str, observe: Observer | None = None) -> CachedPlan:
    """Return the plan of a step that overwrites the inputs `written`; its outputs stay in their order."""
    graph = simplify(graph, observe)
    rounds = has_float32_matmuls(graph)
    graph = run_passes(REMATERIALIZE, graph, StepFacts(written), observe)
    return schedule(graph, written, precision if rounds else "highest", observe)._replace(rounds=rounds)


def has_float32_matmuls(graph: Graph) -> bool:
    """True if `graph` contains a float32 matmul, whose plan depends on `set_float32_matmul_precision`."""
    return any(v.op.name in ("mm", "bmm") and v.dtype == np.float32 for v in graph.equations)
