"""The pages of docs/tutorials and docs/guides run, cell by cell, as a site or a notebook would run them.

Their ``{code-cell}`` blocks are one program, and are run here without the site's tools. A page needs nothing but what
it imports: no network, no other program, no file outside of its folder.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [folder for folder in (ROOT / "docs" / "tutorials", ROOT / "docs" / "guides") if folder.is_dir()]
PAGES = [
    pytest.param(page, id=f"{folder.name}/{page.stem}")
    for folder in FOLDERS
    for page in sorted(folder.glob("*.md"))
    if page.stem != "index"
]
FRONT_MATTER = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n# "
BEYOND_THE_PAGE = {"subprocess", "socket", "urllib", "http", "requests", "multiprocessing", "IPython"}
MOST_LINES_SHOWN = 40
CELL = "\x1e"  # is printed where a cell begins


@pytest.mark.parametrize("page", PAGES)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    code = make_program(page.read_text(encoding="utf-8"))
    for module in sorted(imported_modules(code)):
        pytest.importorskip(module, reason=f"the page imports {module}, which is not installed")
    if "compile" in code:
        pytest.importorskip("llvmlite", reason="the page compiles steps, and llvmlite is not installed")
    done = run_page(code, tmp_path / f"{page.stem}.py")
    assert done.returncode == 0, f"{page.relative_to(ROOT)} (lines are the page's):\n{done.stderr}"
    for shown in done.stdout.split(CELL)[1:]:
        assert shown.count("\n") <= MOST_LINES_SHOWN, f"{page.name}: a cell shows too much:\n{shown}"


@pytest.mark.parametrize("page", PAGES)
def test_page_has_the_form_of_a_page_that_runs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith(FRONT_MATTER)
    code = make_program(text)
    assert imported_modules(code, BEYOND_THE_PAGE) == set(), "the page must run in a reader's browser too"
    assert max(map(len, code.splitlines()), default=0) <= 100, "longer lines do not fit into the site's column"


@pytest.mark.parametrize("page", [page for page in PAGES if page.id.startswith("tutorials/")])
def test_tutorial_has_the_form_of_a_tutorial(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert 150 <= len(text.splitlines()) <= 300
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[-2:] == ["Exercises", "Where to go on"]
    assert "<summary>Answers</summary>" in text
    assert "plt." in make_program(text), "it has no picture"
    assert "src/adjoint/" in text.split("## Where to go on")[1], "it names no file of the source"


@pytest.mark.parametrize("folder", [pytest.param(folder, id=folder.name) for folder in FOLDERS])
def test_index_lists_each_page(folder: Path) -> None:
    index = (folder / "index.md").read_text(encoding="utf-8")
    toctree = index.split("```{toctree}")[1].split("```")[0]
    listed = [line for line in toctree.splitlines() if line.strip() and not line.startswith(":")]
    assert sorted(listed) == sorted(page.name for page in folder.glob("*.md") if page.stem != "index")
    for name in listed:
        assert index.count(f"]({name})") == 1, f"the index says nothing of {name}"


def test_engine_of_100_lines_is_not_longer() -> None:
    text = (ROOT / "docs" / "tutorials" / "autograd_engine.md").read_text(encoding="utf-8")
    engine = make_program(text).partition("\nx = Tensor(")[0]
    assert "def backward(loss)" in engine
    assert len([line for line in engine.splitlines() if line.strip() and CELL not in line]) < 100


def make_program(page: str) -> str:
    """Return the cells of `page`, each line at its own number, so that a traceback names the page's lines.

    The line of a cell's fence tells when it begins; options (`:tags: …`) below it are left out.
    """
    lines, state = [], "text"
    for line in page.splitlines():
        if state == "text" and line.startswith("```{code-cell}"):
            state = "options"
            lines.append(f"print({CELL!r}, end='')")
            continue
        if line.startswith("```"):
            state = "text"
        elif state == "options" and not line.startswith(":"):
            state = "code"
        lines.append(line if state == "code" else "")
    return "\n".join(lines)


def imported_modules(code: str, among: set[str] | None = None) -> set[str]:
    """Return the packages that `code` imports, among those given or else among all that Python does not bring."""
    names = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(code))
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom)
            else []
        )
    }  # fmt: skip
    return names & among if among else names - set(sys.stdlib_module_names) - {"adjoint"}


def run_page(code: str, file: Path) -> subprocess.CompletedProcess[str]:
    """Run `code` as `file`, in its folder, warnings being errors and figures drawn but not shown."""
    file.write_text(code, encoding="utf-8")
    style = ROOT / "docs" / "_static" / "matplotlibrc"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "Agg", "MATPLOTLIBRC": str(style)}
    command = [sys.executable, "-W", "error", file.name]
    return subprocess.run(command, cwd=file.parent, env=environment, capture_output=True, text=True, check=False)


PAGE = """\
Text.

```{code-cell} python
:tags: [hide-input]
import numpy as np
```

```python
left = out
```

```{code-cell} python
print("a")
```
"""


def test_program_keeps_line_numbers_and_leaves_out_what_is_no_cell(tmp_path: Path) -> None:
    lines = make_program(PAGE).splitlines()
    kept = {number: line for number, line in enumerate(lines, 1) if line and repr(CELL) not in line}
    assert kept == {5: "import numpy as np", 13: 'print("a")'}
    assert imported_modules(make_program(PAGE)) == {"numpy"}
    assert run_page(make_program(PAGE), tmp_path / "page.py").stdout == f"{CELL}{CELL}a\n"


def test_failing_page_is_reported_with_its_line(tmp_path: Path) -> None:
    done = run_page(make_program(PAGE.replace('"a"', "1 / 0")), tmp_path / "page.py")
    assert done.returncode != 0
    assert 'page.py", line 13' in done.stderr
