"""The memory plan as a picture: one rectangle for each value in the arena, time to the right, addresses upwards."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from adjoint.compiler.report.memory_report import PlacedValue, ProgramMemory
from adjoint.core.op.spec import describe

WIDTH, HEIGHT = 1000.0, 320.0
LEFT, BELOW, RIGHT = 70.0, 22.0, 4.0
MAX_TIME_LABELS = 20  # at most so many numbers along the axis of time
LETTER_WIDTH = 5.6  # the width of one, about


def timeline(memory: ProgramMemory) -> str:
    """The picture as inline SVG. Colours tell forward, backward and saved; a tooltip tells the rest."""
    inside = [value for value in memory.values if value.kind == "arena"]
    if not inside:
        return '<p class="dim">The arena is empty.</p>'
    steps = max(value.last or 0 for value in inside) + 1
    wide, high = (WIDTH - LEFT - RIGHT) / steps, (HEIGHT - BELOW) / max(memory.arena, 1)
    parts = [*_draw_axes(steps, wide, memory.arena), *(_draw_rectangle(value, wide, high) for value in inside)]
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="the arena over time">'
        + "\n".join(parts)
        + "</svg>"
    )


def css_class(value: PlacedValue) -> str:
    """The class of a value: saved, backward or forward."""
    if value.saved:
        return "saved"
    return "backward" if value.origin is not None and value.origin.backward else "forward"


def _draw_axes(steps: int, wide: float, size: int) -> Iterator[str]:
    ground = HEIGHT - BELOW
    yield f'<path class="axis" d="M{LEFT:g} 0V{ground:g}H{WIDTH:g}" fill="none"/>'
    for i in range(0, steps, -(-steps // MAX_TIME_LABELS)):
        yield f'<text x="{LEFT + (i + 0.5) * wide:.1f}" y="{ground + 14:g}" text-anchor="middle">{i}</text>'
    for quarter in range(5):
        y = ground - quarter * ground / 4
        yield f'<path class="axis" d="M{LEFT - 4:g} {y:g}H{LEFT:g}"/>'
        yield f'<text x="{LEFT - 8:g}" y="{max(y + 3, 9):g}" text-anchor="end">{size * quarter // 4:,}</text>'


def _draw_rectangle(value: PlacedValue, wide: float, high: float) -> str:
    first, last, offset = value.first or 0, value.last or 0, value.offset or 0
    x, across = LEFT + first * wide, (last - first + 1) * wide
    up = max(value.nbytes * high, 1.0)
    y = HEIGHT - BELOW - offset * high - up
    what = f"{value.name}: {describe(value)} = {value.op}, {value.nbytes:,} bytes at {offset:,}, [{first}] to [{last}]"
    line = "" if value.origin is None else f"\n{value.origin}"
    label = f"{value.name} {value.op}"
    text = ""
    if up > 12 and across > LETTER_WIDTH * (len(label) + 1):
        text = f'<text x="{x + 4:.1f}" y="{y + up / 2 + 3:.1f}" style="fill:var(--paper)">{escape(label)}</text>'
    return (
        f'<g class="{css_class(value)}"><title>{escape(what + line)}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{across:.1f}" height="{up:.1f}" rx="1"/>{text}</g>'
    )
