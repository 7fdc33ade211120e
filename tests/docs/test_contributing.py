"""The recipes of CONTRIBUTING.md work as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.test_snippets import ROOT, program, run


def test_recipes_run(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    code = program((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert "def softsign" in code
    failure = run(code, tmp_path / "contributing.py")
    assert failure is None, f"CONTRIBUTING.md (lines are the page's):\n{failure}"
