"""The memory plan as a picture: one rectangle for each value in the arena, time to the right, addresses upwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from adjoint.compiler.report.memory_report import PlacedValue, ProgramMemory
from adjoint.core.op.spec import describe

WIDTH, HEIGHT = 480.0, 300.0
LEFT, BELOW, RIGHT = 58.0, 22.0, 4.0
MAX_TIME_LABELS = 12  # at most so many numbers along the axis of time
LETTER_WIDTH = 5.6  # the width of one, about
CURVE_HEIGHT = 70.0  # of the bytes needed
STYLE = """
.arena { width: 100%; min-width: 22rem; height: auto; display: block; font: 10px system-ui, sans-serif }
.arena .axis { stroke: var(--rule) } .arena text { fill: var(--dim) }
.arena rect { fill: currentColor; stroke: var(--paper); stroke-width: .5 }
.arena .label { fill: var(--paper); pointer-events: none } .arena .lit rect { fill: var(--lit-edge) }
.arena .curve { fill: color-mix(in srgb, var(--matrix) 18%, transparent); stroke: var(--matrix) }
.arena .peak { fill: var(--run) }
.pane td, .pane th { white-space: nowrap; border-bottom: 1px solid var(--rule) } .pane th { color: var(--dim) }
.pane .number { text-align: right; font-variant-numeric: tabular-nums }
.forward { color: var(--matrix) } .backward { color: var(--random) } .saved { color: var(--leaf) }
"""


def timeline(memory: ProgramMemory, keys: Mapping[str, str]) -> str:
    """The picture as inline SVG. Colours tell forward, backward and saved; a tooltip tells the rest.

    `keys`: of the values by name, for the viewer.
    """
    inside = [value for value in memory.values if value.kind == "arena"]
    if not inside:
        return '<p class="dim">The arena is empty.</p>'
    steps = max(value.last or 0 for value in inside) + 1
    wide, high = (WIDTH - LEFT - RIGHT) / steps, (HEIGHT - BELOW) / max(memory.arena, 1)
    parts = [
        *_draw_axes(steps, wide, memory.arena),
        *(_draw_rectangle(v, wide, high, keys.get(v.name, "")) for v in inside),
    ]
    return (
        f'<svg class="arena" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="the arena over time">'
        + "\n".join(parts)
        + "</svg>"
    )


def draw_live_bytes(needed: Sequence[int]) -> str:
    """Draw the bytes that are needed at each entry, above the picture of the arena; the peak is marked."""
    wide, most = (WIDTH - LEFT - RIGHT) / len(needed), max(needed)
    scale = (CURVE_HEIGHT - 14) / max(most, 1)
    steps = "".join(f"V{CURVE_HEIGHT - n * scale:.1f}h{wide:.2f}" for n in needed)
    at = needed.index(most)
    x = LEFT + (at + 0.5) * wide
    return (
        f'<svg class="arena" viewBox="0 0 {WIDTH:g} {CURVE_HEIGHT + 4:g}" role="img" aria-label="bytes needed">'
        f'<path class="curve" d="M{LEFT:g} {CURVE_HEIGHT:g}{steps}V{CURVE_HEIGHT:g}z"/>'
        f'<circle class="peak" cx="{x:.1f}" cy="14" r="3"/>'
        f'<text x="{min(max(x, 110), WIDTH - 60):.1f}" y="9" text-anchor="middle">{most:,} bytes at [{at}]</text></svg>'
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


def _draw_rectangle(value: PlacedValue, wide: float, high: float, keys: str) -> str:
    first, last, offset = value.first or 0, value.last or 0, value.offset or 0
    x, across = LEFT + first * wide, (last - first + 1) * wide
    up = max(value.nbytes * high, 1.0)
    y = HEIGHT - BELOW - offset * high - up
    what = f"{value.name}: {describe(value)} = {value.op}, {value.nbytes:,} bytes at {offset:,}, [{first}] to [{last}]"
    line = "" if value.origin is None else f"\n{value.origin}"
    label = f"{value.name} {value.op}"
    text = ""
    if up > 12 and across > LETTER_WIDTH * (len(label) + 1):
        text = f'<text x="{x + 4:.1f}" y="{y + up / 2 + 3:.1f}" class="label">{escape(label)}</text>'
    return (
        f'<g class="{css_class(value)}" data-keys="{keys}"><title>{escape(what + line)}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{across:.1f}" height="{up:.1f}" rx="1"/>{text}</g>'
    )
