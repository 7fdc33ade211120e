"""The tests that a change reaches, by the imports and the names in the source: `dev.py check` runs them.

A change reaches the tests of the module that it edits, those of the modules that import it and mention what was edited,
and the tests that do so themselves. Tests that run through all ops or functions are narrowed to the edited names. What
lies farther away is for `dev.py test`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOUSE_TESTS = (  # they hold what any edit may break, and take seconds
    "tests/test_architecture.py", "tests/test_circles.py", "tests/test_mirror.py", "tests/test_vocabulary.py",
    "tests/docs/test_folder_maps.py",
)  # fmt: skip
MAX_TEST_FILES = 24  # of one check: about a minute on two cores
MAX_NAMES = 12  # edited names by which the tests of every op are narrowed; more are a rewrite of the file


@dataclass
class Reach:
    """Test files to run whole; files to run only for the edited `names`; and how many files were left out."""

    files: list[str] = field(default_factory=list)
    narrowed: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    left_out: int = 0


@dataclass(frozen=True)
class SourceFile:
    """A Python file below `root`: its modules' imports, and the names in it."""

    root: Path
    path: str

    @cached_property
    def text(self) -> str:
        """The source; empty for a file that was removed."""
        file = self.root / self.path
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    @cached_property
    def module(self) -> str:
        """The dotted name under which others import it."""
        parts = Path(self.path).with_suffix("").parts
        parts = parts[1:] if parts[0] == "src" else parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def imports(self) -> frozenset[str]:
        """Modules, and names of modules, that the file imports anywhere; relative imports do not occur."""
        found = set()
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
        return frozenset(found)

    def mentions(self, names: Iterable[str]) -> bool:
        """Return whether one of the names occurs as a word."""
        return any(re.search(rf"\b{re.escape(name)}\b", self.text) for name in names)


def find_reach(root: Path, edits: dict[str, set[int] | None]) -> Reach:
    """Return the tests reached by `edits`: of each path the changed lines, or None for all of the file."""
    source = [SourceFile(root, path) for path in list_files(root, "src/adjoint")]
    tests = [SourceFile(root, path) for path in list_files(root, "tests")]
    reach = Reach()
    whole: dict[str, int] = {path: 0 for path in HOUSE_TESTS if (root / path).is_file()}
    for path, lines in edits.items():
        if is_test(path):
            whole.setdefault(path, 0)
        elif path.endswith(".md") or path.startswith("tools/"):
            whole.update(dict.fromkeys((t.path for t in tests if t.path.startswith("tests/docs/test_")), 1))
        elif path.endswith(".py"):
            file = SourceFile(root, path)
            names = edited_names(file.text, lines)
            near = {file.path, *(other.path for other in source if uses(other, file, names))}
            for test in tests:
                if is_test(test.path) and (mirrored := mirrored_path(root, test.path)) in near:
                    whole.setdefault(test.path, int(mirrored != file.path))
                elif is_test(test.path) and uses(test, file, names):
                    whole.setdefault(test.path, 1)
            if path.startswith("src/adjoint/") and names and len(reach.names) + len(names) <= MAX_NAMES:
                reach.names += names
    ordered = sorted(whole, key=lambda path: whole[path])
    reach.files, reach.left_out = ordered[:MAX_TEST_FILES], max(0, len(ordered) - MAX_TEST_FILES)
    if reach.names:
        rooms = {Path(path).parts[2] for path in edits if path.startswith("src/adjoint/")}
        rooms |= {"compiler", "functions"} if "ops" in rooms else {"compiler"}
        every = [Path(t.path) for t in tests if Path(t.path).name.startswith("test_every_")]
        reach.narrowed = [str(path) for path in every if path.parts[1] in rooms and str(path) not in reach.files]
    return reach


def uses(user: SourceFile, file: SourceFile, names: list[str]) -> bool:
    """Return whether `user` imports `file` and mentions one of the names, or any if there are none."""
    if user.path == file.path or file.module.rpartition(".")[2] not in user.text:  # most files: no need to parse them
        return False
    if names and not user.mentions(names):
        return False
    return file.module in user.imports or any(f"{file.module}.{name}" in user.imports for name in names)


def edited_names(text: str, lines: set[int] | None) -> list[str]:
    """Return the top-level functions, classes and constants that hold the lines; none if lines lie outside of them."""
    if lines is None or not text:
        return []
    names = []
    for node in ast.parse(text).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if lines.isdisjoint(range(first, (node.end_lineno or first) + 1)):
            continue
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [t.id for t in targets if isinstance(t, ast.Name)]
    return names


def mirrored_path(root: Path, test: str) -> str | None:
    """Return the source file of tests/a/test_b.py: src/adjoint/a/b.py, or the one whose name begins the test's."""
    path = Path(test)
    folder = Path("src/adjoint", *path.parent.parts[1:])
    words = path.stem.removeprefix("test_").split("_")
    candidates = (folder / f"{'_'.join(words[:i])}.py" for i in range(len(words), 0, -1))
    return next((str(c) for c in candidates if (root / c).is_file()), None)


def is_test(path: str) -> bool:
    """Return whether pytest collects the file."""
    return path.startswith("tests/") and Path(path).name.startswith("test_") and path.endswith(".py")


def list_files(root: Path, folder: str) -> list[str]:
    """Return the Python files below a folder, relative to the root."""
    return sorted(str(path.relative_to(root)) for path in (root / folder).rglob("*.py"))


def read_edits(root: Path, base: str) -> dict[str, set[int] | None]:
    """Return the changed lines of each file since the revision `base`; None for a file that git does not track yet."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout

    edits: dict[str, set[int] | None] = dict(parse_diff(git("diff", "-U0", "--no-color", "--no-ext-diff", base)))
    edits.update(dict.fromkeys(git("ls-files", "--others", "--exclude-standard").split()))
    return edits


def parse_diff(text: str) -> Iterator[tuple[str, set[int]]]:
    """Yield each file of a diff without context, and the lines that it has changed; a removal counts where it was."""
    path, lines = "", set[int]()
    for line in text.splitlines():
        if line.startswith(("+++ ", "--- a/")):
            if path and lines:
                yield path, lines
                lines = set()
            path = line[6:] if line != "+++ /dev/null" else path
        elif match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            start, count = int(match[1]), int(match[2] or 1)
            lines |= set(range(start, start + max(count, 1)))
    if path and lines:
        yield path, lines


def main() -> None:
    """Print the test files reached since the revision given first (HEAD), then those to narrow, then the names."""
    reach = find_reach(ROOT, read_edits(ROOT, *sys.argv[1:] or ["HEAD"]))
    print(*reach.files)
    print(*reach.narrowed)
    print(" or ".join(reach.names))
    if reach.left_out:
        print(f"{reach.left_out} more test files are reached: run `python3 dev.py test`", file=sys.stderr)


if __name__ == "__main__":
    main()
