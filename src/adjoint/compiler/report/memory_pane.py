"""The memory of a program as a pane of its page: what lives when and where, the peak, what is saved for backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from adjoint.compiler.report.explain import Explanation, format_origin
from adjoint.compiler.report.memory_report import PlacedValue, ProgramMemory
from adjoint.compiler.report.memory_timeline import STYLE, css_class, draw_live_bytes, timeline
from adjoint.core.op.spec import describe
from adjoint.core.runtime.html import render_table
from adjoint.core.runtime.text_table import format_size

MAX_ROWS = 300  # of a table
LEGEND = (
    '<p class="dim">One rectangle for each value in the arena: to the right the kernels during which it is needed, '
    'upwards its bytes. <b class="forward">Forward</b>, <b class="backward">backward</b>, '
    '<b class="saved">saved for backward</b>. The curve is the bytes that are needed at each kernel.</p>'
)


def live_bytes(memory: ProgramMemory) -> list[int]:
    """Return the bytes of the arena that are needed at each entry of the program."""
    inside = [value for value in memory.values if value.kind == "arena"]
    bytes_at = [0] * (max((value.last or 0 for value in inside), default=-1) + 1)
    for value in inside:
        for i in range(value.first or 0, (value.last or 0) + 1):
            bytes_at[i] += value.nbytes
    return bytes_at


def render_memory(explanation: Explanation, memory: ProgramMemory, keys: Mapping[str, str]) -> str:
    """Return the pane. `keys`: those of the values by name, for the viewer."""
    needed = live_bytes(memory)
    parts = [f"<style>{STYLE}</style>", f"<p>{escape(memory.head)}</p>", f"<p>{escape(memory.foot)}</p>"]
    if not needed:
        return "\n".join([*parts, '<p class="dim">The arena is empty.</p>'])
    at = needed.index(max(needed))
    held = [v for v in memory.values if v.kind == "arena" and (v.first or 0) <= at <= (v.last or 0)]
    held.sort(key=lambda value: -value.nbytes)
    entry = explanation.entries[at] if at < len(explanation.entries) else None
    where = "when all is computed" if entry is None else f"at [{at}], {format_origin(entry.origin)}"
    inside = sorted((v for v in memory.values if v.kind == "arena"), key=lambda v: (-v.nbytes, v.first or 0))
    saved = sorted(memory.saved, key=lambda value: -value.nbytes)
    parts += [
        '<h3>The arena over time</h3><div class="wide">',
        draw_live_bytes(needed),
        timeline(memory, keys),
        "</div>",
        LEGEND,
        f"<h3>The peak: {format_size(max(needed))} {escape(where)}</h3>",
        _render_table(("bytes",), held, keys, lambda v: ()),
        "<h3>Saved for backward</h3>",
        _render_table(("bytes", "lies in"), saved, keys, lambda v: (v.kind,)),
        "<h3>In the arena</h3>",
        _render_table(
            ("bytes", "at", "from", "to"), inside, keys, lambda v: (f"{v.offset:,}", str(v.first), str(v.last))
        ),
    ]
    return "\n".join(parts)


def _render_table(
    head: Sequence[str],
    values: Sequence[PlacedValue],
    keys: Mapping[str, str],
    cells: Callable[[PlacedValue], tuple[str, ...]],
) -> str:
    """Return a table of values: bytes, `cells`, then the value and its line."""
    if not values:
        return '<p class="dim">None.</p>'
    rows = []
    for value in values[:MAX_ROWS]:
        name = escape(f"{value.name}: {describe(value)} = {value.op}")
        line = "" if value.origin is None else escape(str(value.origin))
        rows.append((f"{value.nbytes:,}", *cells(value), name, f'<span class="{css_class(value)}">{line}</span>'))
    table = render_table((*head, "value", "line"), rows, range(len(head)), (keys.get(v.name, "") for v in values))
    more = f'<p class="dim">and {len(values) - MAX_ROWS:,} more</p>' if len(values) > MAX_ROWS else ""
    return table + more
