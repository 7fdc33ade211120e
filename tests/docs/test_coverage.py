"""docs/coverage.md says which of PyTorch's names are here, and why the others are not."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = spec_from_file_location("coverage_page", ROOT / "tools" / "coverage.py")
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
        assert sum(tool.present(module, name) for name in names) >= 0.9 * len(names), module


def test_types_that_have_a_name_only_are_not_here(tool: Any) -> None:
    assert not tool.present("torch", "complex32")
    assert tool.present("torch", "complex64")


def test_names_are_found_in_modules_of_modules(tool: Any) -> None:
    assert tool.present("nn.utils", "prune.remove")
    assert tool.present("nn", "attention.bias.CausalBias")
    assert not tool.present("nn.utils", "prune.no_such_name")
    assert not tool.present("no.such.module", "name")
