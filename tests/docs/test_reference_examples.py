"""The API reference: every public name has an example that prints what it shows, in its docstring or in a companion."""

import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import api_reference  # noqa: E402 - tools/ is no package
import reference_examples  # noqa: E402
from reference_examples import Companion, Section  # noqa: E402

import adjoint.distributed as dist  # noqa: E402

COMPANIONS = sorted(reference_examples.FOLDER.iterdir())
COMPANION = """# Examples

    >>> import math

## sqrt

    >>> math.sqrt(4)
    2.0

Differs from PyTorch: it takes
one number.

## floor

Differs from PyTorch: it takes one number.
"""


@pytest.fixture(autouse=True)
def _no_process_group_stays() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("module", api_reference.MODULES)
def test_every_public_name_has_an_example(module: str) -> None:
    entries = api_reference.collect_entries()[module]
    lacking = [name for name, entry in entries.items() if not (shows_example(entry) or entry.section.example)]
    assert not lacking, f"docs/reference_examples/{module}.md lacks examples of these, and so do their docstrings"


@pytest.mark.parametrize("module", api_reference.MODULES)
def test_companions_tell_of_public_names_what_docstrings_do_not(module: str) -> None:
    entries = api_reference.collect_entries()[module]
    sections = reference_examples.read_companion(module).sections
    assert list(sections) == [name for name in entries if name in sections], "in the order of the page"
    shown = [name for name, section in sections.items() if section.example and shows_example(entries[name])]
    assert not [name for name in shown if not entries[name].alias_of], "the docstring has an example"


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in COMPANIONS])
def test_examples_of_companions_print_what_they_show(path: Path) -> None:
    report: list[str] = []
    text = path.read_text(encoding="utf-8")
    assert reference_examples.run_examples(text, report.append) == text
    assert not report, "".join(report)


@pytest.mark.parametrize("module", api_reference.MODULES)
def test_examples_of_docstrings_print_what_they_show(module: str) -> None:
    pytest.importorskip("llvmlite")
    report: list[str] = []
    for name, entry in api_reference.collect_entries()[module].items():
        if shows_example(entry) and not entry.alias_of:
            example = inspect.getdoc(entry.value) or ""
            reference_examples.run_alone(example, name, report.append)
    assert not report, "".join(report)


def shows_example(entry: api_reference.Entry) -> bool:
    return api_reference.has_example(entry.value)


def test_files_belong_to_pages() -> None:
    assert {path.stem for path in COMPANIONS} <= set(api_reference.MODULES)


def test_companion_is_taken_apart() -> None:
    assert reference_examples.parse_companion(COMPANION) == Companion(
        ">>> import math",
        {
            "sqrt": Section(">>> math.sqrt(4)\n2.0", "it takes one number."),
            "floor": Section("", "it takes one number."),
        },
    )


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ("## sqrt\n\n    >>> 1\n    1\n", "two sections"),
        ("## exp\n\n", "an empty section"),
        ("## exp\n\nMore words.\n", "More words"),
    ],
)
def test_faulty_section_is_an_error(section: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        reference_examples.parse_companion(COMPANION + section)


def test_wrong_output_is_reported_and_renewed() -> None:
    stale = COMPANION.replace("2.0", "3.0")
    report: list[str] = []
    assert reference_examples.run_examples(stale, report.append) == stale
    assert "Expected:\n    3.0\nGot:\n    2.0" in "".join(report)
    assert reference_examples.run_examples(stale, report.append, renews=True) == COMPANION


def test_warnings_and_unseeded_numbers_are_reported() -> None:
    session = """
        >>> import warnings
        >>> warnings.warn("old")
        >>> _ = ad.manual_seed(0)
        >>> ad.rand(1)
        tensor([0.4963])
    """
    report: list[str] = []
    reference_examples.run_examples(f"## one\n{textwrap.indent(session, '    ')}", report.append)
    assert "UserWarning: old" in "".join(report)
    report.clear()
    reference_examples.run_examples("## one\n\n    >>> ad.rand(1)\n    tensor([0.4963])\n", report.append)
    assert report


def test_outputs_of_several_lines_and_errors_are_written_as_doctest_reads_them() -> None:
    session = "## one\n\n    >>> ad.zeros(2, 1, 1)\n    >>> 1 / 0\n    Traceback (most recent call last):\n    E\n"
    report: list[str] = []
    renewed = reference_examples.run_examples(session, report.append, renews=True)
    assert "    tensor([[[0.]],\n    <BLANKLINE>\n            [[0.]]])\n" in renewed
    assert renewed.endswith("(most recent call last):\n        ...\n    ZeroDivisionError: division by zero\n")
    assert reference_examples.run_examples(renewed, report.append) == renewed
    assert not report


def test_entry_shows_example_difference_and_the_entry_of_the_same_object() -> None:
    def double(x: float) -> float:
        """Return 2 x."""
        return 2 * x

    entry = api_reference.Entry(double, Section(">>> double(2)\n<BLANKLINE>\n4", "it takes `x` only."), "adjoint.twice")
    page = api_reference.write_entry("adjoint.double", entry, lambda path, line: "")
    body = page[page.index("Return 2 x.") + 1 :]
    assert body == [
        "", "The same as {py:obj}`adjoint.twice`.",
        "", "**Example**", "", "```pycon", ">>> double(2)", "", "4", "```",
        "", "**Differs from PyTorch**", "", "it takes `x` only.",
        "```````", "",
    ]  # fmt: skip
