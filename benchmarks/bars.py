"""The results as a picture: for each workload a bar for every library's fastest way, ours on top. SVG, plain text."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

LIBRARIES = (("adjoint", "Adjoint", "#c2410c"), ("torch", "PyTorch", "#64748b"), ("jax", "JAX", "#94a3b8"))
WIDTH, LEFT, RIGHT = 860.0, 350.0, 110.0
BAR, GAP, HEAD = 11.0, 12.0, 52.0
FONT = "font-family:system-ui,sans-serif;font-size:11px"
STYLE = f"text{{{FONT};fill:#334155}} .dim{{fill:#64748b}} @media(prefers-color-scheme:dark){{text{{fill:#cbd5e1}}}}"


def picture(found: dict[str, Any]) -> str:
    """Bars are times over ours, as far as the slowest of the fastest ways; on one thread if that was measured."""
    threads = min(found["workloads"], default="1")
    clock = "cpu" if threads == "1" else "wall"
    lines = [
        (each["title"], times)
        for each in found["workloads"].get(threads, {}).values()
        if "adjoint" in (times := fastest_of_each(each["variants"], clock))
    ]
    high = HEAD + sum(len(times) * BAR + GAP for _, times in lines) + GAP
    body = "\n".join(_bars(lines))
    title = f"Time over Adjoint's, compiled: {threads} thread{'' if threads == '1' else 's'}; shorter is faster"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {high:g}" role="img" aria-label="{title}">\n'
        f"<style>{STYLE}</style>\n"
        f'<text x="8" y="18" style="font-size:13px;font-weight:600">{title}</text>\n'
        f'<text class="dim" x="8" y="36">{escape(found["machine"])}</text>\n{body}\n</svg>\n'
    )


def fastest_of_each(variants: dict[str, Any], clock: str) -> dict[str, float]:
    """Seconds by library: ours compiled, of the others the fastest way that computed the same."""
    times: dict[str, float] = {}
    for name, outcome in variants.items():
        library = name.replace(".", " ").split()[0]
        if not outcome.get("agrees") or (library == "adjoint" and "compiled" not in name):
            continue
        taken = outcome[clock]["median"]
        times[library] = min(times.get(library, taken), taken)
    return times


def _bars(lines: list[tuple[str, dict[str, float]]]) -> Iterator[str]:
    """A workload's bars fill the width by its slowest library."""
    y = HEAD
    for title, times in lines:
        ours, slowest = times["adjoint"], max(times.values())
        middle = y + len(times) * BAR / 2 + 4
        yield f'<text x="{LEFT - 8:g}" y="{middle:.1f}" text-anchor="end">{escape(_cut(title))}</text>'
        for library, name, colour in LIBRARIES:
            if library not in times:
                continue
            wide = (WIDTH - LEFT - RIGHT) * times[library] / slowest
            ratio = "" if library == "adjoint" else f" × {times[library] / ours:.2f}"
            yield f'<rect x="{LEFT:g}" y="{y:.1f}" width="{wide:.1f}" height="{BAR - 2:g}" rx="1" fill="{colour}"/>'
            label = f'<text class="dim" x="{LEFT + wide + 5:.1f}" y="{y + BAR - 3:.1f}" style="font-size:9px">'
            yield f"{label}{name}{ratio}</text>"
            y += BAR
        y += GAP


def _cut(title: str) -> str:
    return title if len(title) <= 58 else title[:57] + "…"
