"""docs/architecture.md lists every file as its docstring says; `python3 tools/file_map.py` mends a stale list."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.file_map import BEGIN, END, PACKAGE, PAGE, file_map, with_map


def test_the_page_is_fresh() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_map(page, file_map(PACKAGE)), "stale: run `python3 tools/file_map.py`"


def test_every_file_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    files = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")]
    assert [name for name in files if f"| `{name}` |" not in page] == []


def test_the_map_follows_docstrings(tmp_path: Path) -> None:
    files = {"ops/a.py": '"""One | thing,\nin two lines.\n\nMore."""\n', "core/b.py": '"""Below."""\n', "core/c.py": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    lines = [line for line in file_map(tmp_path).splitlines() if line.startswith(("**", "| `"))]
    assert lines == ["**core**", "| `core/b.py` | Below. |", "**ops**", "| `ops/a.py` | One \\| thing, in two lines. |"]


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    page = f"Above.\n{BEGIN}\nold\n{END}\nBelow.\n"
    assert with_map(page, "new\n") == f"Above.\n{BEGIN}\nnew\n{END}\nBelow.\n"
    for broken in ("nothing", f"{END}\n{BEGIN}\n", page + page):
        with pytest.raises(ValueError, match="once each"):
            with_map(broken, "new\n")
