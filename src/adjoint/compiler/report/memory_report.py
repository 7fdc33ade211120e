"""The memory of a program: its values in the arena and besides it, and those saved for backward, by line."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.ir.graph import Argument, Constant, Graph, ScalarInput, Setting, StateInput, Value, ValueOrigin
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.materialize import is_view_or_generated
from adjoint.compiler.passes.memory_plan import MemoryPlan
from adjoint.compiler.report.explain import backward_program, origin_of
from adjoint.core.runtime.html import render_frame, render_table
from adjoint.core.runtime.text_table import format_columns, pluralize
from adjoint.core.typing import NumpyDtype

if TYPE_CHECKING:
    from adjoint.compiler.program.program import Program

INPUT_KINDS = {
    StateInput: "state",
    Argument: "argument",
    Constant: "constant",
    Setting: "number",
    ScalarInput: "number",
}
SAVED_COLUMNS = ("bytes", "times", "line", "op", "shape", "dtype")
ARENA_COLUMNS = ("bytes", "at", "from", "to", "value", "op", "shape", "dtype", "line")


class PlacedValue(NamedTuple):
    """A value in memory: by name `%n`, made by `op` (an input: what it is) for the line in `origin`.

    `kind` is the memory it lies in: "arena", "result", "gradient", "lent" where gradients will lie that are made later,
    "kept" for a `backward()` outside, or, for an input, "state", "argument", "constant", "number". In the arena, and
    in what is lent, it begins at byte `offset`, and is there from entry `first` of `explain()` to entry `last`.
    `saved`: forward made it and backward reads it.
    """

    name: str
    op: str
    origin: ValueOrigin | None
    shape: tuple[int, ...]
    dtype: NumpyDtype
    nbytes: int
    kind: str
    offset: int | None
    first: int | None
    last: int | None
    saved: bool


class ProgramMemory:
    """Every value that has memory, and the sizes: `arena`, `unshared` (the arena's without reuse), `bytes_of(kind)`.

    `saved` are the values saved for backward, the inputs that it reads among them; `saved_total` counts all of their
    bytes and `saved_of_inputs` those of the inputs. `rematerialized` are the lines, each with its count of
    equations, that are computed once more for backward, which so needs less saved. `backward` is the memory of the half
    that runs when `backward()` is called outside of the step. Prints as tables, largest first.
    """

    def __init__(
        self,
        name: str,
        values: tuple[PlacedValue, ...],
        plan: MemoryPlan,
        again: dict[str, int],
        backward: ProgramMemory | None = None,
    ) -> None:
        self.name, self.values, self.plan, self.backward = name, values, plan, backward
        self.rematerialized = again
        self.arena, self.unshared = plan.size, plan.unshared
        self.saved = tuple(value for value in values if value.saved)
        self.saved_total = sum(value.nbytes for value in self.saved)
        self.saved_of_inputs = sum(value.nbytes for value in self.saved if value.kind in INPUT_KINDS.values())

    def bytes_of(self, kind: str) -> int:
        """The bytes of all values of a kind; for the arena, what they would take without padding and without reuse."""
        return sum(value.nbytes for value in self.values if value.kind == kind)

    @property
    def head(self) -> str:
        """The sizes in a sentence."""
        kinds = {"state": "state", "arguments": "argument", "results": "result", "gradients": "gradient"}
        kinds |= {"kept for backward()": "kept"} if self.bytes_of("kept") else {}
        others = ", ".join(f"{what} {self.bytes_of(kind):,}" for what, kind in kinds.items())
        return f"{self.name}: {self.plan}; besides it, in bytes: {others}"

    @property
    def foot(self) -> str:
        """The number and bytes of the values saved for backward, in a sentence."""
        if not self.saved:
            return "nothing is saved for backward"
        count = sum(self.rematerialized.values())
        verb = "is" if count == 1 else "are"
        again = f"; {pluralize(count, 'equation')} {verb} computed again for it" if count else ""
        inputs = f"of which {self.saved_of_inputs:,} are those of inputs, which are there anyway"
        return f"{self.saved_total:,} bytes in {pluralize(len(self.saved), 'buffer')}, {inputs}{again}"

    def saved_rows(self) -> list[tuple[str, ...]]:
        """The table of values saved for backward: a row for those of one line, op and shape, largest first."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for value in self.saved:
            key = (_format_origin(value.origin), value.op, str(list(value.shape)), str(value.dtype))
            groups.setdefault(key, []).append(value.nbytes)
        ordered = sorted(groups.items(), key=lambda item: -sum(item[1]))
        return [(f"{sum(sizes):,}", str(len(sizes)), *key) for key, sizes in ordered]

    def arena_rows(self) -> list[tuple[str, ...]]:
        """The values in the arena, largest first."""
        inside = sorted((v for v in self.values if v.kind == "arena"), key=lambda v: (-v.nbytes, v.first))
        spans = ((f"{v.nbytes:,}", str(v.offset), str(v.first), str(v.last)) for v in inside)
        kinds = ((v.name, v.op, str(list(v.shape)), str(v.dtype), _format_origin(v.origin)) for v in inside)
        return [(*span, *kind) for span, kind in zip(spans, kinds, strict=True)]

    def __str__(self) -> str:
        saved = (
            ["saved for backward:", *format_columns([SAVED_COLUMNS, *self.saved_rows()], (0, 1))] if self.saved else []
        )
        arena: list[str] = []
        if self.plan.offsets:
            arena = ["", "in the arena:", *format_columns([ARENA_COLUMNS, *self.arena_rows()], (0, 1, 2, 3))]
        backward = [] if self.backward is None else ["", str(self.backward)]
        return "\n".join([self.head, "", *saved, self.foot, *arena, *backward])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        saved, arena = _escape_cells(self.saved_rows()), _escape_cells(self.arena_rows())
        parts = [
            f"<p><b>{escape(self.head)}</b></p>",
            render_table(SAVED_COLUMNS, saved, (0, 1)) if saved else "",
            f"<p>{escape(self.foot)}</p>",
            f"<p>in the arena:</p>{render_table(ARENA_COLUMNS, arena, (0, 1, 2, 3))}" if arena else "",
            "" if self.backward is None else self.backward._repr_html_(),
        ]
        return render_frame("\n".join(parts))


def report_memory(program: Program) -> ProgramMemory:
    """Report the place and lifetime of a program's values, and which of them are saved for backward."""
    graph, plan, backward = program.graph, program.binding.plan, backward_program(program)
    names, saved, spans = graph.names(), _find_saved(program), _live_spans(program)
    places = plan.offsets | plan.lent
    values: list[PlacedValue] = []

    def place(v: Value, kind: str, origin: ValueOrigin | None, is_saved: bool) -> None:
        op = v.op.name if v.op is not None else f"{kind} {getattr(v.source, 'name', '')}".rstrip()
        offset, first, last = (places[v], *spans[v]) if kind in ("arena", "lent") else (None, None, None)
        values.append(
            PlacedValue(names[v], op, origin, v.shape, v.dtype, v.nbytes, kind, offset, first, last, is_saved)
        )

    for v in graph.inputs:
        place(v, INPUT_KINDS[type(v.source)], saved.get(v), v in saved)
    fresh = [("result", program.outcome.results), ("kept", program.outcome.saved)]
    placed: set[Value] = set()
    for kind, made in (*fresh, ("arena", plan.offsets), ("lent", plan.lent)):
        for v in made:
            if v.op is not None and v not in placed:
                placed.add(v)
                place(v, kind, origin_of(v, graph), v in saved)
    for _, slope in program.outcome.gradients:
        if slope is not None:
            place(slope, "gradient", origin_of(slope, graph), slope in saved and slope not in placed)
    computed = [
        _format_origin(v.origin)
        for v in graph.equations
        if v.origin and v.origin.rematerialized and not is_view_or_generated(v)
    ]
    again = {line: computed.count(line) for line in dict.fromkeys(computed)}
    return ProgramMemory(graph.name, tuple(values), plan, again, None if backward is None else report_memory(backward))


def _find_saved(program: Program) -> dict[Value, ValueOrigin | None]:
    """Return the values in memory for backward, each with the line of forward that it is there for.

    These are the inputs, and the values stored by entries of the forward pass, that a backward equation of another
    entry reads, or the half that `backward()` runs. A factor of a gradient that is computed in the forward pass is
    saved in its stead.
    """
    graph, fusion = program.graph, program.fusion
    saved: dict[Value, ValueOrigin | None] = {}
    if program.backward is not None:
        half = program.backward.half
        readers = graph.users()
        inputs = [v for v in (*half.saved, *half.further) if v in readers and v.op is None]
        saved.update((v, next((u.origin for u in readers[v]), None)) for v in inputs)
        saved.update((v, origin_of(v, graph)) for v in program.outcome.saved)
    forward = _differentiated_equations(graph)
    for value in graph.equations if forward else ():
        group = fusion.maker.get(value)
        if group is None or value.origin is None or not value.origin.backward:
            continue
        for operand in value.operands:
            base = fusion.views[operand].base if operand in fusion.views else operand
            maker = fusion.maker.get(base)
            is_input = isinstance(base.source, (StateInput, Argument))
            if is_input or (maker not in (None, group) and any(v in forward for v in maker.equations)):
                saved.setdefault(base, value.origin._replace(backward=False, rematerialized=False))
    return saved


def _differentiated_equations(graph: Graph) -> set[Value]:
    """The forward equations on which a backward one depends: not those of the optimizer."""
    needed = {v for v in graph.equations if v.origin is not None and v.origin.backward}
    forward: set[Value] = set()
    for value in reversed(graph.equations):
        if value in needed:
            needed.update(value.operands)
            if value.origin is not None and not value.origin.backward:
                forward.add(value)
    return forward


def _live_spans(program: Program) -> dict[Value, tuple[int, int]]:
    """Return the entry that writes each value of the arena, and the last entry that reads it."""
    fusion, order = program.fusion, program.fusion.order
    step: dict[Group, int] = {group: i for i, group in enumerate(order)}
    plan = program.binding.plan
    spans = {v: (step[fusion.maker[v]], step[fusion.maker[v]]) for v in plan.offsets | plan.lent}
    for group in order:
        for operand in (o for value in group.equations for o in value.operands):
            base = fusion.views[operand].base if operand in fusion.views else operand
            if base in spans:
                first, last = spans[base]
                spans[base] = first, max(last, step[group])
    for v in program.outcome.outputs():  # copied to where it belongs when all is computed
        if v in spans:
            spans[v] = spans[v][0], len(order)
    return spans


def _format_origin(origin: ValueOrigin | None) -> str:
    return "" if origin is None else str(origin)


def _escape_cells(rows: Iterable[Iterable[str]]) -> list[list[str]]:
    return [[escape(cell) for cell in row] for row in rows]
