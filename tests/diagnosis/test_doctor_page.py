"""The page of the doctor lists the kinds of findings that rules report, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import adjoint.diagnosis.rules

ROOT = Path(__file__).parents[2]
RULES = Path(adjoint.diagnosis.rules.__file__).parent
REPORTERS = ("report", "blame", "_note", "Finding")
KIND = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def reported_kinds() -> Iterator[str]:
    """Yield the kinds of all rules; `{…}` of a kind that is put together is `.*`, as in a pattern."""
    for path in RULES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0]
            if called in REPORTERS and isinstance(first, ast.Constant) and KIND.fullmatch(str(first.value)):
                yield str(first.value)
            elif called in REPORTERS and isinstance(first, ast.JoinedStr):
                parts = first.values
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else ".*" for part in parts)


def listed_kinds() -> set[str]:
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    table = page[page.index("| about | kinds |") : page.index("A rule reports a cause")]
    return set(re.findall(r"`([a-z0-9-]+)`", table))


def test_page_lists_the_kinds_that_rules_report() -> None:
    kinds, listed = set(reported_kinds()), listed_kinds()
    assert [kind for kind in kinds if not any(re.fullmatch(kind, each) for each in listed)] == []
    assert [each for each in listed if not any(re.fullmatch(kind, each) for kind in kinds)] == []


def test_debugging_page_tells_their_number() -> None:
    page = (ROOT / "docs" / "debugging.md").read_text(encoding="utf-8")
    assert f"which knows {len(listed_kinds())} kinds" in page
