"""A program on one HTML page which opens offline: kernels, memory, source lines, equations, generated code."""

from __future__ import annotations

import linecache
import re
from html import escape
from typing import TYPE_CHECKING

from adjoint.compiler.ir.graph import Graph
from adjoint.compiler.report.explain import (
    Explanation,
    backward_program,
    explain,
    format_counts,
    format_origin,
    origin_of,
)
from adjoint.compiler.report.memory_report import ProgramMemory, report_memory
from adjoint.compiler.report.memory_timeline import timeline
from adjoint.compiler.report.source_listing import list_assembly
from adjoint.core.graph.source_location import Site, describe_cell_line
from adjoint.core.runtime import html

if TYPE_CHECKING:
    from adjoint.compiler.program.program import Program

VALUE_NAME = re.compile(r"%(\d+)")
TIMELINE_LEGEND = (
    '<p class="dim">One rectangle for each value in the arena: to the right the entries during which it is needed, '
    'upwards its bytes. <b class="forward">Forward</b>, <b class="backward">backward</b>, '
    '<b class="saved">saved for backward</b>; point at one to read its line.</p>'
)


def page(program: Program) -> str:
    """The page as HTML; a half that runs when `backward()` is called outside follows the first."""
    told, held = explain(program), report_memory(program)
    halves = [half for half in (told, told.backward) if half is not None]
    entries = [entry for half in halves for entry in half.entries]
    kernels = sum(entry.kind == "kernel" for entry in entries)
    read, written = sum(half.read for half in halves), sum(half.written for half in halves)
    numbers = [
        ("equations", f"{sum(half.equations for half in halves):,}"),
        ("kernels", f"{kernels:,}"),
        ("NumPy calls", f"{len(entries) - kernels:,}"),
        ("bytes read and written", f"{read:,} + {written:,}"),
        ("arena, and without reuse", f"{held.arena:,} / {held.unshared:,}"),
        ("saved for backward", f"{held.saved_total:,}"),
    ]
    sections = _ProgramSections("", program, told, held).sections("")
    backward = backward_program(program)
    if backward is not None and told.backward is not None and held.backward is not None:
        sections += _ProgramSections("backward-", backward, told.backward, held.backward).sections("backward ")
    return html.render_page(f"compiled {told.name}", html.render_figures(numbers), sections)


class _ProgramSections:
    """The sections about one program; `prefix` sets its anchors apart from those of another on the page."""

    def __init__(self, prefix: str, program: Program, told: Explanation, held: ProgramMemory) -> None:
        self.prefix, self.program, self.explanation, self.held = prefix, program, told, held

    def sections(self, lead: str) -> list[tuple[str, str]]:
        """Titles, each after `lead`, and contents."""
        contents = {
            "kernels": self.kernels,
            "memory": self.memory,
            "source lines": self.lines,
            "equations": self.equations,
            "generated code": self.code,
        }
        return [((lead + title).capitalize(), content()) for title, content in contents.items()]

    def kernels(self) -> str:
        rows = []
        for entry in self.explanation.entries:
            lines = "".join(
                f"<div>{_format_line(line)}: <code>{escape(' '.join(ops))}</code></div>"
                for line, ops in entry.lines.items()
            )
            known = "–" if entry.flops is None else f"{entry.flops:,}"
            results = f"<code>{escape(format_counts(entry.results))}</code>"
            lines += "".join(f'<div class="dim">{escape(reason)}</div>' for reason in entry.reasons())
            after = ", ".join(self._link_entry(boundary.entry) for boundary in entry.boundaries)
            rows.append(
                [str(entry.number), entry.kind, lines, results, after, f"{entry.read:,}", f"{entry.written:,}", known]
            )
        head = ("#", "kind", "lines, their ops, and why they begin here", "stores", "after", "read", "written", "flops")
        return html.render_table(
            head, rows, (0, 5, 6, 7), [self._entry_id(entry.number) for entry in self.explanation.entries]
        )

    def memory(self) -> str:
        saved = [[escape(cell) for cell in row] for row in self.held.saved_rows()]
        kept = [[escape(cell) for cell in row] for row in self.held.arena_rows()]
        return "\n".join(
            [
                f"<p>{escape(self.held.head)}</p>",
                TIMELINE_LEGEND,
                timeline(self.held),
                "<h3>Saved for backward</h3>",
                html.render_table(("bytes", "times", "line", "op", "shape", "dtype"), saved, (0, 1)),
                f"<p>{escape(self.held.foot)}</p>",
                "<h3>In the arena</h3>",
                html.render_table(
                    ("bytes", "at", "from", "to", "value", "op", "shape", "dtype", "line"), kept, (0, 1, 2, 3)
                ),
            ]
        )

    def lines(self) -> str:
        """Every line of the user's that led to code, file by file, and the entries it went into."""
        into: dict[Site, dict[bool, dict[int, None]]] = {}
        for entry in self.explanation.entries:
            for equation in entry.equations:
                if equation.origin is not None:
                    site, backward = equation.origin.site, equation.origin.backward
                    into.setdefault(site, {False: {}, True: {}})[backward][entry.number] = None
        parts = []
        for file in dict.fromkeys(site.file for site in into):
            sites = sorted((site for site in into if site.file == file), key=lambda site: site.line)
            rows = [
                [
                    str(site.line),
                    f"<code>{escape(linecache.getline(file, site.line).strip())}</code>",
                    *(", ".join(map(self._link_entry, into[site][backward])) for backward in (False, True)),
                ]
                for site in sites
            ]
            heading = (describe_cell_line(file, 1) or file).removesuffix(", line 1")
            parts.append(f"<h3><code>{escape(heading)}</code></h3>")
            parts.append(html.render_table(("line", "code", "forward, in", "backward, in"), rows, (0,)))
        return "\n".join(parts)

    def equations(self) -> str:
        graph: Graph = self.program.graph
        names = graph.names()
        made_in = {equation.name: entry.number for entry in self.explanation.entries for equation in entry.equations}
        inputs = str(graph).splitlines()[1 : 1 + len(graph.inputs)]
        rows = [[f"<code>{escape(line.strip())}</code>", '<span class="dim">input</span>', ""] for line in inputs]
        for v in graph.equations:
            number = made_in.get(names[v])
            where = '<span class="dim">no memory</span>' if number is None else self._link_entry(number)
            text = f"<code>{self._link_values(graph.describe(v, names))}</code>"
            rows.append([text, where, _format_line(format_origin(origin_of(v, graph)))])
        anchors = [f"{self.prefix}value-{name[1:]}" for name in names.values()]
        outputs = self._link_values(", ".join(names[v] for v in graph.outputs))
        table = html.render_table(("equation", "in", "line"), rows, (), anchors)
        return f"{table}<p>Returned or written: <code>{outputs}</code></p>"

    def code(self) -> str:
        parts = [html.render_details("the Python entry", self.program.source)]
        for entry, text in list_assembly(self.program):
            if text:
                ops = " ".join(equation.op for equation in entry.equations)
                parts.append(html.render_details(f"[{entry.number}] {entry.name}: {ops}", text))
        return "\n".join(parts)

    def _entry_id(self, number: int) -> str:
        return f"{self.prefix}entry-{number}"

    def _link_entry(self, number: int) -> str:
        return f'<a href="#{self._entry_id(number)}">[{number}]</a>'

    def _link_values(self, text: str) -> str:
        """Text in which `%n` leads to the equation of that name."""
        return VALUE_NAME.sub(rf'<a href="#{self.prefix}value-\1">%\1</a>', escape(text))


def _format_line(line: str) -> str:
    """A line as text, in the colour of its direction."""
    kind = "backward" if line.endswith(("· backward", "· again")) else "forward"
    return f'<span class="{kind}">{escape(line)}</span>'
