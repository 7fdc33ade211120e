"""The tests in the tables of docs/claims.md: `python3 tools/claims.py` fills in which files hold each claim.

A row's id and sentence are written by hand. Its files are those with a test of the mark `@pytest.mark.claim("the id")`.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "claims.md"
ROW = re.compile(r"^\| (\S+) \| (.*?\S) \|(?: (.*) \|)?$")
HEADING = ("id", "---")


def main() -> None:
    """Write the page, and say whether that changed it."""
    text = PAGE.read_text(encoding="utf-8")
    page = with_tests(text)
    PAGE.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: {'as it was' if page == text else 'written anew'}\n")


def claimed(text: str) -> list[str]:
    """Return the ids of a page's rows, in their order."""
    return [row[1] for line in text.splitlines() if (row := ROW.match(line)) and row[1] not in HEADING]


def with_tests(text: str) -> str:
    """Return the text of a page with the files of each row's tests."""
    files, lines = marked(), []
    for line in text.splitlines():
        row = ROW.match(line)
        if row and row[1] not in HEADING:
            line = f"| {row[1]} | {row[2]} | {' '.join(f'`{name}`' for name in files.get(row[1], ()))} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def marked() -> dict[str, list[str]]:
    """Return the ids that marks name, each with the files, below tests/, where it is named."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)] if ".claim(" in text else []
        marks = [call for call in calls if ast.unparse(call.func) == "pytest.mark.claim"]
        for name in dict.fromkeys(ast.literal_eval(argument) for mark in marks for argument in mark.args):
            found.setdefault(name, []).append(str(path.relative_to(TESTS)))
    return found


if __name__ == "__main__":
    main()
