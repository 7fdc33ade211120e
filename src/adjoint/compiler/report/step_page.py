"""The page of a compiled step: its graph after each pass, kernels, memory and code beside the user's lines."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.report.drawn_graph import draw_graph, is_view, shorten, value_keys
from adjoint.compiler.report.explain import ExplainEntry, Explanation, format_origin
from adjoint.compiler.report.kernel_pane import render_kernels
from adjoint.compiler.report.kernel_times import format_microseconds
from adjoint.compiler.report.memory_pane import render_memory
from adjoint.compiler.report.memory_report import report_memory
from adjoint.compiler.report.pass_stages import PassStages
from adjoint.compiler.report.source_listing import list_assembly
from adjoint.core.runtime.text_table import format_size
from adjoint.core.viewer.document import DrawnGraph, DrawnGroup, GraphDocument, Pane, Rows
from adjoint.core.viewer.page import GraphPage, render_document

if TYPE_CHECKING:
    from adjoint.compiler.program.program import Program

MAX_OPEN_KERNELS = 12  # up to which the boxes of kernels are open at first
MAX_CODE_LENGTH = 1_000_000  # letters of assembly on a page


def render_step_page(
    explanations: Sequence[tuple[Program, Explanation]], stages: PassStages, unmeasured: str = ""
) -> GraphPage:
    """Return the page of a step's programs, with their explanations; a backward half follows its program.

    `stages`: the graphs before the kernels, of a step that is one program. `unmeasured`: why there are no times.
    """
    graphs: list[DrawnGraph] = []
    panes: list[Pane] = []
    note, name = " ".join(filter(None, (stages.note, unmeasured))), explanations[0][1].name
    for i, (program, explanation) in enumerate(explanations):
        drawn, label = _DrawnProgram(program, explanation, f"k{i}-"), ""
        if explanation.name != name:
            label = "backward "
        elif len(explanations) > 1:
            label = "forward " if explanation.backward is not None else f"program {i + 1} "
        graphs += [*((stages.forward, stages.backward)[i] if i < 2 else ()), drawn.draw(f"{label}kernels", note)]
        panes += drawn.panes(label)
    first = len(stages.forward)  # the kernels of the first
    return render_document(GraphDocument(f"compiled {name}", tuple(graphs), tuple(panes), first))


class _DrawnProgram:
    """One program as the viewer draws it: kernels as boxes around their equations."""

    def __init__(self, program: Program, explanation: Explanation, prefix: str) -> None:
        self.program, self.explanation, self.prefix = program, explanation, prefix  # of the keys of its boxes
        self.memory = report_memory(program)
        self.keys = value_keys(program.graph)
        self.boxes = self._find_boxes()

    def _find_boxes(self) -> dict[Value, str]:
        """Return the key of each equation's kernel; a view is with the kernel that alone reads it."""
        graph = self.program.graph
        boxes = {
            value: f"{self.prefix}{number}"
            for number, group in enumerate(self.program.fusion.order)
            for value in group.equations
        }
        users = graph.users()
        for value in reversed(graph.equations):
            readers = {boxes.get(user, "") for user in users[value]}
            if value not in boxes and len(readers) == 1:
                boxes[value] = readers.pop()
        return boxes

    def draw(self, title: str, note: str) -> DrawnGraph:
        """Draw the graph with its kernels."""
        is_open = len(self.explanation.entries) <= MAX_OPEN_KERNELS
        groups = [self._box(entry, is_open) for entry in self.explanation.entries]
        return draw_graph(self.program.graph, title, groups, self.boxes, self._rows(), note)

    def panes(self, label: str) -> list[Pane]:
        """Return the panes beside the graph."""
        named = {name: self.keys[value] for value, name in self.program.graph.names().items()}
        entries = zip(self.explanation.entries, self.program.fusion.order, strict=True)
        keys = {
            entry.number: " ".join([self.boxes[group.equations[0]], *(self.keys[value] for value in group.equations)])
            for entry, group in entries
        }
        contents = {
            "Kernels": render_kernels(self.explanation, keys),
            "Memory": render_memory(self.explanation, self.memory, named),
            "Code": self._render_code(),
        }
        return [Pane((label + title).capitalize(), html) for title, html in contents.items()]

    def _box(self, entry: ExplainEntry, is_open: bool) -> DrawnGroup:
        times = self.explanation.times
        taken = None if times is None else times.seconds.get(entry.number)
        moved = f"{format_size(entry.read)} read, {format_size(entry.written)} written"
        rows = [("memory", moved), ("flops", "unknown" if entry.flops is None else f"{entry.flops:,}")]
        if taken is not None and self.explanation.call is not None:
            share = taken / self.explanation.call.call
            rows.append(("time", f"{format_microseconds(taken)}, {share:.1%} of a call"))
        rows += [("line", format_origin(entry.origin)), ("function", entry.name)]
        sites = dict.fromkeys(each.origin.site for each in entry.equations if each.origin is not None)
        ops = shorten(" ".join(equation.op for equation in entry.equations))
        return DrawnGroup(
            self.boxes[self.program.fusion.order[entry.number].equations[0]],
            f"{entry.number} · {ops}",
            "call" if entry.kind != "kernel" else "kernel",
            subtitle=entry.kind if taken is None else f"{entry.kind} · {format_microseconds(taken)}",
            sites=tuple(sites),
            details=tuple(rows),
            reason="; ".join(entry.reasons()),
            is_open=is_open,
        )

    def _rows(self) -> dict[Value, Rows]:
        """Return where each value lies in memory, and when."""
        placed = {value.name: value for value in self.memory.values}
        rows: dict[Value, Rows] = {}
        for value, name in self.program.graph.names().items():
            place = placed.get(name)
            if place is None:
                rows[value] = (("memory", "none: a view" if is_view(value) else "none: it stays in registers"),)
                continue
            text = f"{format_size(place.nbytes)}, {place.kind}"
            if place.offset is not None:
                text += f" from byte {place.offset:,}, needed from [{place.first}] to [{place.last}]"
            rows[value] = (("memory", text + (", saved for backward" if place.saved else "")),)
        return rows

    def _render_code(self) -> str:
        parts, left = [_render_details("The Python entry", self.program.source)], MAX_CODE_LENGTH
        for entry, text in list_assembly(self.program):
            left -= len(text)
            if text and left > 0:
                ops = " ".join(equation.op for equation in entry.equations)
                parts.append(_render_details(f"[{entry.number}] {entry.name}: {ops}", text))
        if left <= 0:
            parts.append('<p class="dim">The rest is too long for a page: <code>print(step.source())</code></p>')
        return "\n".join(parts)


def _render_details(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(content)}</pre></details>"
