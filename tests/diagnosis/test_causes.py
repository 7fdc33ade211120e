"""The causes of errors: the line to blame is named, with what else it has to agree with.

A file of `traced_causes` holds programs, each under its name: the line to blame ends in `# <--`, the cause follows
after `cause:`. `--update-golden` writes the causes anew.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.explained_programs import (
    find_marked_place,
    find_told,
    read_programs,
    run_program,
    split_files,
    write_told,
)

from adjoint.diagnosis import error_explanation
from adjoint.diagnosis.call_stack import find_stack
from adjoint.diagnosis.causes.computing import open_program
from adjoint.diagnosis.causes.contexts import FailedProgram, find_step
from adjoint.diagnosis.causes.numbers import trace_number
from adjoint.diagnosis.causes.steps import trace_back
from adjoint.diagnosis.failure import inspect_failure

FOLDER = Path(__file__).with_name("traced_causes")


class TracedCause(NamedTuple):
    """A program, and the cause that its error is to name."""

    name: str
    program: str
    cause: str


CAUSES = {path: [TracedCause(*each) for each in read_programs(path, "cause")] for path in sorted(FOLDER.glob("*.txt"))}


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("path", "each"),
    [pytest.param(path, each, id=each.name) for path, causes in CAUSES.items() for each in causes],
)
def test_the_line_to_blame_is_named(
    path: Path, each: TracedCause, tmp_path: Path, request: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in split_files(each.program, each.name):
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    failed: list[Exception] = []
    monkeypatch.setattr(error_explanation, "report_failed_search", failed.append)
    error = run_program(each.program, tmp_path / f"{each.name}.py")
    assert error is not None, "nothing was raised"
    text = "\n".join(getattr(error, "__notes__", ()))
    place, cause = find_marked_place(each.program, each.name), find_told(text, "cause")
    if request.config.getoption("--update-golden"):
        write_told(path, each.name, "cause", cause)
    blamed = "\n".join(told for told in text.split("\n") if told.startswith(("cause: ", "try: ")))
    assert re.search(rf"{re.escape(place)}\b", blamed), (text, failed)
    assert cause == each.cause
    assert not failed, f"the search raises an error of its own: {failed}"


def fail_program(text: str, path: Path) -> FailedProgram:
    """Return the program whose frames an error has left, for searches in it."""
    error = run_program(text, path)
    assert error is not None
    return open_program(inspect_failure(error, find_stack(error.__traceback__)))


@pytest.mark.parametrize(
    ("text", "number", "line"),
    [
        ("def f(n):\n    return 1 / (n - n)\nf(3)\n", 3, 3),
        ("def f(n=3):\n    return 1 / (n - n)\nf()\n", 3, 1),
        ("def f(n):\n    return 1 / (n - n)\ndef g(**k):\n    f(**k)\ng(n=3)\n", 3, 5),
        ("def f(n):\n    return 1 / (n - n)\ntable = {'m': 2}\ntable['n'] = 3\nf(table['n'])\n", 3, 4),
        ("def f(n):\n    return 1 / (n - n)\ndef g():\n    m, n = 2, 3\n    return m, n\n_, b = g()\nf(b)\n", 3, 4),
        (
            "class A:\n    size = 3\n    def f(self):\n        n = self.size\n        return 1 / (n - n)\nA().f()\n",
            3,
            2,
        ),
        ("def f(n):\n    return 1 / (n - n)\nfor n in [3]:\n    f(n)\n", 3, 3),
        ("def f(*n):\n    n = n[1]\n    return 1 / (n - n)\nf(2,\n  3)\n", 3, 5),
    ],
    ids=["argument", "default", "keywords", "entry", "result", "class", "loop", "starred"],
)
def test_a_number_is_traced_to_where_it_is_written(text: str, number: int, line: int, tmp_path: Path) -> None:
    program = fail_program(text, tmp_path / "numbers.py")
    step = find_step(program, program.stack)
    assert step is not None
    name = next(each for each in ast.walk(step.node) if isinstance(each, ast.Name) and each.id == "n")
    root = trace_number(step.at(name, ()), number).root
    assert root.place() == f"numbers.py:{line}"


def test_a_name_that_was_written_over_has_its_former_value_no_more(tmp_path: Path) -> None:
    text = "def f(n):\n    n = n + 1\n    return 1 / (n - n)\nf(3)\n"
    program = fail_program(text, tmp_path / "names.py")
    step = find_step(program, program.stack)
    assert step is not None
    name = next(each for each in ast.walk(step.node) if isinstance(each, ast.Name))
    steps = [*trace_back(step.at(name, ()))]
    assert [program.compute(each) for each in steps[:2]] == [4, 4]
    assert program.compute(steps[1].at(next(e for e in ast.walk(steps[1].node) if isinstance(e, ast.Name)), ())) == 3
