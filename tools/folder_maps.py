"""The maps in the docstrings of packages: `python3 tools/folder_maps.py` writes them anew.

The docstring of each folder's `__init__.py` lists the folder's modules in reading order, each with the first sentence
of its own docstring. The order is by hand: a new module goes to the end of the list, where its author moves it.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "adjoint"
HEADING = "Modules, in reading order:"
WIDTH = 118


def main(arguments: list[str]) -> int:
    """Write the maps, or with --check say which are stale."""
    packages = sorted(PACKAGE.rglob("__init__.py"))
    stale = [path for path in packages if path.read_text(encoding="utf-8") != with_map(path)]
    for path in stale:
        if "--check" not in arguments:
            path.write_text(with_map(path), encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    return 1 if stale and "--check" in arguments else 0


def with_map(path: Path) -> str:
    """Return the text of a folder's `__init__.py` with a fresh map in its docstring."""
    text = path.read_text(encoding="utf-8")
    (first, *_) = ast.parse(text).body
    if ast.get_docstring(ast.parse(text)) is None:
        raise ValueError(f"{path} has no docstring to hold the map")
    intent, _, old = first.value.value.partition(HEADING)
    order = re.findall(r"^- `(\w+)`", old, re.MULTILINE)
    names = modules(path.parent)
    names.sort(key=lambda name: (order.index(name) if name in order else len(order), name))
    if not names:
        return text
    lines = [line for name in names for line in entry(path.parent, name)]
    end = "" if "\n".join([intent.rstrip(), "", HEADING, "", *lines]).endswith('"') else "\n"
    docstring = "\n".join([f'"""{intent.strip()}', "", HEADING, "", *lines]) + end + '"""'
    rest = text.splitlines(keepends=True)[first.end_lineno :]
    return docstring + "\n" + "".join(rest)


def modules(folder: Path) -> list[str]:
    """Return the names of the modules and packages that lie directly in `folder`."""
    files = [path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "__main__")]
    return sorted(files + [path.parent.name for path in folder.glob("*/__init__.py")])


def entry(folder: Path, name: str) -> list[str]:
    """Return the lines of one module: its name, and the first sentence of its docstring."""
    file = folder / f"{name}.py" if (folder / f"{name}.py").exists() else folder / name / "__init__.py"
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    opening = " ".join(docstring.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[\w)`'])[.;] (?=\S)", opening)[0].rstrip(".:;")
    if len(sentence) > 2 * WIDTH:
        sentence = sentence.partition(": ")[0]
    return textwrap.wrap(f"- `{name}`: {sentence}.", WIDTH, subsequent_indent="  ", break_on_hyphens=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
