"""The file map of docs/architecture.md, made from the docstrings: `python3 tools/file_map.py` writes it anew."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "adjoint"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- file map: made by tools/file_map.py -->", "<!-- end of the file map -->"
LAYERS = (
    "core", "ops", "autograd", "functions", "nn", "optim", "data", "serialization", "interop", "inspect", "distributed",
    "compiler",
)  # fmt: skip


def main() -> None:
    """Write the map into the page, and say whether that changed it."""
    page = PAGE.read_text(encoding="utf-8")
    renewed = with_map(page, file_map(PACKAGE))
    PAGE.write_text(renewed, encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: {'as it was' if renewed == page else 'file map written anew'}\n")


def with_map(page: str, text: str) -> str:
    """The page with `text` between its two markers; ValueError unless each stands there once, in order."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in tail:
        raise ValueError(f"the page needs {BEGIN} and then {END}, once each")
    return f"{head}{BEGIN}\n{text}{END}{tail}"


def file_map(package: Path) -> str:
    """One table for each layer, lowest first: every file, and the first paragraph of its docstring."""
    modules = [path.relative_to(package) for path in sorted(package.rglob("*.py"))]
    parts = []
    for layer in sorted({path.parts[0] for path in modules}, key=_rank):
        rows = [_row(package, path) for path in modules if path.parts[0] == layer]
        head = ["", f"**{layer}**", "", "| file | what it holds |", "| --- | --- |"]
        parts.append("\n".join([*head, *filter(None, rows), ""]))
    return "".join(parts) + "\n"


def _rank(layer: str) -> tuple[int, str]:
    """The package's own file first, then the layers from low to high, then whatever is new."""
    if layer.endswith(".py"):
        return -1, layer
    return (LAYERS.index(layer), layer) if layer in LAYERS else (len(LAYERS), layer)


def _row(package: Path, path: Path) -> str | None:
    docstring = ast.get_docstring(ast.parse((package / path).read_text(encoding="utf-8")))
    if docstring is None:
        return None
    opening = " ".join(docstring.split("\n\n")[0].split()).replace("|", "\\|")
    return f"| `{path.as_posix()}` | {opening} |"


if __name__ == "__main__":
    main()
