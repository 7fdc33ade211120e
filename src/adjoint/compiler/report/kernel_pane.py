"""The kernels of a program as a pane of its page: what each takes, one call as a flame chart, and why each begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from adjoint.compiler.report.explain import ExplainEntry, Explanation
from adjoint.compiler.report.kernel_clock import KernelSpan
from adjoint.compiler.report.kernel_times import format_microseconds
from adjoint.core.runtime.text_table import format_size, pluralize

WIDTH, ROW_HEIGHT, LEFT = 480.0, 26.0, 54.0  # of the flame chart
LETTER_WIDTH = 6.0
MAX_TICKS = 4
STYLE = """
.kernels { list-style: none; margin: .5rem 0; padding: 0 }
.kernels li { padding: .35rem .3rem .45rem; border-bottom: 1px solid var(--rule) }
.kernels .head { display: flex; gap: .6rem; align-items: baseline }
.kernels .head span { flex: 1; overflow-wrap: anywhere; font-weight: 600 }
.kernels small { color: var(--dim); display: block }
.bar { background: var(--shade); border-radius: 3px; height: .5rem; margin: .2rem 0 .3rem }
.bar b { display: block; height: 100%; border-radius: 3px; background: var(--matrix); min-width: 1px }
.bar b.backward { background: var(--random) } .bar b.call { background: var(--loss) }
.flame { width: 100%; min-width: 22rem; height: auto; display: block; margin: .4rem 0 }
.flame rect { fill: var(--matrix); stroke: var(--paper) } .flame .backward rect { fill: var(--random) }
.flame .call rect { fill: var(--loss) } .flame .lit rect { fill: var(--lit-edge) }
.flame g text { fill: var(--paper); pointer-events: none }
.flame text { fill: var(--dim); font: 11px system-ui, sans-serif }
.flame line { stroke: var(--rule) }
"""


def render_kernels(explanation: Explanation, keys: Mapping[int, str]) -> str:
    """Return the pane. `keys`: of each entry, the key of its box and those of its equations, for the viewer."""
    times = explanation.times
    parts = [f"<style>{STYLE}</style>", f"<p>{escape(explanation.head)}</p>"]
    if explanation.call is not None:
        parts.append(f"<p>{escape(str(explanation.call))}</p>")
    if times is not None and times.spans:
        parts += ["<h3>One call</h3>", '<div class="wide">', _draw_flames(explanation, times.spans, keys), "</div>"]
    parts += ["<h3>Kernels and calls in the order in which they run</h3>", '<ol class="kernels">']
    measured = {} if times is None else times.seconds
    amounts = measured or {entry.number: float(entry.read + entry.written) for entry in explanation.entries}
    largest = max(amounts.values(), default=0.0) or 1.0
    for entry in explanation.entries:
        parts.append(_render_row(entry, keys[entry.number], measured.get(entry.number), amounts, largest))
    parts.append("</ol>")
    if not measured:
        parts.append('<p class="dim">Bars are bytes read and written: no times were measured.</p>')
    reasons = {} if times is None else times.reasons
    parts += [f'<p class="dim">[{number}] was not measured: {escape(why)}</p>' for number, why in reasons.items()]
    return "\n".join(parts)


def _render_row(
    entry: ExplainEntry, keys: str, seconds: float | None, amounts: Mapping[int, float], largest: float
) -> str:
    width = 100 * amounts.get(entry.number, 0.0) / largest
    taken = "" if seconds is None else f"{format_microseconds(seconds)} · {seconds / (sum(amounts.values()) or 1):.0%}"
    lines = "".join(f"<small>{escape(line)}</small>" for line in entry.lines)
    reasons = "".join(f"<small>{escape(reason)}</small>" for reason in entry.reasons())
    moved = f"{format_size(entry.read)} read, {format_size(entry.written)} written"
    moved += "" if entry.flops is None else f", {pluralize(entry.flops, 'flop')}"
    ops = escape(" ".join(equation.op for equation in entry.equations))
    return (
        f'<li data-keys="{keys}"><div class="head">{entry.number}<span>{ops}</span><b class="figure">{taken}</b></div>'
        f'<div class="bar"><b class="{entry_class(entry)}" style="width:{width:.1f}%"></b></div>'
        f"{lines}<small>{moved}</small>{reasons}</li>"
    )


def entry_class(entry: ExplainEntry) -> str:
    """Return the class of an entry: a call, or of the direction of its first equation."""
    if entry.kind != "kernel":
        return "call"
    return "backward" if entry.origin is not None and entry.origin.backward else "forward"


def _draw_flames(explanation: Explanation, spans: Sequence[KernelSpan], keys: Mapping[int, str]) -> str:
    """Draw the spans of one call over time, a row for each thread."""
    start, end = min(span.begin for span in spans), max(span.end for span in spans)
    threads = sorted({span.thread for span in spans})
    scale = (WIDTH - LEFT) / max(end - start, 1)
    ground = ROW_HEIGHT * len(threads)
    return (
        f'<svg class="flame" viewBox="0 0 {WIDTH:g} {ground + 20:g}" role="img" aria-label="kernels over time">'
        + "".join(_draw_time_axis(end - start, scale, ground))
        + "".join(
            f'<text x="0" y="{row * ROW_HEIGHT + 17:g}">thread {thread}</text>' for row, thread in enumerate(threads)
        )
        + "".join(
            _draw_span(
                explanation.entries[span.entry], span, keys[span.entry], start, scale, threads.index(span.thread)
            )
            for span in spans
        )
        + "</svg>"
    )


def _draw_time_axis(taken: int, scale: float, ground: float) -> Iterator[str]:
    for tick in range(MAX_TICKS):
        time = taken * tick / (MAX_TICKS - 1)
        x, anchor = LEFT + time * scale, "end" if tick == MAX_TICKS - 1 else "middle" if tick else "start"
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{ground + 4:g}"/>'
        yield f'<text x="{x:.1f}" y="{ground + 16:g}" text-anchor="{anchor}">{format_microseconds(time / 1e9)}</text>'


def _draw_span(entry: ExplainEntry, span: KernelSpan, keys: str, start: int, scale: float, row: int) -> str:
    x, wide = LEFT + (span.begin - start) * scale, max((span.end - span.begin) * scale, 0.5)
    label = f"{entry.number} " + " ".join(equation.op for equation in entry.equations)
    letters = int((wide - 6) / LETTER_WIDTH)
    text = (
        f'<text x="{x + 4:.1f}" y="{row * ROW_HEIGHT + 16:g}">{escape(label[:letters])}</text>' if letters > 2 else ""
    )
    taken = format_microseconds((span.end - span.begin) / 1e9)
    line = "" if entry.origin is None else f"\n{entry.origin}"
    size = f'y="{row * ROW_HEIGHT + 1:g}" width="{wide:.1f}" height="{ROW_HEIGHT - 4:g}"'
    return (
        f'<g class="{entry_class(entry)}" data-keys="{keys}"><title>{escape(f"{label}: {taken}{line}")}</title>'
        f'<rect x="{x:.1f}" {size} rx="2"/>{text}</g>'
    )
