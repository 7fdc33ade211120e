"""The way from a traced step to its program: rewrite, cut off the backward half, lay out, fuse, lower, bind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

from adjoint.compiler.cache.plan_cache import load_or_make_plan
from adjoint.compiler.ir.graph import Graph, IncomingGrad, Value
from adjoint.compiler.ir.strided_view import forget_shapes
from adjoint.compiler.ir.symbolic_size import has_symbols
from adjoint.compiler.kernels.plan import CachedPlan
from adjoint.compiler.log import LOGGED, log
from adjoint.compiler.passes.loops.plan_extension import plan_by_loop
from adjoint.compiler.passes.partition import (
    BackwardGraph,
    JointGradient,
    TracedBackward,
    graph_from_inputs,
    partition,
)
from adjoint.compiler.program.backward_node import BackwardProgram, HistoryProgram
from adjoint.compiler.program.program import Program
from adjoint.compiler.program.recorded_history import RecordedHistory, record_history
from adjoint.compiler.program.tree_codegen import Unpack, write_rebuilder
from adjoint.compiler.progress import progress
from adjoint.compiler.report.advice import CallCosts, ObservedRun
from adjoint.compiler.report.example_arguments import ExampleArguments
from adjoint.compiler.report.profiled_call import run_program_timed
from adjoint.compiler.runtime.call_turn import CallTurn
from adjoint.compiler.trace.guards import GuardFailure, ProbeGuard
from adjoint.compiler.trace.numbers.symbolic_number import fixed_code
from adjoint.compiler.trace.result_table import ResultTable
from adjoint.compiler.trace.sizes.argument_sizes import ArgumentSizes
from adjoint.compiler.trace.step_outputs import MadeLeaf, OutputRef, Parent, ResultFacts, StepEffects, complete_effects
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.op.matmul_precision import PRECISION_FACT, current_precision, setting
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand


class FinishedTrace(NamedTuple):
    """A finished trace: the graph of the step and of its gradients, and for each result with a history its spec."""

    graph: Graph
    outcome: StepEffects
    joint_gradient: JointGradient | None
    specs: list[Value]
    parents: list[Parent]  # tensors whose gradients the backward half gives
    history: RecordedHistory | None = None


def finish_trace(
    tracer: Tracer, outcome: StepEffects, results: ResultTable, given: list[Operand], derived: TracedBackward
) -> FinishedTrace:
    """Collect what can be told only when nothing more is traced, before symbols are lost."""
    past, wanted, refused = derived
    complete_effects(tracer, outcome)
    for number, i in enumerate(wanted):
        outcome.history[i] = number
    for i, error in refused.items():
        outcome.history[i] = error
    specs = [results.tensors[i].array for i in wanted]
    if past is None:
        return FinishedTrace(tracer.graph, outcome, None, specs, [])
    numbers = {id(x): i for i, x in enumerate(given)}
    tensors = [tensor for leaf in past.leaves if (tensor := leaf.reference()) is not None]
    places: dict[int, Any] = {**numbers, **results.made_leaves}
    parents = [places.get(id(t), t) for t in tensors]
    lasting = tracer.adopted_arrays.keys() - numbers.keys()
    roots = [results.tensors[i].node for i in wanted]
    history = record_history(roots, past.leaves, lambda tensor: id(tensor) in lasting, tracer.number)
    return FinishedTrace(tracer.graph, outcome, past, specs, parents, history)


def build(traced: FinishedTrace, reruns_eagerly: bool = False, sizes: ArgumentSizes | None = None) -> CompiledEntry:
    """The program of a finished trace; `reruns_eagerly`: where it fails, the call runs eagerly.

    `sizes`: the symbols of the trace. Raises StaticSizeError if the program would not serve several values of them.
    """
    traced.outcome.reruns_eagerly = reruns_eagerly
    if sizes is not None:
        sizes.check_symbols()
        sizes.relations.is_traced = True
    graph, outcome, past = traced.graph, traced.outcome, traced.joint_gradient
    if "graph" in LOGGED:
        log("graph", f"{graph.name}: as traced", str(graph))
    history = traced.history
    if sizes is not None and any(v is not None and has_symbols(v.shape) for _, v in outcome.gradients):
        sizes.refuse_symbols()  # a gradient keeps its memory from call to call
    if past is None or history is None:
        plan, keep = _plan_step(graph, outcome.changed_inputs(), current_precision(setting))
        outcome.follow(plan.graph.outputs)
        if plan.rounds:
            outcome.guards.append(ProbeGuard(setting, current_precision, PRECISION_FACT))
        _log_plan(plan)
        program = Program(plan.graph, plan.fusion, plan.kernels, outcome)
        if sizes is not None:
            sizes.check_symbols()
        if graph.symbols:
            forget_shapes()
        keep()
        return CompiledEntry(program, outcome)
    from adjoint.compiler.pipeline import has_float32_matmuls, schedule, simplify

    count, end = len(graph.outputs), len(graph.outputs) + len(past.gradients)
    remade, drawn = graph_from_inputs(graph, history.values)
    sources = [*remade.inputs, *drawn]
    graph.outputs = [*graph.outputs, *past.gradients, *sources]
    graph = simplify(graph)
    found = graph.outputs[end:]
    outcome.follow(graph.outputs[:count])
    precision = "highest"
    if has_float32_matmuls(graph):
        precision = current_precision(setting)
        outcome.guards.append(ProbeGuard(setting, current_precision, PRECISION_FACT))
    written = set(outcome.changed_inputs())
    half = partition(graph, past.incoming, graph.outputs[count:end], written, found)
    kept = (*half.saved, *half.further)
    outcome.saved = [v for v in kept if v.op is not None or v in written]
    made = [i for i, parent in enumerate(traced.parents) if isinstance(parent, MadeLeaf)]
    remaking = HistoryProgram(history, remade, dict(zip(sources, found, strict=True)), made)
    # the guards of a half with symbols are those of the step
    make = partial(build_backward, plan=schedule(half.graph, (), precision) if graph.symbols else None)
    backward = BackwardProgram(
        half, remaking, graph.name, traced.specs, past.sparse, precision, make, run_program_timed
    )
    program = assemble(_forward_graph(graph, outcome), outcome, precision, backward, traced.parents)
    if sizes is not None:
        sizes.check_symbols()
    if graph.symbols:
        forget_shapes()
    return CompiledEntry(program, outcome)


def _plan_step(graph: Graph, written: Sequence[Value], precision: str) -> tuple[CachedPlan, Callable[[], None]]:
    """The plan of a whole step, and what keeps it on disk; a long unrolled loop is planned by a few of its turns."""
    keeps: list[Callable[[], None]] = []

    def plan_part(part: Graph) -> CachedPlan:
        plan, keep = load_or_make_plan(part, written, precision, _run_pipeline)
        keeps.append(keep)
        return plan

    plan = None if graph.symbols else plan_by_loop(graph, plan_part)
    if plan is None:
        keeps.clear()
        plan = plan_part(graph)

    def keep_all() -> None:
        for keep in keeps:
            keep()

    return plan, keep_all


def _run_pipeline(graph: Graph, written: Sequence[Value], precision: str) -> CachedPlan:
    """All passes over the graph of a step: they are imported only where no plan was on disk."""
    from adjoint.compiler.pipeline import run_pipeline

    return run_pipeline(graph, written, precision)


def build_backward(half: BackwardGraph, precision: str, plan: CachedPlan | None = None) -> Program:
    """The program of a backward half; its arguments are arrays saved, then gradients that arrive, then sizes."""
    arrays = len(half.saved) + len(half.incoming)
    outcome = StepEffects(arrays + len(half.graph.symbols))
    for i, name in enumerate(half.graph.symbols, arrays):
        outcome.arithmetic.add_source(name, 0, partial(fixed_code, f"x{i}"), "a size")
    outcome.results = list(half.graph.outputs)
    outcome.history = [None] * len(outcome.results)
    outcome.result_facts = [ResultFacts(Tensor, None, 0, False, None)] * len(outcome.results)
    outcome.leaves = [OutputRef("result", i) for i in range(len(outcome.results))]
    return assemble(half.graph, outcome, precision, plan=plan)


def assemble(
    graph: Graph,
    outcome: StepEffects,
    precision: str,
    backward: BackwardProgram[Program] | None = None,
    parents: list[Parent] | None = None,
    plan: CachedPlan | None = None,
) -> Program:
    """The program of a graph whose outputs are the outcome's."""
    from adjoint.compiler.pipeline import schedule

    plan = plan or schedule(graph, outcome.changed_inputs(), precision)
    _log_plan(plan)
    outcome.follow(plan.graph.outputs)
    return Program(plan.graph, plan.fusion, plan.kernels, outcome, backward, parents)


def _log_plan(plan: CachedPlan) -> None:
    """Log a plan's graph, the reasons of its groups, and their loops."""
    progress.finish(f"{pluralize(len(plan.kernels), 'kernel')} planned")
    if not LOGGED & {"graph", "fusion", "kernels"}:
        return
    from adjoint.compiler.report.loop_text import format_loops

    graph, names = plan.graph, plan.graph.names()
    if "graph" in LOGGED:
        log("graph", f"{graph.name}: as computed", str(graph))
    for i, group in enumerate(plan.fusion.order):
        if "fusion" in LOGGED:
            ops = " ".join(v.op.name for v in group.equations)
            log("fusion", f"{graph.name}: [{i}] {ops}: {group.reason}")
        if "kernels" in LOGGED and group in plan.kernels:
            kernel = plan.kernels[group]
            line = f"{graph.name}: [{i}] {kernel.name}, {pluralize(kernel.tiles, 'tile')}"
            log("kernels", line, format_loops(group, plan.fusion, names))


def _forward_graph(graph: Graph, outcome: StepEffects) -> Graph:
    """The part of the graph that the step itself needs."""
    from adjoint.compiler.passes.simplify import eliminate_dead_code

    out = Graph(graph.name, graph.sizes)
    out.inputs = [v for v in graph.inputs if not isinstance(v.source, IncomingGrad)]
    late = set(graph.inputs) - set(out.inputs)
    for v in graph.equations:  # exchanges of gradients, which nothing else would drop
        if late.isdisjoint(v.operands):
            out.equations.append(v)
        else:
            late.add(v)
    out.outputs = outcome.outputs()
    return eliminate_dead_code(out)


class CompiledEntry:
    """A program, and how a call's return value is put together from its leaves.

    `direct`: the arguments are distinct tensors or numbers by position, so that `run` takes them as they come.
    `unpack`: what takes them out of containers where they are distinct, and lie in some, or are given by name.
    `follower`: the program that ran after this one when that was last another, if it is direct too. It is held weakly:
    programs that take turns would be a cycle, which waits for the collector.
    """

    __slots__ = (
        *("__weakref__", "count", "direct", "example", "program", "rebuild", "run"),
        *("follower", "handovers", "observed", "turns", "unpack"),  # what is known of its calls
    )
    is_asking = False

    def __init__(self, program: Program, outcome: StepEffects, direct: bool = True) -> None:
        self.program = program
        self.example: ExampleArguments | None = None
        self.run: Function = program.run
        self.count = outcome.arguments
        self.direct = direct
        self.unpack: Unpack | None = None
        self.follower: ref[CompiledEntry] | None = None
        self.observed: ObservedRun | None = None
        self.turns = 0  # calls for which it was looked for
        self.handovers = 0  # calls for which the follower was tried, and fitted
        structure = outcome.structure
        self.rebuild: Callable[[tuple[object, ...]], Any] = write_rebuilder(structure)

    @property
    def programs(self) -> list[Program]:
        """The program, as one of several that an entry may have."""
        return [self.program]

    def as_path(self) -> None:
        """Return None: the step decides nothing."""

    def share_turn(self, turn: CallTurn) -> None:
        """Run in turn with the other programs of a compiled function."""
        self.program.share_turn(turn)

    def fits(self, log: Sequence[object]) -> bool:
        """True for a call in which nothing took place yet."""
        return not log

    def changes(self, given: list[Operand], log: Sequence[object]) -> list[GuardFailure]:
        """Return what makes the program unfit for these arguments."""
        return self.program.changes(given)

    def attempt(self, given: list[Operand], log: Sequence[object] = (), first_call: bool = False) -> Operand:
        """The leaves that the program gives for these arguments; None where it was made for another call."""
        if first_call or self.renew():
            leaves = self.run(*given, first_call=first_call)
            return leaves if type(leaves) is tuple else None
        return None

    def renew(self) -> bool:
        """Look again at what has changed, and settle on what means the same; False if the program does not fit."""
        fits = self.program.holds()
        self.run = self.observed or self.program.run
        return fits

    def observe(self, costs: CallCosts, key: object) -> None:
        """Observe what the first calls cost, of a program that leaves something to Python or NumPy."""
        if ObservedRun.is_wanted(self.program):
            self.run = self.observed = ObservedRun(self, costs, key)
