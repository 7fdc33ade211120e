"""The site's pages: docstrings become Markdown, and links lead to pages or to lines of the project's files."""

import sys
from enum import Enum
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import api_reference  # noqa: E402 - tools/ is no package
import build_site  # noqa: E402
import docstring_markdown  # noqa: E402

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
    assert docstring_markdown.convert_docstring(DOCSTRING) == [
        "", "Return a\\_b, the sum.", "", "", "**Args**", "",
        "- `x, y`: tensors, \\[\\*, n\\]. The second line goes on.",
        "", "**Raises:** ValueError for `x < 0`.", "",
        "", "**Example**", "", "```pycon", ">>> add(1, 2)", "3", "```",
    ]  # fmt: skip


def test_signature_has_types_without_quotes() -> None:
    def function(x: "int", *, out: "int | None" = None) -> "str":
        return f"{x}{out}"

    assert api_reference.format_signature(function) == "(x: int, *, out: int | None = None) -> str"


def test_variants_have_the_signature_of_their_function() -> None:
    for name, first in (("clamp_", "(input: Tensor, min: Tensor | float | None"), ("t_copy", "(input: Tensor) ->")):
        signature = api_reference.format_signature(api_reference.find_public_names("adjoint")[name])
        assert signature.startswith(first)
        assert "out" not in signature


def test_differences_are_listed_once() -> None:
    lines = api_reference.list_differences()
    assert "- {py:obj}`adjoint.sign`: NaN stays NaN; PyTorch gives 0." in lines
    assert not [line for line in lines if "adjoint.Tensor.sign`" in line]


def test_methods_are_without_the_object_and_properties_have_a_type() -> None:
    entries = api_reference.collect_entries()["adjoint.Tensor"]
    assert api_reference.format_signature(entries["mm"].value, is_method=True) == "(mat2: Tensor) -> Tensor"
    assert api_reference.format_signature(entries["polygamma"].value, is_method=True).startswith("(n: ")
    assert api_reference.format_signature(entries["numel"].value, is_method=True) == "() -> int"
    written = api_reference.write_entry("adjoint.Tensor.is_leaf", entries["is_leaf"], lambda path, line: "")
    assert ":type: bool" in written


class Direction(Enum):
    UP = 1
    DOWN = 2


def test_enumerations_have_members_and_no_signature() -> None:
    assert api_reference.format_signature(Direction) == api_reference.format_signature(KeyError) == ""
    assert api_reference.list_methods(Direction) == ["", "**Members:** `UP`, `DOWN`"]


@pytest.mark.parametrize("module", api_reference.MODULES)
def test_each_module_has_entries(module: str) -> None:
    names = api_reference.collect_entries()[module]
    page = api_reference.write_page(module, "Title", names, lambda path, line: f"{path.name}:{line}")
    assert names
    assert page.count("\n```````{py:") == len(names)


@pytest.mark.parametrize(
    ("module", "name", "line"),
    [
        ("adjoint.nn", "CELU", "CELU = "),  # made from a function
        ("adjoint.nn", "Linear", "class Linear("),
        ("adjoint", "exp", "def exp("),  # an op, which a decorator of its family makes
        ("adjoint.Tensor", "exp_", "def exp("),  # its in-place twin
        ("adjoint.Tensor", "grad", "def grad("),  # a property
    ],
)
def test_entry_leads_to_the_line_that_defines_it(module: str, name: str, line: str) -> None:
    places = []

    def link(path: Path, number: int) -> str:
        places.append(path.read_text(encoding="utf-8").splitlines()[number - 1 :])
        return ""

    api_reference.write_entry(f"{module}.{name}", api_reference.collect_entries()[module][name], link)
    ((*lines, _),) = places
    assert next(text.strip() for text in lines if not text.strip().startswith("@")).startswith(line)


def test_links_lead_to_pages_and_to_lines(tmp_path: Path) -> None:
    sources = build_site.SourcePages(tmp_path)
    text = "[a](compile.md#x) [b](../README.md) [c](../dev.py) [d](https://example.org) [e](../src)"
    redirected = build_site.redirect_links(text, ROOT / "docs", Path("page.md"), sources)
    link = '<a class="source" href="source/dev.py.html#L1">c</a>'
    assert redirected == f"[a](compile.md#x) [b](README.md) {link} [d](https://example.org) e"
    sources.write()
    assert 'id="L1"' in (tmp_path / "source" / "dev.py.html").read_text(encoding="utf-8")


def test_call_in_a_block_of_code_is_no_link(tmp_path: Path) -> None:
    text = "[a](../README.md)\n```python\ny = layers[0](x)\n```\n[a](../README.md)\n"
    redirected = build_site.redirect_links(text, ROOT / "docs", Path("page.md"), build_site.SourcePages(tmp_path))
    assert redirected == text.replace("../README.md", "README.md")


def test_link_to_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"page.md links to absent.md, which is not there"):
        build_site.redirect_links("[a](absent.md)", ROOT / "docs", Path("page.md"), build_site.SourcePages(tmp_path))
