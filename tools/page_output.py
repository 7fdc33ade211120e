"""The output shown on the pages: `python3 tools/page_output.py` runs their Python and writes the text blocks anew.

A ```text block that follows a ```python block ending in `print(...)` shows what that line prints; of one with a line
`…` as many lines stay before and after it as there were. What the examples of the API reference print is renewed too.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from functools import partial
from os import environ
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARK = "--- printed by line {} ---"
SHOWN = re.compile(r"(?<=\n)(print\([^\n]*\))\n```\n\n```text\n(.*?)\n```(?=\n)", re.DOTALL)


def main() -> None:
    """Bring every page, and every example of the API reference, up to date."""
    sys.path.insert(0, str(ROOT / "src"))
    from reference_examples import renew_companions

    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        renewed = with_output(text, page.stem)
        page.write_text(renewed, encoding="utf-8")
        sys.stdout.write(f"{page.relative_to(ROOT)}: {'as it was' if renewed == text else 'written anew'}\n")
    for path in renew_companions():
        sys.stdout.write(f"{path.relative_to(ROOT)}: written anew\n")


def with_output(page: str, stem: str) -> str:
    """The page with its outputs as they are now. Output that names lines of the page settles in a second round."""
    for _ in range(3):
        renewed = SHOWN.sub(partial(_filled, outputs(page, stem)), page)
        if renewed == page:
            return page
        page = renewed
    raise ValueError(f"{stem}: the output changes from run to run")


def outputs(page: str, stem: str) -> dict[int, str]:
    """What each shown `print` line of the page prints, by line number."""
    lines = python_of(page)
    shown = [line_of(found) for found in SHOWN.finditer(page)]
    if not shown:
        return {}
    for number in shown:
        lines[number - 1] = f"print({MARK.format(number)!r}); {lines[number - 1]}; print({MARK.format('')!r})"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"{stem}.py")
        file.write_text("\n".join(lines), encoding="utf-8")
        variables = {**environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
        command = [sys.executable, "-W", "error", file.name]
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError(f"{stem}: the page does not run\n{done.stderr}")
    return {
        number: done.stdout.partition(MARK.format(number) + "\n")[2].partition(MARK.format(""))[0].strip("\n")
        for number in shown
    }


def python_of(page: str) -> list[str]:
    """The page's lines, those outside of its Python blocks empty."""
    lines, runs = [], False
    for line in page.splitlines():
        if line.startswith("```"):
            runs = line == "```python"
            lines.append("")
        else:
            lines.append(line if runs else "")
    return lines


def line_of(found: re.Match[str]) -> int:
    """The number of the line on which a shown `print` stands."""
    return found.string.count("\n", 0, found.start()) + 1


def _filled(printed: dict[int, str], found: re.Match[str]) -> str:
    """The `print` and its text block with what it printed, shortened as the block was."""
    before, lines = found[2].split("\n"), printed[line_of(found)].split("\n")
    if "…" in before:
        head, tail = before.index("…"), len(before) - before.index("…") - 1
        if head + tail < len(lines):
            lines = [*lines[:head], "…", *lines[len(lines) - tail :]]
    return "\n".join([found[1], "```", "", "```text", *lines, "```"])


if __name__ == "__main__":
    main()
