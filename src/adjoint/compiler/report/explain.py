"""`explain()`: the kernels and calls of a program in order, their source lines and costs, and why each begins."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.compiler.ir.graph import Graph, Value, ValueOrigin
from adjoint.compiler.kernels.gather_scatter.scatter import count_replaced
from adjoint.compiler.passes.cost_model import bytes_read, bytes_written, flops, total_flops
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group, describe_call
from adjoint.compiler.passes.loops.repeated_rows import Least, Row, RowTable
from adjoint.compiler.report.loop_text import format_loops
from adjoint.core.op.spec import describe
from adjoint.core.runtime.html import render_table
from adjoint.core.runtime.text_table import format_columns, format_size, pluralize

if TYPE_CHECKING:
    from adjoint.compiler.cuts.staged_entry import StagedEntry
    from adjoint.compiler.passes.memory_plan import MemoryPlan
    from adjoint.compiler.program.program import Program
    from adjoint.compiler.report.kernel_times import ProgramTimes, StepTimes

TABLE_COLUMNS = ("#", "kind", "read", "written", "flops", "line", "ops")
NUMBER_COLUMNS = (0, 2, 3, 4)
EMPTY_NUMBER_CELLS = ("",) * 5  # the columns of numbers, in the rows below an entry's first
OPS_COLUMN_WIDTH = 76  # of the column of ops
MIN_TURNS_TO_FOLD = 8  # of entries that come again: from there on they are printed once


class Equation(NamedTuple):
    """One equation as `graph` prints it, by name `%n`, with its op and what it costs (`flops` None: not known).

    `origin` has the user's `site` (file, line, function), the `module` that ran, and whether it is `backward`.
    """

    name: str
    op: str
    text: str
    origin: ValueOrigin | None
    flops: int | None


class Boundary(NamedTuple):
    """Why an entry is not one with the earlier entry number `entry`, whose `values` (`nbytes` of them) it reads, and
    for which line that is so.
    """

    entry: int
    values: tuple[str, ...]
    nbytes: int
    reason: str
    origin: ValueOrigin | None


@dataclass(frozen=True)
class ExplainEntry:
    """One kernel, one exchange between ranks or one call of NumPy: its equations, what it stores and costs, and why it
    begins: `reason`, because of the line in `origin`.
    """

    number: int
    kind: str  # "kernel", "check", "exchange" or "call"
    name: str
    equations: tuple[Equation, ...]
    results: tuple[str, ...]
    read: int
    written: int
    flops: int | None
    reason: str
    origin: ValueOrigin | None
    boundaries: tuple[Boundary, ...]

    @property
    def lines(self) -> dict[str, list[str]]:
        """The source lines and the ops that came from each."""
        lines: dict[str, list[str]] = {}
        for equation in self.equations:
            lines.setdefault(format_origin(equation.origin), []).append(equation.op)
        return lines

    def reasons(self) -> Iterable[str]:
        """Why it begins, then why it is apart from what it reads, where that is for another reason."""
        yield f"begins here, at {_format_short_origin(self.origin)}: {self.reason}"
        others: dict[tuple[str, str], list[int]] = {}
        for boundary in self.boundaries:
            if boundary.reason != self.reason:
                others.setdefault((boundary.reason, _format_short_origin(boundary.origin)), []).append(boundary.entry)
        for (reason, line), entries in others.items():
            yield f"apart from {', '.join(f'[{i}]' for i in entries)}, at {line}: {reason}"


class Explanation:
    """A program's entries in the order in which they run; `backward` is that of the half that runs when `backward()` is
    called outside of the step. `loop` tells of a loop that runs in Python, if this is its body. Prints as a table.
    """

    def __init__(
        self,
        name: str,
        count: int,
        entries: tuple[ExplainEntry, ...],
        plan: MemoryPlan,
        backward: Explanation | None = None,
        ways: tuple[str, ...] = (),
        times: ProgramTimes | None = None,
        call: StepTimes | None = None,
    ) -> None:
        self.name, self.entries, self.plan, self.backward = name, entries, plan, backward
        self.times, self.call = times, call  # what each entry takes, and the whole call, if that was measured
        self.loop = ""
        self.ways = ways  # the tree of the step's decisions, line by line
        self.equations = count
        self.read = sum(entry.read for entry in entries)
        self.written = sum(entry.written for entry in entries)
        self.flops = sum(entry.flops or 0 for entry in entries)

    @property
    def head(self) -> str:
        """The totals in a sentence."""
        kinds = Counter(entry.kind for entry in self.entries)
        parts = [pluralize(kinds["kernel"], "kernel")]
        parts += [pluralize(kinds[kind], kind) for kind in ("check", "exchange") if kinds[kind]]
        calls = pluralize(kinds["call"], "NumPy call")
        return f"{self.name}: {pluralize(self.equations, 'equation')} in {', '.join(parts)} and {calls}; {self.plan}"

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [TABLE_COLUMNS]
        for times, entries in self.turns():
            if times > 1:
                first, last = entries[0].number, entries[0].number + times * len(entries) - 1
                rows.append((*EMPTY_NUMBER_CELLS, f"{times} times, as {first} to {last}:"))
            for entry in entries:
                rows.extend(_entry_rows(entry))
            if times > 1:
                rows.append((*EMPTY_NUMBER_CELLS, f"end of what comes {times} times"))
        total = f"{self.read:,} bytes read, {self.written:,} written, {self.flops:,} flops"
        backward = [] if self.backward is None else ["", str(self.backward)]
        ways = ["", "ways through the step's decisions:", *self.ways] if self.ways else []
        lines = format_columns(*self._add_times(rows))
        measured = [str(self.call)] if self.call is not None else []
        unknown = {} if self.times is None else self.times.reasons
        reasons = [f"[{number}] was not measured: {reason}" for number, reason in unknown.items()]
        loop = [self.loop] if self.loop else []
        return "\n".join([*loop, self.head, *lines, total, *measured, *reasons, *backward, *ways])

    def _add_times(self, rows: list[tuple[str, ...]]) -> tuple[list[tuple[str, ...]], tuple[int, ...]]:
        """The rows with the time of each entry and its share of the call, if measured, and the columns of numbers."""
        if self.times is None:
            return rows, NUMBER_COLUMNS
        known = self.times.seconds
        whole = self.call.call if self.call is not None else sum(known.values())
        shown = [(*rows[0][:2], "µs", "share", *rows[0][2:])]
        for row in rows[1:]:
            taken = known.get(int(row[0])) if row[0] else None
            number = "" if not row[0] else "–" if taken is None else f"{1e6 * taken:,.2f}"
            share = "" if taken is None or not whole else f"{taken / whole:.1%}"
            shown.append((*row[:2], number, share, *row[2:]))
        return shown, (0, 2, 3, 4, 5, 6)

    __repr__ = __str__

    def turns(self) -> Iterator[tuple[int, Sequence[ExplainEntry]]]:
        """Yield the entries in parts: those of the first turn of a loop with the number of turns, others with 1."""
        rows = [Row((e.kind, e.name, tuple(e.lines), e.results), []) for e in self.entries]
        at = 0
        for run in RowTable(rows, {}, Least(MIN_TURNS_TO_FOLD, 2 * MIN_TURNS_TO_FOLD)).find_runs():
            yield 1, self.entries[at : run.start]
            yield run.turns, self.entries[run.start : run.start + run.period]
            at = run.stop
        yield 1, self.entries[at:]

    def _repr_html_(self) -> str:
        rows: list[tuple[str, ...]] = [(*TABLE_COLUMNS[:5], "lines: ops", "results", "why")]
        for entry in self.entries:
            lines = "<br>".join(f"{escape(line)}: {escape(' '.join(ops))}" for line, ops in entry.lines.items())
            reasons = "<br>".join(map(escape, entry.reasons()))
            rows.append((*_number_cells(entry), lines, escape(format_counts(entry.results)), reasons))
        (head, *cells), numbers = self._add_times(rows)
        shown = f"<p>{escape(self.loop)}</p>" if self.loop else ""
        shown += f"<p>{escape(self.head)}</p>" + render_table(head, cells, numbers)
        shown += "" if self.call is None else f"<p>{escape(str(self.call))}</p>"
        return shown if self.backward is None else shown + self.backward._repr_html_()


def _entry_rows(entry: ExplainEntry) -> Iterator[tuple[str, ...]]:
    """Yield the rows of an entry in the table."""
    lines = [
        (line if first else "", ops)
        for line, names in entry.lines.items()
        for first, ops in _wrap_text(" ".join(names))
    ]
    yield (*_number_cells(entry), *lines[0])
    yield from ((*EMPTY_NUMBER_CELLS, *line) for line in lines[1:])
    yield from ((*EMPTY_NUMBER_CELLS, ops) for _, ops in _wrap_text(f"→ {format_counts(entry.results)}"))
    yield from ((*EMPTY_NUMBER_CELLS, reason) for reason in entry.reasons())


def explain(
    program: Program, paths: Sequence[StagedEntry] = (), times: StepTimes | None = None, at: int = 0
) -> Explanation:
    """Explain which equations became which kernel, from which lines, at what cost, and why each boundary is there.

    `paths`: the ways through the decisions of the step, where it has any. `times`: those of the step's programs, of
    which this is number `at`.
    """
    graph, backward = program.graph, backward_program(program)
    second = None if backward is None else explain(backward)
    if second is not None and times is not None:
        second.times = times.backward[at]
    entries, plan, ways = explain_groups(program), program.binding.plan, tuple(_describe_ways(paths, 0))
    own = None if times is None else times.programs[at]
    return Explanation(graph.name, len(graph.equations), entries, plan, second, ways, own, times)


def _describe_ways(paths: Sequence[StagedEntry], depth: int) -> Iterator[str]:
    """The questions and calls of a step, each answer with what follows it, and how often that was."""
    indent = "  " * depth
    for path in paths:
        if len(path.events) == depth:
            calls, programs = pluralize(path.taken, "call"), pluralize(len(path.stages), "program")
            yield f"{indent}{calls}: {programs}; {path.kept_bytes()} bytes kept from one to another"
    further = [path for path in paths if len(path.events) > depth]
    while further:
        event = further[0].events[depth]
        alike = [path for path in further if event.is_like(path.events[depth])]
        further = [path for path in further if path not in alike]
        yield f"{indent}{event}"
        yield from _describe_ways(alike, depth + 1)


def explain_groups(program: Program) -> tuple[ExplainEntry, ...]:
    """Return the entries of a program in the order in which they run."""
    order, names = program.fusion.order, program.graph.names()
    numbers = {group: i for i, group in enumerate(order)}
    return tuple(_explain_group(program, group, numbers, names) for group in order)


def backward_program(program: Program) -> Program | None:
    """The program that runs when `backward()` is called outside, made if it was not needed so far; None without one."""
    return None if program.backward is None else program.backward.program


class EntryDict(dict[str, Any]):
    """An entry as a dictionary, which prints as its loops."""

    def __init__(self, entry: ExplainEntry, loops: str) -> None:
        ops, results = [equation.op for equation in entry.equations], list(entry.results)
        super().__init__(kind=entry.kind, name=entry.name, ops=ops, results=results)
        self.update(lines=list(entry.lines), reason=entry.reason)
        self.loops = loops

    def __str__(self) -> str:
        return self.loops


def entries_as_dicts(program: Program) -> list[EntryDict]:
    """Return the entries as dictionaries, those of the backward half too."""
    return [
        EntryDict(entry, format_loops(group, half.fusion, half.graph.names()))
        for half in (program, backward_program(program))
        if half is not None
        for entry, group in zip(explain_groups(half), half.fusion.order, strict=True)
    ]


def _explain_group(program: Program, group: Group, numbers: dict[Group, int], names: dict[Value, str]) -> ExplainEntry:
    graph, fusion = program.graph, program.fusion
    kernel = program.kernels.get(group)
    overwritten = replaced = None
    if group.root is not None and program.binding.is_written_in_place(group):
        overwritten, replaced = group.root.operands[0], count_replaced(group.root, fusion.views)
    equations = tuple(
        Equation(names[v], v.op.name, graph.describe(v, names), origin_of(v, graph), flops(v)) for v in group.equations
    )
    return ExplainEntry(
        number=numbers[group],
        kind=kind_of(program, group),
        name=kernel.name if kernel else group.equations[0].op.name,
        equations=equations,
        results=tuple(describe(v) for v in group.stored),
        read=bytes_read(group, fusion, overwritten),
        written=bytes_written(group, replaced),
        flops=total_flops(group),
        reason=describe_exchange(program, group.equations[0]) or group.reason,
        origin=equations[0].origin,
        boundaries=tuple(_find_boundaries(graph, fusion, group, numbers, names)),
    )


def kind_of(program: Program, group: Group) -> str:
    """Return what an entry of a program is: "kernel", "check", "exchange" or "call"."""
    if not group.call:
        return "kernel"
    if group.equations[0].op.family == "collective":
        return "exchange"
    return "check" if program.binding.is_native(group) else "call"


def describe_exchange(program: Program, value: Value) -> str:
    """Return who exchanges how much, and how long that took in the calls so far; an empty string for other equations.

    What a bucket of gradients takes is its own time, most of which may lie behind other work; the step waited for the
    rest.
    """
    if value.op.family != "collective":
        return ""
    bucket = value.params.get("bucket")
    group = value.params["group"] if bucket is None else bucket.group
    waited = times.mean() if (times := program.binding.exchange_times.get(value)) else None
    whole = waited if bucket is None else bucket.times.mean()
    told = "" if whole is None else f", {_format_milliseconds(whole)} ms"
    if waited is not None and whole is not None:
        told += f", of which {_format_milliseconds(min(waited, whole))} waited"
    size = format_size(max(value.nbytes, sum(x.nbytes for x in value.operands)))
    return f"{value.op.name} is exchanged by {pluralize(group.size(), 'rank')}, {size}{told}"


def _format_milliseconds(seconds: float) -> str:
    milliseconds = 1e3 * seconds
    return f"{milliseconds:.2g}" if milliseconds < 10 else f"{milliseconds:,.0f}"


def _find_boundaries(
    graph: Graph, fusion: Fusion, group: Group, numbers: dict[Group, int], names: dict[Value, str]
) -> Iterable[Boundary]:
    """One for each earlier entry that a group reads from, told at the first equation that reads there."""
    readers: dict[Group, Value] = {}
    values: dict[Group, dict[Value, None]] = {}
    for value in group.equations:
        for operand in value.operands:
            base = fusion.views[operand].base if operand in fusion.views else operand
            maker = fusion.maker.get(base)
            if maker is not None and maker is not group:
                readers.setdefault(maker, value)
                values.setdefault(maker, {})[base] = None
    for maker in sorted(readers, key=numbers.__getitem__):
        reader, read = readers[maker], values[maker]
        yield Boundary(
            numbers[maker],
            tuple(names[v] for v in read),
            sum(v.nbytes for v in read),
            _why_apart(fusion, reader, maker, group),
            origin_of(reader, graph),
        )


def _why_apart(fusion: Fusion, reader: Value, maker: Group, group: Group) -> str:
    if group.call or reader.op.family == "check":
        return describe_call(reader)
    if reader is group.root:
        return f"{reader.op.name} reads more of its operands than one element at a time"
    if maker.call:
        return f"its operand is made by a call ({maker.equations[0].op.name})"
    shape = reader.operands[0].shape if reader.op.combine else reader.shape
    refusal = fusion.why_not_fused(maker, reader, shape)
    return refusal or f"{reader.op.name} was in another kernel first, and the two cannot be one"


def origin_of(value: Value, graph: Graph) -> ValueOrigin | None:
    """The line of an equation; that of the nearest equation that it reads or that reads it, where a pass made it."""
    if value.origin is not None:
        return value.origin
    users = graph.users()
    for neighbours in (lambda v: v.operands, lambda v: users.get(v, [])):
        queue, seen = [value], {value}
        for at in queue:
            if at.origin is not None:
                return at.origin
            fresh = [v for v in neighbours(at) if v not in seen]
            seen.update(fresh)
            queue.extend(fresh)
    return None


def _number_cells(entry: ExplainEntry) -> list[str]:
    known = "–" if entry.flops is None else f"{entry.flops:,}"
    return [str(entry.number), entry.kind, f"{entry.read:,}", f"{entry.written:,}", known]


def _wrap_text(text: str) -> Iterable[tuple[bool, str]]:
    """A long text as lines, each with whether it is the first."""
    return ((i == 0, line) for i, line in enumerate(textwrap.wrap(text, OPS_COLUMN_WIDTH, subsequent_indent="  ")))


def format_counts(results: Iterable[str]) -> str:
    """Results as they are shown: `f32[4], f32[] × 3`."""
    return ", ".join(f"{name} × {n}" if n > 1 else name for name, n in Counter(results).items())


def format_origin(origin: ValueOrigin | None) -> str:
    """A line as it is shown."""
    return "the step's result" if origin is None else str(origin)


def _format_short_origin(origin: ValueOrigin | None) -> str:
    return format_origin(origin).partition(" in ")[0]
