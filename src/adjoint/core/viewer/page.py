"""The HTML page of a document, which a browser or a notebook shows."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import webbrowser
from functools import cache
from html import escape
from pathlib import Path

from adjoint.core.viewer.document import GraphDocument, to_json_value
from adjoint.core.viewer.source_excerpts import collect_excerpts

ASSETS = Path(__file__).parent / "assets"
# in reading order; together they are one script
PARTS = "model pieces layout draw camera selection source details search walk keys main"
SCRIPTS = tuple(f"{part}.js" for part in PARTS.split())
NOTEBOOK_HEIGHT_PX = 620
CONTENT_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


class GraphPage:
    """A page of the viewer as `html`: one file that asks nothing of any server. A notebook shows it in a frame."""

    def __init__(self, title: str, html: str) -> None:
        self.title, self.html = title, html

    def __repr__(self) -> str:
        return f"<page {self.title!r}, {len(self.html):,} characters: write(path) saves it, open() shows it>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="{escape(self.title)}" '
            f'style="width: 100%; height: {NOTEBOOK_HEIGHT_PX}px; border: 0; border-radius: 8px"></iframe>'
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page into a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def open(self) -> None:
        """Open the page in a browser, from a temporary file; without one, say on standard error where the file is."""
        file = tempfile.NamedTemporaryFile("w", suffix=".html", prefix="adjoint-", delete=False, encoding="utf-8")  # noqa: SIM115  the browser reads it later
        with file:
            file.write(self.html)
        if not has_window_system() or not webbrowser.open(Path(file.name).as_uri()):
            sys.stderr.write(f"no browser to open: {self.title} is in {file.name}\n")


def has_window_system() -> bool:
    """Return whether a browser would open in a window, and not in this terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def is_in_notebook() -> bool:
    """Return whether a notebook runs this program: it shows what a cell returns."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and getattr(shell, "kernel", None) is not None


def show_page(page: GraphPage, path: str | os.PathLike[str] | None = None) -> GraphPage:
    """Write the page to `path`; without one, open it in a browser unless a notebook shows it. Returns the page."""
    if path is not None:
        page.write(path)
    elif not is_in_notebook():
        page.open()
    return page


def render_document(document: GraphDocument) -> GraphPage:
    """Return the page of a document.

    The page holds the user's lines that the document names, and the twelve lines before and after each.
    """
    excerpts = collect_excerpts(document)
    files = {excerpt.path: i for i, excerpt in enumerate(excerpts)}
    shown = to_json_value(document, files)
    shown["files"] = [to_json_value(excerpt, files) for excerpt in excerpts]
    data = json.dumps(shown, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = {
        "TITLE": escape(document.title),
        "POLICY": CONTENT_POLICY,
        "STYLE": _read_asset("viewer.css"),
        "LAYOUT": _read_asset("dagre.min.js"),
        "SCRIPT": _join_scripts(),
        "DOCUMENT": data,
    }
    return GraphPage(document.title, re.sub("@([A-Z]+)@", lambda found: parts[found[1]], _read_asset("viewer.html")))


@cache
def _read_asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


@cache
def _join_scripts() -> str:
    return '"use strict";\n(() => {\n' + "\n".join(map(_read_asset, SCRIPTS)) + "\n})();"
