"""HTML of tables, and the frame of what a notebook shows, which takes the colours of the page that it is shown on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

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


def render_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = (), keys: Iterable[str] = ()
) -> str:
    """A table whose cells are HTML already; columns numbered in `right` are flush right.

    `keys`: for each row, the keys of what it is about, which a page of the viewer lights up with it.
    """
    keys_of_rows = iter(keys)

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="number">{c}</{tag}>' if i in right else f"<{tag}>{c}</{tag}>" for i, c in enumerate(cells)
        )

    def row_tag() -> str:
        named = next(keys_of_rows, None)
        return "<tr>" if named is None else f'<tr data-keys="{escape(named)}">'

    body = "\n".join(f"{row_tag()}{line('td', row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{line("th", [escape(h) for h in head])}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def render_frame(content: str) -> str:
    """HTML in the frame of a notebook's display, with its style.

    The style is part of each frame: a notebook may show any of its outputs alone.
    """
    return f'<div class="adjoint"><style>{FRAME_STYLE}</style>\n{content}\n</div>'
