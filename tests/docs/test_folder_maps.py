"""Each folder's `__init__` docstring lists its modules; `python3 tools/folder_maps.py` mends a stale list."""

from pathlib import Path

import pytest
from tools.folder_maps import PACKAGE, with_map

FOLDERS = sorted(PACKAGE.rglob("__init__.py"))


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.parent.relative_to(PACKAGE))) for path in FOLDERS])
def test_the_map_is_fresh(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == with_map(path), "stale: run `python3 tools/folder_maps.py`"


def test_the_map_follows_docstrings_and_keeps_the_order(tmp_path: Path) -> None:
    for name, docstring in {"one": "One thing: in two\nlines. More.", "two": "Two.", "new": "New."}.items():
        (tmp_path / f"{name}.py").write_text(f'"""{docstring}"""\n')
    package = tmp_path / "__init__.py"
    stale = "- `two`: Old.\n- `gone`: Gone.\n- `one`: x.\n"
    package.write_text(f'"""A folder.\n\nModules, in reading order:\n\n{stale}"""\nX = 1\n')
    assert with_map(package) == (
        '"""A folder.\n\nModules, in reading order:\n\n'
        '- `two`: Two.\n- `one`: One thing: in two lines.\n- `new`: New.\n"""\nX = 1\n'
    )
