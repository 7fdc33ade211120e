"""Which tests look for PyTorch, by their source: these are what `-m oracle` runs, and no others of their files.

A test does if it, its fixtures, or what they name in their file or in another one of tests/, imports PyTorch or asks
whether it is there. Names are followed, not values: rather a test too many than one that never runs.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PYTORCH = re.compile(r"(safetensors\.)?torch\b")
TEXT = re.compile(r"""^ *(import|from) torch\b|["'](safetensors\.)?torch(\.[\w.]+)?["']""", re.MULTILINE)
SHARED = re.compile(r"^ *from (tests[.\w]*) import (.*)", re.MULTILINE)
QUESTIONS = {"importorskip", "find_spec", "import_module"}


class TorchUse(NamedTuple):
    """Whether a file as a whole is skipped without PyTorch, and else which of its names lead to PyTorch."""

    whole: bool
    names: frozenset[str]


USES: dict[Path, TorchUse] = {}


def looks_for_torch(item: pytest.Item) -> bool:
    """Tell whether a test looks for PyTorch."""
    if not mentions_torch(item.path):
        return False
    use = find_torch_use(item.path)
    test = item.nodeid.split("::")[1].partition("[")[0]  # a class is taken as one
    return use.whole or not use.names.isdisjoint([test, *getattr(item, "fixturenames", ())])


@functools.cache
def mentions_torch(path: Path) -> bool:
    """Tell whether the text of a file, or of one of tests/ that it imports from, has PyTorch's name: a quick look."""
    text = path.read_text(encoding="utf-8")
    return bool(TEXT.search(text)) or any(
        mentions_torch(other)
        for module, names in SHARED.findall(text)
        for other in find_shared_files(module, re.findall(r"\w+", names))
    )


def find_shared_files(module: str, names: list[str]) -> Iterator[Path]:
    """Yield the files of tests/ that `from module import names` reads: the module's own, or those of modules in it."""
    place = ROOT / module.replace(".", "/")
    candidates = [place.with_suffix(".py"), *(place / f"{name}.py" for name in names)]
    return (file for file in candidates if file.is_file())


def find_torch_use(path: Path) -> TorchUse:
    """Return what a file has to do with PyTorch; of files that import from each other, the first asks the other."""
    if path not in USES:
        USES[path] = TorchUse(False, frozenset())
        USES[path] = follow_names(path)
    return USES[path]


def follow_names(path: Path) -> TorchUse:
    """Follow the names of a file from what looks for PyTorch to all that leads there."""
    statements = ast.parse(path.read_text(encoding="utf-8")).body
    bound = [find_bound_names(statement) for statement in statements]
    used = [find_used_names(statement) for statement in statements]
    reached: set[str] = set()
    whole = False
    for statement, names in zip(statements, bound, strict=True):
        if isinstance(statement, ast.ImportFrom):
            use = find_imported_use(statement)
            whole, reached = whole or use.whole, reached | use.names
        elif looks_for_module(statement):
            whole, reached = whole or skips_module(statement), reached | names
    size = -1
    while size < len(reached):
        size = len(reached)
        for names, others in zip(bound, used, strict=True):
            if not reached.isdisjoint(others):
                reached |= names or others  # a bare call may change what it names
    return TorchUse(whole or "pytestmark" in reached, frozenset(reached))


def find_bound_names(statement: ast.stmt) -> set[str]:
    """Return the names of the module that a statement gives a value."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    names = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    imports = (n for n in ast.walk(statement) if isinstance(n, ast.Import | ast.ImportFrom))
    return names | {(alias.asname or alias.name).partition(".")[0] for n in imports for alias in n.names}


def find_used_names(statement: ast.stmt) -> set[str]:
    """Return what a statement names, and the fixtures that it asks for: as arguments, or in texts."""
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def looks_for_module(statement: ast.stmt) -> bool:
    """Tell whether PyTorch is imported or asked for somewhere in a statement, or by what it imports."""
    return any(
        (isinstance(node, ast.Import) and any(PYTORCH.match(alias.name) for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and any(find_imported_use(node)))
        or (isinstance(node, ast.Call) and is_question(node))
        for node in ast.walk(statement)
    )


def skips_module(statement: ast.stmt) -> bool:
    """Tell whether a statement that looks for PyTorch has the whole module skipped where there is none."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return False
    asked = (getattr(node.func, "attr", "") for node in ast.walk(statement) if isinstance(node, ast.Call))
    return isinstance(statement, ast.Import) or "importorskip" in asked


def is_question(call: ast.Call) -> bool:
    """Tell whether a call asks for PyTorch, or for a module whose name is not written there."""
    asked = call.args[0] if call.args else None
    is_asking = getattr(call.func, "attr", getattr(call.func, "id", "")) in QUESTIONS
    return is_asking and (not isinstance(asked, ast.Constant) or bool(PYTORCH.match(str(asked.value))))


def find_imported_use(node: ast.ImportFrom) -> TorchUse:
    """Tell whether a `from … import …` fails without PyTorch, and which of the names that it brings lead there."""
    module, names = node.module or "", {alias.name: alias.asname or alias.name for alias in node.names}
    if not module.startswith("tests"):
        is_torch = bool(PYTORCH.match(module))
        return TorchUse(is_torch, frozenset(names.values() if is_torch else ()))
    files = [file for file in find_shared_files(module, list(names)) if mentions_torch(file)]
    whole = any(find_torch_use(file).whole for file in files)
    leading = [name for name in names if whole or any(name in {*find_torch_use(f).names, f.stem} for f in files)]
    return TorchUse(whole, frozenset(names[name] for name in leading))
