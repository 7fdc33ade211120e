"""The site's pages: docstrings become Markdown, and links lead to pages or to lines of the project's files."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import api_reference  # noqa: E402 - tools/ is no package
import build_site  # noqa: E402

DOCSTRING = """Return a_b, the sum.

Args:
    x, y: tensors, [*, n].
        The second line goes on.

Raises: ValueError for `x < 0`.

Example:
    >>> add(1, 2)
    3
"""


def test_docstring_becomes_markdown() -> None:
    assert api_reference.convert_docstring(DOCSTRING) == [
        "", "Return a\\_b, the sum.", "", "", "**Args**", "",
        "- `x, y`: tensors, \\[\\*, n\\]. The second line goes on.",
        "", "**Raises:** ValueError for `x < 0`.", "", "", "```pycon", ">>> add(1, 2)", "3", "```",
    ]  # fmt: skip


def test_signature_has_types_without_quotes() -> None:
    def function(x: "int", *, out: "int | None" = None) -> "str":
        return f"{x}{out}"

    assert api_reference.format_signature(function) == "(x: int, *, out: int | None = None) -> str"


@pytest.mark.parametrize("module", api_reference.MODULES)
def test_each_module_has_entries(module: str) -> None:
    names = api_reference.find_public_names(module)
    page = api_reference.write_page(module, "Title", names, lambda path, line: f"{path.name}:{line}")
    assert names
    assert page.count("\n```````{py:") == len(names)


def test_links_lead_to_pages_and_to_lines(tmp_path: Path) -> None:
    sources = build_site.SourcePages(tmp_path)
    text = "[a](compile.md#x) [b](../README.md) [c](../dev.py) [d](https://example.org) [e](../src)"
    redirected = build_site.redirect_links(text, ROOT / "docs", Path("page.md"), sources)
    link = '<a class="source" href="source/dev.py.html#L1">c</a>'
    assert redirected == f"[a](compile.md#x) [b](README.md) {link} [d](https://example.org) e"
    sources.write()
    assert 'id="L1"' in (tmp_path / "source" / "dev.py.html").read_text(encoding="utf-8")


def test_link_to_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"page.md links to absent.md, which is not there"):
        build_site.redirect_links("[a](absent.md)", ROOT / "docs", Path("page.md"), build_site.SourcePages(tmp_path))
