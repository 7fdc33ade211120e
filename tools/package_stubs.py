"""Stubs of packages that get names from the table of PyTorch's names: `python3 dev.py stubs` writes them anew.

`nn.DataParallel` is found by `adjoint.compat.finder`, of which type checkers know nothing, and no package may import
compat. The stub beside its `__init__.py` imports what that file imports or loads on demand, and the table's names.
"""

from __future__ import annotations

import ast
import importlib
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "adjoint"
PACKAGES = ("autograd", "nn", "optim")
OPENING = '"""Made by `python3 dev.py stubs` from __init__.py and compat/namespace.py: not to be edited."""'
OMITTED = ("__future__", "typing", "importlib", "types", "adjoint.core.runtime.lazy_import")


def main(arguments: Sequence[str]) -> int:
    """Write the stubs, or check them."""
    sys.path.insert(0, str(SOURCE.parent))
    stale = []
    for package in PACKAGES:
        path, text = SOURCE / package / "__init__.pyi", package_stub(package)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path.relative_to(ROOT)))
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    if stale:
        sys.stdout.write(f"stale: {', '.join(stale)}: run `python3 dev.py stubs`\n")
    return int(bool(stale) and "--check" in arguments)


def package_stub(package: str) -> str:
    """Return the text of the stub of a package."""
    tree = ast.parse((SOURCE / package / "__init__.py").read_text(encoding="utf-8"))
    rows = dict(lazy_imports(package)) | dict(table_imports(package)) | dict(own_imports(tree.body))
    lines = [line for _, line in sorted(rows.items(), key=lambda row: (row[1], row[0])) if line]
    unknown = [f"{name}: Any" for name, line in sorted(rows.items()) if not line]
    names = {*importlib.import_module(f"adjoint.{package}").__all__, *(name for name in rows if "*" not in name)}
    exported = textwrap.wrap(", ".join(f'"{name}"' for name in sorted(names)), 110)
    parts = [
        [OPENING],
        ["from typing import Any"] if unknown else [],
        lines,
        ["__all__ = [", *(f"    {line}" for line in exported), "]"],
        unknown,
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def lazy_imports(package: str) -> Iterator[tuple[str, str]]:
    """Yield each name that the package loads on demand, as `own_imports` does."""
    tables = vars(importlib.import_module(f"adjoint.{package}"))
    for part in tables.get("_PARTS", "").split():
        yield part, f"from adjoint.{package} import {part} as {part}"
    for file, names in tables.get("_HOMES", {}).items():
        home = f"adjoint.{package}.{file}"
        if sorted(names.split()) == sorted(getattr(importlib.import_module(home), "__all__", ())):
            yield f"* of {home}", f"from {home} import *"
        else:
            yield from ((name, f"from {home} import {name} as {name}") for name in names.split())


def own_imports(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield each name that the package imports, for type checkers too, with the line that imports it.

    The name of an import of all names is `* of module`.
    """
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from own_imports(node.body)
        elif isinstance(node, ast.ImportFrom) and node.module not in OMITTED:
            for alias in node.names:
                name = alias.asname or alias.name
                known_as = "" if alias.name == "*" else f" as {name}"
                key = f"* of {node.module}" if alias.name == "*" else name
                yield key, f"from {node.module} import {alias.name}{known_as}"


def table_imports(package: str) -> Iterator[tuple[str, str]]:
    """Yield each name that the table has below the package, with the line that imports it; "" if no line can.

    A module that has the names of several is an object without a known type, and so is a part that is absent.
    """
    from adjoint.compat.namespace import ABSENT, MODULES, NAMES

    for row in ABSENT:
        yield from ((name, "") for name in child(row, package))
    for row, homes in MODULES.items():
        for name in child(row, package):
            home, _, module = f"adjoint.{homes}".rpartition(".")
            yield name, "" if " " in homes else f"from {home} import {module} as {name}"
    for row, home in NAMES.items():  # after the modules: `autograd.gradcheck` is both, and means the function
        for name in child(row, package):
            module, _, attribute = home.partition(":")
            yield name, f"from adjoint.{module} import {attribute} as {name}"


def child(row: str, package: str) -> list[str]:
    """Return the last part of a dotted name directly below the package, if it is one."""
    parent, _, name = row.rpartition(".")
    return [name] if parent == package else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
