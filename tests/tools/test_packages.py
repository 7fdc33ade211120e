"""tools/packages.py: programs of third-party packages, their comparison, the tables, and each night all of them."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tools import packages
from tools.packages import (
    DIFFERS,
    FAILS,
    LAST_DIGIT,
    MARKS,
    PROGRAMS,
    REASONS,
    ROOT,
    SAME,
    Program,
    Result,
    Run,
    compare_output,
    describe_result,
    find_programs,
    is_near,
    last_line,
    make_summary,
    make_table,
    read_program,
    read_results,
    write_between_marks,
)

EVERY = find_programs()
HEAD = '"""Two steps."""\n\n# requires: some-package==1.2 other[extra]==3.0.1\nimport torch\n'


def run(out: str, status: int = 0) -> Run:
    return Run(status, out, "", 1.0, 1.0)


def result(verdict: str, **facts: Any) -> Result:
    times = {"wall": {"torch": 2.25, "adjoint": 1.0}, "cpu": {"torch": 2.0, "adjoint": 1.0}}
    return {"verdict": verdict, "numbers": 4, "equal": 3, "error": "", **times, **facts}  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("expected", "actual", "verdict", "equal"),
    [
        ("loss 0.5000 0.2500\n", "loss 0.5000 0.2500\n", SAME, 2),
        ("loss 0.5000 0.2500\n", "loss 0.5000 0.2501\n", LAST_DIGIT, 1),
        ("loss 0.5000 0.2500\n", "loss 0.5000 0.2502\n", DIFFERS, 1),
        ("loss 0.5000\n", "Loss 0.5000\n", DIFFERS, 1),
        ("loss 0.5000\n", "loss 0.5000\nloss 0.4000\n", DIFFERS, 1),
        ("loss 1.5e-05\n", "loss 1.6e-05\n", LAST_DIGIT, 0),
        ("loss 1.5e-05\n", "loss 1.5e-04\n", DIFFERS, 0),
        ("loss nan\n", "loss nan\n", SAME, 0),
        ("loss 0.5000\n", "loss nan\n", DIFFERS, 0),
        ("made 12\n", "made 13\n", DIFFERS, 0),
    ],
)
def test_verdict_of_two_outputs(expected: str, actual: str, verdict: str, equal: int) -> None:
    compared = compare_output(run(expected), run(actual))
    assert (compared.verdict, compared.equal) == (verdict, equal)


def test_a_program_that_ends_with_an_error_fails_whatever_it_printed() -> None:
    assert compare_output(run("loss 0.5\n"), run("loss 0.5\n", 1)).verdict == FAILS


@pytest.mark.parametrize(
    ("a", "b", "near"),
    [("1.234", "1.235", True), ("1.234", "1.236", False), ("1.20", "1.2", True), ("-0.0001", "0.0000", True),
     ("1e-3", "2e-3", True), ("7", "7", True), ("7", "8", False), ("9.9999e-4", "1.0000e-3", True)],
)  # fmt: skip
def test_numbers_are_near_within_a_unit_of_the_last_digit(a: str, b: str, near: bool) -> None:
    assert is_near(a, b) is near
    assert is_near(b, a) is near


def test_the_error_is_the_last_line_that_names_one_without_its_folder() -> None:
    text = "Traceback (most recent call last):\n  …\nAttributeError: no torch.nn.Foo (/some/where/train.py:12)\n"
    assert last_line(text + "note: kept\n") == "AttributeError: no torch.nn.Foo (train.py:12)"
    assert last_line("killed\n") == "killed"


def test_a_program_says_what_it_does_and_needs(tmp_path: Path) -> None:
    path = tmp_path / "some_steps.py"
    path.write_text(HEAD)
    program = read_program(path)
    assert (program.name, program.group, program.title) == ("some_steps", tmp_path.name, "Two steps.")
    assert program.packages == (("some-package", "1.2"), ("other[extra]", "3.0.1"))
    assert program.environment == Program(path.with_name("b.py"), "Others.", ("numpy==2.0",)).environment
    path.write_text(HEAD.replace("requires:", "requires apart:"))
    assert read_program(path).environment != program.environment


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# requires: some-package==1.2 other[extra]==3.0.1\n", "", "needs a docstring of one line"),
        ('"""Two steps."""\n', "", "needs a docstring of one line"),
        ("==3.0.1", ">=3", r"requires other\[extra\]>=3, without a version"),
        ("==1.2", "", "requires some-package, without a version"),
    ],
)
def test_a_program_without_its_head_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "some_steps.py"
    path.write_text(HEAD.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_program(path)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no program absent"):
        find_programs(["absent"])


def test_tables_have_what_was_measured() -> None:
    program = Program(PROGRAMS / "language" / "some_steps.py", "Two steps.", ("some-package==1.2", "other==3"))
    results = {"some_steps": result(SAME)}
    link = "[Two steps](../examples/packages/language/some_steps.py)"
    rows = make_table([program], results).splitlines()[2:]
    assert rows == [f"| some-package 1.2, other 3 | {link} | all 4 the same | 2.0 s | 1.0 s |"]
    counted, *rows = make_summary([program], results).splitlines()
    assert counted == "1 programs of 1 packages: 1 print PyTorch's numbers to the last digit."
    assert rows == ["", "| field | packages |", "| --- | --- |", "| language | some-package 1.2 |"]


def test_the_table_says_what_differs_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(PROGRAMS / "language" / "some_steps.py", "Two steps.", ("some-package==1.2",))
    assert describe_result(program, result(DIFFERS)) == "differs: 3 of 4 the same"
    assert describe_result(program, result(FAILS, error="TypeError: no")) == "does not run; TypeError: no"
    monkeypatch.setitem(packages.REASONS, "some_steps", "it draws on a GPU")
    assert describe_result(program, result(DIFFERS)) == "differs: 3 of 4 the same; it draws on a GPU"
    assert make_summary([program], {"some_steps": result(FAILS)}).startswith("1 programs of 1 packages: 1 cannot run.")


def test_only_what_stands_between_the_marks_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n")
    write_between_marks(page, "new")
    assert page.read_text() == f"before\n{MARKS[0]}\n\nnew\n\n{MARKS[1]}\nafter\n"
    page.write_text("no marks")
    with pytest.raises(ValueError, match=r"page\.md has no lines"):
        write_between_marks(page, "new")


@pytest.mark.parametrize("page", ["README.md", "docs/packages.md"])
def test_the_pages_show_the_last_results(page: str) -> None:
    make = make_summary if page == "README.md" else make_table
    assert f"{MARKS[0]}\n\n{make(EVERY, read_results())}\n\n{MARKS[1]}" in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("program", EVERY, ids=lambda program: program.name)
def test_a_program_is_one_of_its_packages_user(program: Program) -> None:
    text = program.path.read_text(encoding="utf-8")
    assert not re.search(r"Adjoint|(import|from) adjoint|adjoint\.", text)
    assert len(text.splitlines()) <= 90


def test_reasons_are_of_programs_that_differ() -> None:
    results = read_results()
    assert {name for name in REASONS if name not in results or results[name]["verdict"] == SAME} == set()


@pytest.mark.nightly
@pytest.mark.oracle
@pytest.mark.parametrize("program", EVERY, ids=lambda program: program.name)
def test_a_program_prints_what_the_table_says(program: Program) -> None:
    if shutil.which("uv") is None:
        pytest.skip("environments are made by uv")
    order = [FAILS, DIFFERS, LAST_DIGIT, SAME]
    result = packages.try_program(program, repeats=1)
    last = read_results().get(program.name, {**result, "verdict": SAME})
    assert order.index(result["verdict"]) >= order.index(last["verdict"])
