"""The recipes of CONTRIBUTING.md work as they are written."""

import ast
from pathlib import Path

import pytest
from tests.docs.test_snippets import ROOT, program, run


def test_recipes_run(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    code = program((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert "def softsign" in code
    failure = run(code, tmp_path / "contributing.py")
    assert failure is None, f"CONTRIBUTING.md (lines are the page's):\n{failure}"


def questions() -> list[tuple[str, str]]:
    """Return the files and names that the page gives for its twenty questions."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Where is …?")[2].partition("\n## ")[0]
    rows = (row.split("|")[2:4] for row in table.splitlines() if row.startswith("| ") and ".py`" in row)
    return [(file.strip(" `"), name.strip(" `")) for file, name in rows]


def test_there_are_twenty_questions() -> None:
    assert len(questions()) == 20


@pytest.mark.parametrize(("file", "name"), questions())
def test_a_question_is_answered_by_the_file_it_names(file: str, name: str) -> None:
    tree = ast.parse((ROOT / "src" / "adjoint" / file).read_text(encoding="utf-8"))
    named = {getattr(node, "name", None) or getattr(node, "id", None) for node in ast.walk(tree)}
    assert name in named
