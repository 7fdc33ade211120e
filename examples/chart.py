"""Line charts and 8×8 images as inline SVG, whose colours are the page's own CSS variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

W, H = 400, 270
LEFT, RIGHT, TOP, BOTTOM = 48, 8, 34, 42  # margins around the plot


@dataclass
class Series:
    """Points at x = first, first + 1, …, joined by a line unless they are `dots`; `style` is a CSS class."""

    name: str
    style: str
    ys: Sequence[float]
    dots: bool = False


@dataclass
class Axis:
    """Values from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value is drawn; beyond the ends, at the end."""
        scale: Callable[[float], float] = math.log10 if self.log else float
        value = min(max(value, self.low), self.high)
        share = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values along the axis: powers of ten, or some four steps of 1, 2 or 5 times one."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [10.0**k for k in range(first, last + 1)]
        rough = (self.high - self.low) / 4
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough * 0.8)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def line_chart(
    title: str, description: str, series: Sequence[Series], x_label: str, y_label: Callable[[float], str],
    *, first: int = 0, log: bool = False, y_range: tuple[float, float] | None = None,
    limit: tuple[float, str] | None = None,
) -> str:  # fmt: skip
    """A chart of `series` over a common x axis from `first` on, with a legend, and a dashed line at `limit`."""
    longest = max(len(s.ys) for s in series)
    x = Axis(first, max(first + longest - 1, first + 1), LEFT, W - RIGHT)
    low, high = y_range or _around([v for s in series for v in s.ys], log)
    y = Axis(low, high, H - BOTTOM, TOP, log)
    parts = [
        f'<svg viewBox="0 0 {W} {H}" role="img" aria-label="{escape(f"{title}. {description}")}">',
        *(_horizontal(y, v, y_label(v)) for v in y.ticks()),
        *(_text(x.at(v), H - BOTTOM + 18, f"{v:g}", "middle") for v in x.ticks() if v == round(v)),
        f'<path class="axis" d="M{LEFT} {TOP}V{H - BOTTOM}H{W - RIGHT}"/>',
        _text((LEFT + W - RIGHT) / 2, H - 6, x_label, "middle"),
    ]
    if limit is not None:
        at = y.at(limit[0])
        parts.append(f'<path class="limit" d="M{LEFT} {at:.1f}H{W - RIGHT}"/>')
        parts.append(_text(W - RIGHT, at - 5, limit[1], "end"))
    for k, s in enumerate(series):
        known = [(i, v) for i, v in enumerate(s.ys) if math.isfinite(v) and (v > 0 or not log)]
        points = [f"{x.at(first + i):.1f} {y.at(v):.1f}" for i, v in known]
        parts.append(f'<path class="{s.style} {"dots" if s.dots else "line"}" d="{_path(points, s.dots)}"/>')
        at = LEFT + 110 * k
        parts.append(f'<path class="{s.style} {"dots" if s.dots else "line"}" d="M{at} 14h{0 if s.dots else 24}"/>')
        parts.append(_text(at + (8 if s.dots else 31), 18, s.name, "start"))
    return "".join(parts) + "</svg>"


def pixels(image: Any, label: str) -> str:
    """An image of values from 0 to 1 as squares of ink."""
    squares = "".join(
        f'<rect x="{j}" y="{i}" width="1.02" height="1.02" fill-opacity="{v:.2f}"/>'  # 1.02: no seams between squares
        for i, row in enumerate(image)
        for j, v in enumerate(row)
        if v > 0
    )
    return f'<svg class="scan" viewBox="-.5 -.5 9 9" role="img" aria-label="{escape(label)}">{squares}</svg>'


def _around(values: Sequence[float], log: bool) -> tuple[float, float]:
    """A range with all finite values in it: whole powers of ten, or with a little room."""
    known = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    low, high = min(known, default=1.0), max(known, default=1.0)
    if log:
        bottom, top = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return 10.0**bottom, 10.0 ** max(top, bottom + 1)
    room = (high - low) * 0.05 or 1.0
    return low - room, high + room


def _path(points: Sequence[str], dots: bool) -> str:
    """Strokes of no length are dots."""
    return "".join(f"M{p}h0" for p in points) if dots else "M" * bool(points) + "L".join(points)


def _horizontal(y: Axis, value: float, label: str) -> str:
    at = y.at(value)
    return f'<path class="grid" d="M{LEFT} {at:.1f}H{W - RIGHT}"/>' + _text(LEFT - 6, at + 4, label, "end")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
