"""The graph of a step after each pass: the step is traced and planned once more, in a copy of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.ir.graph import Graph, ValueOrigin
from adjoint.compiler.log import pass_observers
from adjoint.compiler.report.drawn_graph import draw_graph
from adjoint.compiler.report.explain import backward_program
from adjoint.compiler.report.process_copy import ProcessCopyError, call_in_copy
from adjoint.core.typing import Operand
from adjoint.core.viewer.document import DrawnGraph

if TYPE_CHECKING:
    from adjoint.compiler.program.program import Program

MAX_DRAWN_EQUATIONS = 12_000  # of all stages together
CHANGED = "the step takes another program in the present state than the one that ran last"
FIRST_PASS = "apply_rules"
KERNEL_PASSES = {"fuse", "lower"}  # which make kernels of a graph, and no graph
PASS_WORDS = {
    "apply_rules": "rewrite rules, equal equations shared",
    "insert_index_checks": "checks of indices",
    "recompute_checkpoints": "checkpoints computed again",
    "rematerialize": "cheap values made again for backward",
    "materialize_views": "movements as views",
    "inline_producers": "cheap values computed where they are read",
}


class PassStages(NamedTuple):
    """The graphs before the kernels of each half: that of the trace, and one after each pass that changed it.

    `note` says why there are none, or fewer, and which passes changed nothing.
    """

    forward: tuple[DrawnGraph, ...] = ()
    backward: tuple[DrawnGraph, ...] = ()
    note: str = ""


class StageRecorder:
    """Keeps the graph after each pass that changes it, with its title and a note."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, str, Graph]] = []
        self.text = ""  # of the graph that was kept last
        self.equations = 0
        self.half = ""  # which of two
        self.is_loop = False  # a long loop is planned by a few of its turns
        self.without_effect: dict[str, None] = {}

    def see_pass(self, name: str, before: Operand, after: Operand) -> None:
        """See a pass that ran."""
        if name == FIRST_PASS and self.stages:
            self.is_loop = True  # all passes run for a second, somewhat longer loop
        if self.is_loop:
            return
        if not self.stages:
            self._keep("half, cut off" if self.half else "as traced", "", before)
        elif str(_graph_of(before)) != self.text:  # it was cut in two in between
            self.half = self.half or "forward "
            self._keep("half, cut off", "", before)
        if name not in KERNEL_PASSES:
            self._keep(f"after {name}", PASS_WORDS.get(name, ""), after)

    def _keep(self, title: str, note: str, stage: Operand) -> None:
        graph = _graph_of(stage)
        text = str(graph)
        if text == self.text:
            self.without_effect[title.removeprefix("after ")] = None
            return
        self.text = text
        self.equations += len(graph.equations)
        copy = Graph(graph.name, graph.sizes)
        copy.inputs, copy.equations, copy.outputs = [*graph.inputs], [*graph.equations], [*graph.outputs]
        self.stages.append((self.half + title, note, copy))

    def take(self) -> list[tuple[str, str, Graph]]:
        """Return the stages so far."""
        found = self.stages
        self.stages, self.text = [], ""
        return found


def record_stages(retrace: Callable[[], Program], program: Program) -> PassStages:
    """Return the stages of the passes that have made `program`, which `retrace` makes once more."""
    try:
        stages: PassStages = call_in_copy(lambda: _record(retrace, program))
    except ProcessCopyError as error:
        return PassStages(note=f"The graphs before are not shown: {error}.")
    return stages


def _record(retrace: Callable[[], Program], program: Program) -> PassStages:
    recorder = StageRecorder()
    pass_observers.append(recorder.see_pass)
    made = retrace()
    forward = recorder.take()
    recorder.half = "backward "
    half, known = backward_program(made), backward_program(program)
    backward = [] if half is None else recorder.take()
    graphs = [graph for _, _, graph in (*forward, *backward)]
    _restore_call_line(made.graph, program.graph, [*graphs, made.graph, *([] if half is None else [half.graph])])
    if [str(each.graph) for each in (made, half) if each] != [str(each.graph) for each in (program, known) if each]:
        return PassStages(note=f"The graphs before are not shown: {CHANGED}.")
    note = f"Passes that changed nothing: {', '.join(recorder.without_effect)}."
    if recorder.is_loop:
        forward = [(f"fewer turns, {title}", of_loop, graph) for title, of_loop, graph in forward]
        note = f"This long loop was planned by a few of its turns; the graphs before have only these. {note}"
    if recorder.equations > MAX_DRAWN_EQUATIONS:
        forward, backward, note = forward[:1], [], "The graphs after each pass are too large to show."
    ahead, behind = (tuple(draw_graph(g, title, note=n) for title, n, g in part) for part in (forward, backward))
    return PassStages(ahead, behind, note)


def _restore_call_line(made: Graph, known: Graph, graphs: Sequence[Graph]) -> None:
    """Give the equations that come from the line of the step's call the line of the call for which it was compiled.

    `made` is traced from another line than `known`. Written are the equations of `graphs`, in this copy of the process.
    """
    pairs = zip(made.equations, known.equations, strict=False)
    lines = {new.origin.site: old.origin.site for new, old in pairs if new.origin and old.origin}

    def restore(origin: ValueOrigin) -> ValueOrigin:
        return origin._replace(
            site=lines.get(origin.site, origin.site), merged_origins=tuple(map(restore, origin.merged_origins))
        )

    for value in {value: None for graph in graphs for value in graph.equations}:
        if value.origin is not None:
            value.origin = restore(value.origin)


def _graph_of(stage: Operand) -> Graph:
    graph: Graph = stage if isinstance(stage, Graph) else stage.graph
    return graph
