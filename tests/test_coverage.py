"""docs/coverage.md says which of PyTorch's names are here, and why the others are not."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = spec_from_file_location("coverage_page", ROOT / "tools" / "coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_current(tool: Any) -> None:
    assert tool.PAGE.read_text(encoding="utf-8") == tool.coverage(), "run `python3 tools/coverage.py`"


def test_every_missing_name_has_its_reason(tool: Any) -> None:
    unexplained = [
        f"{module}.{name}"
        for module, names in tool.names_of().items()
        for name in names
        if not tool.present(module, name) and not tool.reason(module, name)
    ]
    assert unexplained == []


def test_every_reason_is_of_a_missing_name(tool: Any) -> None:
    missing = [
        f"{module}.{name}"
        for module, names in tool.names_of().items()
        for name in names
        if not tool.present(module, name)
    ]
    assert [p for p in tool.REASONS if not any(re.fullmatch(p, name) for name in missing)] == []


def test_nine_in_ten_names_of_each_module_are_here(tool: Any) -> None:
    for module, names in tool.names_of().items():
        here = sum(tool.present(module, name) for name in names)
        # profilers and one transform of modules are all that these two lack
        assert here >= (0.8 if module in ("autograd", "func") else 0.9) * len(names), module
