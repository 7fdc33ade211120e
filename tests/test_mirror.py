"""Tests mirror the source: those of src/adjoint/a/b.py are in tests/a/test_b.py."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PACKAGE = ROOT / "src" / "adjoint"
PROGRAMS = {"benchmarks", "examples", "tools"}  # mirror the folders of these names
ACROSS = {
    "browser": "pages in a headless browser",
    "docs": "the pages, and the tools that make them",
    "integration": "what several rooms do together",
    "robustness": "threads, depth, leaks, interruptions, and writes from outside, wherever they strike",
    "smoke": "what a fresh installation does; `dev.py release` copies the folder out of the tree",
    "support": "what tests share, and no tests",
}
EXCEPTIONS = {
    "test_architecture.py": "all imports of the package",
    "test_circles.py": "imports of all modules, and the sizes of folders",
    "test_dev.py": "dev.py",
    "test_docstring_examples.py": "the most used public names, wherever they live",
    "test_mirror.py": "this file",
    "test_order.py": "tests/order.py",
    "test_vocabulary.py": "the names of all modules",
    "functions/api/test_error_messages.py": "what is refused, by functions of all folders",
    "functions/api/test_name_variants.py": "ways to write a call, of functions of all folders",
}
FILES = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py"))]


@pytest.mark.parametrize("file", [pytest.param(file, id=str(file)) for file in FILES if file.parts[0] not in ACROSS])
def test_file_is_named_after_what_it_tests(file: Path) -> None:
    if str(file) not in EXCEPTIONS:
        folder = (ROOT if file.parts[0] in PROGRAMS else PACKAGE) / file.parent
        assert mirrors(file.stem, folder), f"{folder.relative_to(ROOT)} has nothing that tests/{file} is named after"


def mirrors(stem: str, folder: Path) -> bool:
    """Tell whether `folder` has a module or folder b for a file test_b, or for test_b_… where the tests of b are many.

    Files named test_every_… run through all of a kind that the folder has.
    """
    words = stem.removeprefix("test_").split("_")
    if words[0] == "every" and len(words) > 1:
        return folder.is_dir()
    names = ("_".join(words[:i]) for i in range(len(words), 0, -1))
    return any((folder / f"{name}.py").is_file() or (folder / name).is_dir() for name in names)


def test_names_that_mirror_and_names_that_do_not() -> None:
    for stem in ("test_op", "test_op_errors", "test_op_of_two", "test_every_op"):
        assert mirrors(stem, PACKAGE / "core" / "op")
    assert mirrors("test_op", PACKAGE / "core")
    assert not mirrors("test_ops", PACKAGE / "core" / "op")
    assert not mirrors("test_every_op", PACKAGE / "core" / "absent")


def test_lists_of_others_are_not_stale() -> None:
    assert {name for name in EXCEPTIONS if not (TESTS / name).exists()} == set()
    assert {name for name in (*ACROSS, *PROGRAMS) if not (TESTS / name).is_dir()} == set()
    assert [file for file in FILES if file.parts[0] == "support"] == []
