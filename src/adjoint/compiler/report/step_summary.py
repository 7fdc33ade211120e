"""The display of a compiled step in a notebook: programs, kernels and memory, where it is cut, why it was traced."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from adjoint.compiler.ir.graph import StateInput
from adjoint.compiler.report.explain import kind_of
from adjoint.core.runtime.html import render_frame, render_table
from adjoint.core.runtime.text_table import format_size, pluralize

if TYPE_CHECKING:
    from adjoint.compiler.build import CompiledEntry
    from adjoint.compiler.cuts.staged_entry import StagedEntry
    from adjoint.compiler.program.program import Program
    from adjoint.compiler.trace.recompilation import Recompilation

PROGRAM_COLUMNS = ("program", "equations", "kernels", "NumPy calls", "arena", "state")
MAX_PROGRAMS = 12  # of one call, and reasons of traces: further ones are counted
NOT_CALLED = "not called yet: the first call compiles it"


def render_step(
    name: str, entry: CompiledEntry | StagedEntry | None, traces: Sequence[Recompilation], loop: str = ""
) -> str:
    """Render a compiled step; `entry`: what ran last, None if nothing did, `traces`: why each trace was made.

    `loop`: what became of a loop that runs in Python.
    """
    title = f"<b>{escape(name)}</b> · compiled"
    if entry is None:
        runs = "runs eagerly" if traces else NOT_CALLED
        return render_frame(f'<p>{title} · <span class="dim">{runs}</span></p>')
    title += f" · traced {pluralize(len(traces), 'time')}"
    rows = [_program_row(i, program) for i, program in enumerate(entry.programs[:MAX_PROGRAMS])]
    parts = [f"<p>{title}</p>", render_table(PROGRAM_COLUMNS, rows, range(1, len(PROGRAM_COLUMNS)))]
    parts += [f"<p>{escape(loop)}</p>"] if loop else []
    cuts = [str(event) for event in getattr(entry, "events", ())]
    parts.append(_render_list(f"cut in {pluralize(len(cuts), 'place')}, where it asks for values:", cuts))
    reasons = ["; ".join(map(str, trace.changes)) for trace in traces if trace.changes]
    parts.append(_render_list("traced again:", reasons))
    return render_frame("\n".join(filter(None, parts)))


def _program_row(number: int, program: Program) -> list[str]:
    """Return what a program computes by which means, and the memory that it has: its own, and that of the state."""
    kinds = [kind_of(program, group) for group in program.fusion.order]
    state = sum(v.nbytes for v in program.graph.inputs if isinstance(v.source, StateInput))
    return [
        str(number),
        f"{len(program.graph.equations):,}",
        f"{kinds.count('kernel'):,}",
        f"{kinds.count('call'):,}",
        format_size(program.binding.plan.size),
        format_size(state),
    ]


def _render_list(title: str, items: Sequence[str]) -> str:
    """Return a list below its title; an empty text for no items."""
    if not items:
        return ""
    lines = [f"<li>{escape(item)}</li>" for item in items[:MAX_PROGRAMS]]
    left = len(items) - len(lines)
    lines += [f"<li>and {left:,} more</li>"] if left else []
    return f"<p>{escape(title)}</p><ul>{''.join(lines)}</ul>"
