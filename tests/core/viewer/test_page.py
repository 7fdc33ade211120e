"""Pages of the viewer: one file, which asks nothing of any server."""

import json
import re
import sys
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pytest

from adjoint.core.graph.source_location import Site
from adjoint.core.viewer import page as page_module
from adjoint.core.viewer.document import DrawnGraph, DrawnNode, GraphDocument
from adjoint.core.viewer.page import ASSETS, SCRIPTS, GraphPage, render_document, show_page

SECRET = "key = 'far away'"


def document(title: str = "graph", label: str = "mul") -> GraphDocument:
    return GraphDocument(title, (DrawnGraph("g", (DrawnNode("a", label),)),))


def read_data(page: GraphPage) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="document">(.*?)</script>', page.html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_document_stands_in_the_page() -> None:
    data = read_data(render_document(document()))
    assert data["graphs"] == [{"title": "g", "nodes": [{"key": "a", "label": "mul"}]}]


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--", "@SCRIPT@ @DOCUMENT@", "a & b < c"])
def test_texts_of_the_user_stay_texts(text: str) -> None:
    page = render_document(document(text, text))
    assert read_data(page)["title"] == text
    assert page.html.count("<script") == 3
    title = re.search("<title>(.*?)</title>", page.html)
    assert title is not None
    assert unescape(title[1]) == text


def test_the_page_asks_nothing_of_any_server() -> None:
    html = render_document(document()).html
    assert "default-src 'none'" in html
    assert not re.search(r'(?:src|href)\s*=\s*["\']', html.split("<body>")[0])
    assert "fetch(" not in html
    assert "XMLHttpRequest" not in html


def test_every_script_is_in_the_page_and_the_licence_of_the_layout_too() -> None:
    assert {path.name for path in ASSETS.glob("*.js")} == {*SCRIPTS, "dagre.min.js"}
    html = render_document(document()).html
    assert "Copyright (c) 2012-2014 Chris Pettitt" in html
    for name in SCRIPTS:
        assert (ASSETS / name).read_text(encoding="utf-8") in html


def test_only_lines_near_those_that_are_named_are_in_the_page(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("\n".join([SECRET, *["pass"] * 40, "y = x * 2", *["pass"] * 40, SECRET]), encoding="utf-8")
    node = DrawnNode("a", "mul", sites=(Site(str(file), 42, "f"),))
    page = render_document(GraphDocument("t", (DrawnGraph("g", (node,)),)))
    assert "y = x * 2" in page.html
    assert SECRET not in page.html
    assert read_data(page)["files"][0]["parts"][0][0] == 30  # type: ignore[index]


def test_a_page_is_written(tmp_path: Path) -> None:
    page = render_document(document())
    assert show_page(page, tmp_path / "graph.html") is page
    assert (tmp_path / "graph.html").read_text(encoding="utf-8") == page.html
    assert "characters" in repr(page)


def test_a_notebook_shows_a_page_in_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    page = render_document(document())
    frame = page._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert unescape(frame.split('srcdoc="')[1].split('" title=')[0]) == page.html
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    monkeypatch.setattr(GraphPage, "open", lambda self: pytest.fail("a notebook opens no browser"))
    assert show_page(page) is page


def test_a_page_opens_in_a_browser_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr(page_module.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(page_module, "has_window_system", lambda: True)
    monkeypatch.setattr(page_module.webbrowser, "open", lambda url: opened.append(url) or True)
    page = render_document(document())
    show_page(page)
    [file] = tmp_path.iterdir()
    assert opened == [file.as_uri()]
    assert file.read_text(encoding="utf-8") == page.html


def test_without_a_browser_the_place_of_the_file_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page_module.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(page_module, "has_window_system", lambda: False)
    monkeypatch.setattr(page_module.webbrowser, "open", lambda url: pytest.fail("it would open in the terminal"))
    show_page(render_document(document()))
    [file] = tmp_path.iterdir()
    assert capsys.readouterr().err == f"no browser to open: graph is in {file}\n"
