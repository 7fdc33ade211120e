"""Displays in notebooks: the slot of what makes them, and the frame around each.

A frame takes the colours of the page it is shown on, so that it reads in light and dark. It has no script and fetches
nothing. A notebook asks for `_repr_html_`; where that is None it shows the printed text.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from adjoint.core.runtime.slot import Slot

display_slot: Slot[Callable[[object], str | None]] = Slot("display", lambda value: None)

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
RULE = "rgba(127, 127, 127, .35)"
STYLE = f"""
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
.adjoint th, .adjoint td {{ text-align: left; vertical-align: top; border: 0; border-bottom: 1px solid {RULE};
  padding: .1em .9em .1em 0; color: inherit; background: none; font-weight: normal }}
.adjoint th {{ opacity: .7 }}
.adjoint .number {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }}
.adjoint summary {{ cursor: pointer; display: list-item }}
.adjoint details details, .adjoint details > div {{ margin-left: 1.2em }}
.adjoint img, .adjoint svg {{ margin: .3em .8em .3em 0; border: 1px solid {RULE}; max-width: 100%;
  image-rendering: pixelated; color: var(--adjoint-accent) }}
"""


def show_in_notebook(value: object) -> str | None:
    """Return the HTML that notebooks show for a value; None where its printed text is to be shown."""
    return display_slot.call(value)


def has_own_display(value: object) -> bool:
    """Return whether code outside the library says how a value is shown: its printed text, or another display."""
    kind = type(value)
    names = ["__repr__", *(name for name in dir(kind) if name.startswith(("_repr_", "_ipython_display_")))]
    codes = [getattr(getattr(kind, name), "__code__", None) for name in names]
    return any(code is not None and not code.co_filename.startswith(PACKAGE) for code in codes)


def frame(content: str) -> str:
    """Return HTML in the frame of a display, with its style."""
    return f'<div class="adjoint"><style>{STYLE}</style>\n{content}\n</div>'
