"""One HTML page that needs nothing else: no script, no font, no picture from elsewhere; light or dark as the reader's
system is. And the frame of what a notebook shows, which takes the colours of the page that it is shown on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1c1f24; --dim: #5d6570; --rule: #d8dce2; --paper: #ffffff; --shade: #f4f6f8;
  --link: #1f5fbf; --forward: #3b7dd8; --backward: #c8742c; --saved: #2f9e6e; --marked: #fff3c9 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --dim: #98a1ac; --rule: #343a43; --paper: #15181c; --shade: #1d2127; --link: #7fb0f5;
    --forward: #5a95e6; --backward: #d98b48; --saved: #45b586; --marked: #3d3616 }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 76rem; padding: 2rem 1.5rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.6rem; margin: 0 }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem }
p { margin: .25rem 0 .75rem; max-width: 60rem }
a { color: var(--link); text-decoration: none }
a:hover { text-decoration: underline }
nav { margin: .75rem 0 0; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem }
.dim { color: var(--dim) }
code, pre, .code { font: 13px/1.45 ui-monospace, Menlo, Consolas, monospace }
pre { background: var(--shade); border: 1px solid var(--rule); border-radius: 6px; padding: .75rem; margin: .5rem 0;
  overflow: auto; max-height: 32rem }
dl { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 1.25rem 0 0 }
dt { color: var(--dim); font-size: .85rem }
dd { margin: 0; font-size: 1.25rem; font-variant-numeric: tabular-nums }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: .9rem }
th { text-align: left; font-weight: 600; color: var(--dim); white-space: nowrap }
th, td { padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--rule); vertical-align: top }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
tr:target > td { background: var(--marked) }
summary { cursor: pointer; color: var(--link) }
.forward { color: var(--forward) } .backward { color: var(--backward) } .saved { color: var(--saved) }
svg { width: 100%; height: auto; font: 10px system-ui, sans-serif }
svg .axis { stroke: var(--rule) } svg text { fill: var(--dim) }
svg rect { stroke: var(--paper); stroke-width: .5; fill: currentColor }
"""
FRAME_RULE = "rgba(127, 127, 127, .35)"
FRAME_STYLE = f"""
.adjoint {{ font-size: 13px; line-height: 1.45; overflow-x: auto;
  --adjoint-accent: var(--jp-brand-color1, var(--vscode-textLink-foreground, #3b7dd8)) }}
.adjoint p {{ margin: .15em 0 }}
.adjoint .dim {{ opacity: .7 }}
.adjoint .marked {{ color: #d0521c; font-weight: 600 }}
.adjoint code, .adjoint pre {{ font: 12px/1.45 ui-monospace, Menlo, Consolas, monospace; color: inherit;
  background: none; padding: 0; margin: 0 }}
.adjoint pre {{ overflow: auto; max-height: 30em }}
.adjoint .wide {{ overflow-x: auto }}
.adjoint table {{ border-collapse: collapse; border: 0; margin: .3em 0; font-size: inherit; color: inherit }}
.adjoint tr {{ background: none !important }}
.adjoint th, .adjoint td {{ text-align: left; vertical-align: top; border: 0; border-bottom: 1px solid {FRAME_RULE};
  padding: .1em .9em .1em 0; color: inherit; background: none; font-weight: normal }}
.adjoint th {{ opacity: .7 }}
.adjoint .number {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }}
.adjoint summary {{ cursor: pointer; display: list-item }}
.adjoint details details, .adjoint details > div {{ margin-left: 1.2em }}
.adjoint img, .adjoint svg {{ margin: .3em .8em .3em 0; border: 1px solid {FRAME_RULE}; max-width: 100%;
  image-rendering: pixelated; color: var(--adjoint-accent) }}
"""


def render_page(title: str, head: str, sections: Sequence[tuple[str, str]]) -> str:
    """The page: a headline, `head` below it, then each section, (title, HTML), with a list of them in front."""
    links = "".join(f'<a href="#{_anchor(name)}">{escape(name)}</a>' for name, _ in sections)
    body = "\n".join(
        f'<section id="{_anchor(name)}"><h2>{escape(name)}</h2>\n{content}</section>' for name, content in sections
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<header><h1>{escape(title)}</h1>
{head}
<nav>{links}</nav></header>
<main>
{body}
</main>
</body>
</html>
"""


def render_figures(items: Iterable[tuple[str, str]]) -> str:
    """A row of numbers, each (what it is, the number)."""
    return "<dl>" + "".join(f"<div><dt>{escape(w)}</dt><dd>{escape(n)}</dd></div>" for w, n in items) + "</dl>"


def render_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = (), anchors: Iterable[str] = ()
) -> str:
    """A table whose cells are HTML already; `anchors`: names of the rows, for links to them."""
    names = iter(anchors)

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="number">{c}</{tag}>' if i in right else f"<{tag}>{c}</{tag}>" for i, c in enumerate(cells)
        )

    def row_tag() -> str:
        name = next(names, None)
        return "<tr>" if name is None else f'<tr id="{escape(name)}">'

    body = "\n".join(f"{row_tag()}{line('td', row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{line("th", [escape(h) for h in head])}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def render_details(summary: str, content: str) -> str:
    """Text that opens on a click."""
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(content)}</pre></details>"


def render_frame(content: str) -> str:
    """HTML in the frame of a notebook's display, with its style."""
    return f'<div class="adjoint"><style>{FRAME_STYLE}</style>\n{content}\n</div>'


def _anchor(name: str) -> str:
    return "-".join(name.lower().split())
