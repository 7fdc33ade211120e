"""Index of the names that load their modules on demand: `python3 tools/lazy_names.py` writes it anew.

A function is declared once: in `__all__` of its module, which `adjoint/__init__.py`, or `nn/functional.py`, imports for
type checkers. The methods of Tensor are those that the import of a module attaches. With --check nothing is written,
and a table that is not as it would be written is an error.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
TABLES = {  # the table of each package, and the subpackages whose modules attach methods
    "adjoint.functions": ("functions/api/lazy_table.py", "adjoint.functions"),
    "adjoint.compat": ("compat/lazy_table.py", "adjoint.compat.functions"),
}
INDENT = " " * 8
OPENING = '''"""Names of {package} that load their modules on demand: made by tools/lazy_names.py, not to be edited.

A row is a module, and the names that it gives: methods of Tensor, and functions of the package that are no methods.
"""

'''


def main(arguments: Sequence[str]) -> int:
    """Write the tables, or check them."""
    sys.path.insert(0, str(SOURCE))
    stale = []
    for file, text in tables().items():
        path = SOURCE / "adjoint" / file
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(file)
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    if stale:
        sys.stdout.write(f"stale: {', '.join(stale)}: run `python3 tools/lazy_names.py`\n")
    return int(bool(stale) and "--check" in arguments)


def tables() -> dict[str, str]:
    """Return the text of each table, by its file."""
    importlib.import_module("adjoint")
    loaded = set(sys.modules)
    methods = attached_methods()
    functions = declared_functions("__init__.py")
    nn_functions = sorted(declared_functions("nn/functional.py").items())
    texts = {}
    for package, (file, _) in TABLES.items():
        rows = {module: names for module, names in methods.items() if module.startswith(f"{package}.")}
        lazy = {module: names for module, names in functions.items() if module.startswith(f"{package}.")}
        others = {module: sorted({*names} - {*rows.get(module, ())}) for module, names in lazy.items()}
        in_nn = {module: sorted(names) for module, names in nn_functions if module.startswith(f"{package}.")}
        parts = [
            format_table(name, {module: table[module] for module in sorted(table) if module not in loaded}, package)
            for name, table in (("METHODS", rows), ("FUNCTIONS", others))
        ]
        if in_nn:
            parts.append("# Functions of `nn.functional`.\n" + format_table("NN_FUNCTIONS", in_nn, package))
        texts[file] = OPENING.format(package=package) + "".join(parts)
    return texts


def attached_methods() -> dict[str, list[str]]:
    """Import all modules that may attach methods to Tensor, and return the names that each of them attached."""
    from adjoint.core.tensor.tensor import Tensor

    attached: dict[str, list[str]] = {}
    names_of_nested: list[set[str]] = [set()]

    class RecordingFinder:
        """Finder of the package's modules that compares Tensor before and after each of them."""

        def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
            spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith("adjoint.") else None
            loader: Any = None if spec is None else spec.loader
            if loader is None:
                return None
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                before = dict(vars(Tensor))
                names_of_nested.append(set())
                execute(module)
                changed = {name for name, value in vars(Tensor).items() if is_attached(name, value, before)}
                attached[fullname] = sorted(changed - names_of_nested.pop())
                names_of_nested[-1] |= changed

            loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, RecordingFinder())
    for _, package in TABLES.values():
        path = importlib.import_module(package).__path__
        for info in pkgutil.walk_packages(path, f"{package}."):
            importlib.import_module(info.name)
    return {module: names for module, names in attached.items() if names}


def is_attached(name: str, value: object, before: dict[str, Any]) -> bool:
    """Return whether an attribute is new: neither there before, nor a wrapper of a method that a class has already."""
    wrapped = getattr(value, "__wrapped__", None)
    return before.get(name, before) is not value and (wrapped is None or wrapped is not before.get(name))


def declared_functions(file: str) -> dict[str, list[str]]:
    """Return the names that a file of `adjoint` imports for type checkers, by their modules."""
    tree = ast.parse((SOURCE / "adjoint" / file).read_text(encoding="utf-8"))
    names: dict[str, list[str]] = {}
    for statement in type_checking_imports(tree):
        module = statement.module or ""
        if module.startswith(tuple(f"{package}." for package in TABLES)):
            for alias in statement.names:
                home = importlib.import_module(module)
                exported = home.__all__ if alias.name == "*" else [alias.name]
                names.setdefault(module, []).extend(n for n in exported if not inspect.ismodule(getattr(home, n, home)))
    return names


def type_checking_imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    """Yield the imports below `if TYPE_CHECKING:`."""
    for node in tree.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from (statement for statement in node.body if isinstance(statement, ast.ImportFrom))


def format_table(name: str, rows: dict[str, list[str]], package: str) -> str:
    """Return the source of a table, whose rows are modules with their names."""
    lines = [f"{name}: dict[str, str] = {{"]
    for module, names in rows.items():
        if not names:
            continue
        key, words = module.removeprefix(f"{package}."), " ".join(names)
        if len(line := f'    "{key}": "{words}",') <= 120:
            lines.append(line)
        else:
            lines += [f'    "{key}": """', *textwrap.wrap(words, 110, initial_indent=INDENT, subsequent_indent=INDENT)]
            lines.append('    """,')
    return "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
