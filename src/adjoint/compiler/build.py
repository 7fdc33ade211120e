"""From a traced step to its program: rewrite, cut off the backward half, lay out, fuse, lower, bind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from adjoint.compiler.cache.plan_cache import plan_of
from adjoint.compiler.ir.graph import Graph, Incoming, Value
from adjoint.compiler.kernels.plan import Plan
from adjoint.compiler.passes.partition import Derived, Half, Past, cut
from adjoint.compiler.program.backward_node import Backward, Lost
from adjoint.compiler.program.program import Program
from adjoint.compiler.trace.guards import Watch
from adjoint.compiler.trace.step_outputs import Leaf, Outcome, Results, finish
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.op.matmul_precision import WHAT, held, setting
from adjoint.core.runtime import pytree
from adjoint.core.tensor.tensor import Tensor


class Traced(NamedTuple):
    """A finished trace: the graph of the step and of its gradients, and for each result with a history its spec."""

    graph: Graph
    outcome: Outcome
    past: Past | None
    specs: list[Value]
    parents: list[Tensor | int]  # whose gradients the backward half gives: arguments by their number
    symbols: list[Value | None]  # of these


def conclude(tracer: Tracer, outcome: Outcome, results: Results, given: list[Any], derived: Derived) -> Traced:
    """Collect what can be told only when nothing more is traced, before symbols are lost."""
    past, wanted, refused = derived
    finish(tracer, outcome)
    for number, i in enumerate(wanted):
        outcome.history[i] = number
    for i, error in refused.items():
        outcome.history[i] = error
    specs = [results.tensors[i].array for i in wanted]
    if past is None:
        return Traced(tracer.graph, outcome, None, specs, [], [])
    numbers = {id(x): i for i, x in enumerate(given)}
    symbols = {id(tensor): symbol for tensor, _, symbol in tracer.state}
    tensors = [leaf.reference() for leaf in past.leaves]
    parents = [numbers.get(id(t), t) for t in tensors]
    return Traced(tracer.graph, outcome, past, specs, parents, [symbols.get(id(t)) for t in tensors])  # type: ignore[arg-type]


def build(traced: Traced) -> Entry:
    """The program of a finished trace."""
    graph, outcome, past = traced.graph, traced.outcome, traced.past
    lost = partial(Lost, graph.name)
    if past is None:
        plan, keep = plan_of(graph, [symbol for symbol, _ in outcome.writes], held(setting), _run_pipeline)
        outcome.follow(plan.graph.outputs)
        if plan.rounds:
            outcome.guards.append(Watch(setting, held, WHAT))
        program = Program(plan.graph, plan.fusion, plan.kernels, outcome, lost)
        keep()
        return Entry(program, outcome)
    from adjoint.compiler.pipeline import has_products, simplified

    count = len(graph.outputs)
    graph.outputs = [*graph.outputs, *past.gradients]
    graph = simplified(graph)
    outcome.follow(graph.outputs[:count])
    precision = "highest"
    if has_products(graph):
        precision = held(setting)
        outcome.guards.append(Watch(setting, held, WHAT))
    half = cut(graph, past.incoming, graph.outputs[count:])
    kept = (*half.saved, *half.further)
    outcome.saved = [v for v in kept if v.op is not None]
    leaves = {i: traced.symbols.index(v) for i, v in enumerate(kept) if v in traced.symbols}
    backward = Backward(half, leaves, graph.name, traced.specs, precision, build_backward)
    return Entry(assemble(_forward(graph, outcome), outcome, lost, precision, backward, traced.parents), outcome)


def _run_pipeline(graph: Graph, written: Sequence[Value], precision: str) -> Plan:
    """All passes over the graph of a step: they are imported only where no plan was on disk."""
    from adjoint.compiler.pipeline import planned

    return planned(graph, written, precision)


def build_backward(half: Half, precision: str) -> Program:
    """The program of a backward half; its arguments are arrays saved, then gradients that arrive."""
    outcome = Outcome(len(half.saved) + len(half.incoming))
    outcome.results = list(half.graph.outputs)
    outcome.history = [None] * len(outcome.results)
    outcome.leaves = [Leaf("result", i) for i in range(len(outcome.results))]
    return assemble(half.graph, outcome, partial(Lost, half.graph.name), precision)


def assemble(
    graph: Graph,
    outcome: Outcome,
    lost: Any,
    precision: str,
    backward: Backward[Program] | None = None,
    parents: Any = None,
) -> Program:
    """The program of a graph whose outputs are the outcome's."""
    from adjoint.compiler.pipeline import scheduled

    plan = scheduled(graph, [symbol for symbol, _ in outcome.writes], precision)
    outcome.follow(plan.graph.outputs)
    return Program(plan.graph, plan.fusion, plan.kernels, outcome, lost, backward, parents)


def _forward(graph: Graph, outcome: Outcome) -> Graph:
    """The part of the graph that the step itself needs."""
    from adjoint.compiler.passes.simplify import without_dead

    out = Graph(graph.name)
    out.inputs = [v for v in graph.inputs if not isinstance(v.source, Incoming)]
    out.equations = graph.equations
    out.outputs = outcome.outputs()
    return without_dead(out)


class Entry:
    """A program, and how a call's return value is put together from its leaves.

    `direct`: the arguments are distinct tensors or numbers by position, so that `run` takes them as they come.
    """

    __slots__ = ("count", "direct", "program", "rebuild", "run")

    def __init__(self, program: Program, outcome: Outcome, direct: bool = False) -> None:
        self.program = program
        self.run = program.run
        self.count = outcome.arguments
        self.direct = direct
        structure = outcome.structure
        self.rebuild = itemgetter(0) if structure.kind is None else partial(_rebuilt, structure)


def _rebuilt(structure: pytree.Structure, leaves: tuple[Any, ...]) -> Any:
    return pytree.unflatten(structure, iter(leaves))
