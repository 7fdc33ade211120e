"""No circle of imports, at three levels, and no crowded folder.

A module that loads another, one that imports another inside a function and one that names another's types for type
checkers: each of them knows of the other. Where such arrows make a circle, none of its modules can be read, tested or
changed alone.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "adjoint"
LEVELS = ("load", "late", "typing")  # each has the imports of those before it too
STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
MAX_ENTRIES, MAX_TOP_ENTRIES = 20, 26

Graph = Mapping[str, Mapping[str, int]]  # of each module what it imports, and in which line


@dataclass(frozen=True)
class Import:
    """One import: its level, the module, the name that is taken from it, if any, and the line."""

    level: str
    base: str
    name: str
    line: int


@cache
def read_package(root: Path) -> dict[str, list[Import]]:
    """Return the imports of each module of the package at `root`, by the module's full name."""
    modules = {}
    for path in sorted(root.rglob("*.py")):
        folder = [root.name, *path.parent.relative_to(root).parts]
        module = ".".join(folder if path.stem == "__init__" else [*folder, path.stem])
        modules[module] = list(find_imports(path.read_text(encoding="utf-8"), folder))
    return modules


def import_graph(modules: Mapping[str, list[Import]], level: str) -> Graph:
    """Return which modules import which, at this level and those before it."""
    allowed = LEVELS[: LEVELS.index(level) + 1]
    graph: dict[str, dict[str, int]] = {}
    for module, imports in modules.items():
        arrows = graph[module] = {}
        for found in sorted(imports, key=lambda found: found.line):
            full = f"{found.base}.{found.name}"
            target = full if full in modules else found.base
            if found.level in allowed and target in modules and target != module:
                arrows.setdefault(target, found.line)
    return graph


def find_imports(source: str, folder: list[str]) -> Iterator[Import]:
    """Find every import in a module of this folder."""
    # expressions, which are most of a tree, can only import by calls
    kinds = (ast.AST,) if "import_module" in source or "__import__" in source else STATEMENTS
    waiting: list[tuple[ast.AST, str]] = [(ast.parse(source), "load")]
    while waiting:
        node, level = waiting.pop()
        match node:
            case ast.Import():
                for alias in node.names:
                    yield Import(level, alias.name, "", node.lineno)
            case ast.ImportFrom():
                start = folder[: len(folder) - node.level + 1] if node.level else []
                base = ".".join([*start, *filter(None, [node.module])])
                for alias in node.names:
                    yield Import(level, base, alias.name, node.lineno)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name("import_module" | "__import__"),
                args=[ast.Constant(str() as name), *_],
            ):
                yield Import(level, name, "", node.lineno)
        for part, value in ast.iter_fields(node):
            inner = [child for child in (value if isinstance(value, list) else [value]) if isinstance(child, kinds)]
            inside = level_inside(node, part, level) if inner else level
            waiting += [(child, inside) for child in inner]


def level_inside(node: ast.AST, part: str, level: str) -> str:
    """Return the level of imports in this part of a node that is itself at `level`."""
    if isinstance(node, ast.If) and part == "body" and "TYPE_CHECKING" in ast.unparse(node.test):
        return "typing"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and part == "body" and level == "load":
        return "late"
    return level


def find_circles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of two modules or more.

    Tarjan, "Depth-first search and linear graph algorithms", 1972, without recursion.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []
    for root in graph:
        trail = [(root, iter(graph[root]))] if root not in index else []
        while trail:
            module, rest = trail[-1]
            if module not in index:
                index[module] = low[module] = len(index)
                stack.append(module)
            for target in rest:
                if target not in index:
                    trail.append((target, iter(graph[target])))
                    break
                if target in stack:
                    low[module] = min(low[module], index[target])
            else:
                trail.pop()
                if trail:
                    above = trail[-1][0]
                    low[above] = min(low[above], low[module])
                if low[module] == index[module]:
                    start = stack.index(module)
                    circle, stack[start:] = sorted(stack[start:]), []
                    circles += [circle] if len(circle) > 1 else []
    return circles


def describe(circle: list[str], graph: Graph) -> str:
    """Return the arrows of a circle, one to a line."""
    arrows = ((module, line, target) for module in circle for target, line in graph[module].items() if target in circle)
    return "\n".join(f"  {module}:{line} imports {target}" for module, line, target in arrows)


def count_entries(folder: Path) -> int:
    """Return how many modules and packages lie in a folder."""
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    return len(modules) + len(packages)


FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))


@pytest.mark.parametrize("level", LEVELS)
def test_there_is_no_circle(level: str) -> None:
    graph = import_graph(read_package(PACKAGE), level)
    assert sum(map(len, graph.values())) > len(graph)
    circles = find_circles(graph)
    assert not circles, "\n\n".join(["circles of imports:", *(describe(circle, graph) for circle in circles)])


@pytest.mark.parametrize("folder", [pytest.param(path, id=str(path.relative_to(PACKAGE.parent))) for path in FOLDERS])
def test_folder_is_not_crowded(folder: Path) -> None:
    assert count_entries(folder) <= (MAX_TOP_ENTRIES if folder == PACKAGE else MAX_ENTRIES)


# What a planted module says, and the first level at which that makes a circle; `low` imports nothing of its own.
PLANTED = [
    ("import planted.high", "load"),
    ("from planted import high", "load"),
    ("from .high import name", "load"),
    ("try:\n    from . import high\nfinally:\n    pass", "load"),
    ("class Low:\n    import planted.high", "load"),
    ("import importlib\nimportlib.import_module('planted.high')", "load"),
    ("def f():\n    from planted.high import name", "late"),
    ("f = lambda: __import__('planted.high')", "late"),
    ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planted.high import Type", "typing"),
    ("import typing\nif typing.TYPE_CHECKING:\n    pass\nelse:\n    from planted.high import Type", "load"),
    ("import planted.alone", None),
    ("import planted.low", None),
]


@pytest.mark.parametrize(("code", "first"), PLANTED)
def test_planted_circle_is_found(tmp_path: Path, code: str, first: str | None) -> None:
    root = tmp_path / "planted"
    files = {"__init__": "", "alone": "", "low": code, "middle": "import planted.low", "high": "from . import middle"}
    root.mkdir()
    for name, text in files.items():
        (root / f"{name}.py").write_text(f"{text}\n", encoding="utf-8")
    modules = read_package(root)
    found = [level for level in LEVELS if find_circles(import_graph(modules, level))]
    assert found == ([] if first is None else list(LEVELS[LEVELS.index(first) :]))
    for level in found:
        assert find_circles(import_graph(modules, level)) == [["planted.high", "planted.low", "planted.middle"]]


def test_circles_are_told_apart() -> None:
    arrows = {"a": "b", "b": "a c", "c": "d e", "d": "c", "e": "f", "f": "", "g": "g"}
    graph = {module: dict.fromkeys(targets.split(), 1) for module, targets in arrows.items()}
    assert sorted(find_circles(graph)) == [["a", "b"], ["c", "d"]]
    assert describe(["c", "d"], graph) == "  c:1 imports d\n  d:1 imports c"


def test_entries_are_counted(tmp_path: Path) -> None:
    for name in ("__init__.py", "one.py", "two.py", "data.txt", "room/__init__.py", "room/three.py", "empty/note.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    assert count_entries(tmp_path) == 3
