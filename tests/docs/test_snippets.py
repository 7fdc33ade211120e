"""What README.md and docs/ show in Python runs as shown.

The Python blocks of a page are one program, as its reader would type them. A block opened with ```python notest is left
out. The examples of the API reference are sessions, which test_reference_examples.py runs.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tools.page_output import SHOWN

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.exists() and page.parent.name != "reference_examples"
]


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_page_runs(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code = program(text)
    if not code.strip():
        pytest.skip("shows no Python")
    if page.parent in (ROOT, ROOT / "docs") and SHOWN.search(text) and find_spec("llvmlite") is not None:
        pytest.skip("test_page_output.py runs it, and compares what it prints")
    failure = run(code, tmp_path / f"{page.stem}.py")
    assert failure is None, f"{page.relative_to(ROOT)} (lines are the page's):\n{failure}"


def program(page: str) -> str:
    """Return the Python blocks of `page`, each line at its own number, so that a traceback names the page's lines."""
    lines, fence, indent, runs = [], "", 0, False
    for line in page.splitlines():
        opening = re.fullmatch(r"( *)(`{3,}|~{3,})([^`]*)", line)
        if not fence and opening:
            indent, fence, words = len(opening[1]), opening[2], opening[3].split()
            runs = words[:1] == ["python"] and "notest" not in words
            lines.append("")
        elif fence and line.strip() == fence:
            fence, runs = "", False
            lines.append("")
        else:
            lines.append(line[min(indent, len(line) - len(line.lstrip(" "))) :] if runs else "")
    if fence:
        raise ValueError(f"a block opened with {fence} is never closed")
    return "\n".join(lines)


def run(code: str, file: Path) -> str | None:
    """Run `code` as `file`, in its folder, warnings being errors; return what it said if it failed."""
    file.write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-W", "error", file.name]
    done = subprocess.run(command, cwd=file.parent, env=environment, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr


PAGE = """\
Text.

```python
x = 1
```

- item
  ```python
  if x:
      y = x / 0
  ```

```python notest
z = undefined
```

```pycon
>>> x
```
"""


def test_program_keeps_line_numbers_and_leaves_out_what_is_not_to_run() -> None:
    lines = program(PAGE).splitlines()
    kept = {number: line for number, line in enumerate(lines, 1) if line}
    assert kept == {4: "x = 1", 9: "if x:", 10: "    y = x / 0"}


def test_failing_page_is_reported_with_its_line(tmp_path: Path) -> None:
    failure = run(program(PAGE), tmp_path / "page.py")
    assert failure is not None
    assert 'page.py", line 10' in failure
    assert "ZeroDivisionError" in failure


def test_warning_fails_a_page(tmp_path: Path) -> None:
    failure = run("import warnings; warnings.warn('old')", tmp_path / "page.py")
    assert failure is not None
    assert "UserWarning: old" in failure


def test_unclosed_block_is_an_error() -> None:
    with pytest.raises(ValueError, match="never closed"):
        program("```python\nx = 1\n")
