"""Examples and differences for the API reference, of names whose docstrings have none: docs/reference_examples/.

A file there belongs to the page of its name. Its head may import what the examples use besides the usual modules. A
section for each name follows:

    ## name

        >>> an example
        what it prints

    Differs from PyTorch: a sentence.

`python3 tools/page_output.py` writes what the examples print; of a new one it is left out.
"""

from __future__ import annotations

import doctest
import re
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference_examples"
SETUP = """\
>>> import numpy as np
>>> import adjoint as ad
>>> import adjoint.nn.functional as F
>>> from adjoint import nn, optim
"""  # of all examples, those in docstrings too
DIFFERENCE = "Differs from PyTorch: "
HEADING = re.compile(r"^## (\S+)\n", re.MULTILINE)
SEED_OF_NO_EXAMPLE = 7_001  # an example with random numbers sets its own

Report = Callable[[str], object]


class Section(NamedTuple):
    """What a companion says of one name; either part may be empty."""

    example: str = ""  # as in a Python session, without indentation
    difference: str = ""


class Companion(NamedTuple):
    """The examples of a page of the reference: the program that they begin with, and a section for each name."""

    setup: str  # after SETUP
    sections: dict[str, Section]


def find_companion(module: str) -> Path:
    """The file for the page of a module; it need not be there."""
    return FOLDER / f"{module}.md"


def read_companion(module: str) -> Companion:
    """The companion of a page; one without sections if there is no file."""
    path = find_companion(module)
    return parse_companion(path.read_text(encoding="utf-8")) if path.exists() else Companion("", {})


def parse_companion(text: str) -> Companion:
    """Take a companion apart. Raises ValueError for a name with two sections, or with an empty one."""
    head, *parts = HEADING.split(text)
    sections: dict[str, Section] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        section = parse_section(body)
        if name in sections or section == Section():
            raise ValueError(f"{name} has {'two sections' if name in sections else 'an empty section'}")
        sections[name] = section
    return Companion(indented_lines(head), sections)


def parse_section(body: str) -> Section:
    """Part the example from the difference. Raises ValueError for any other text."""
    plain = " ".join(line for line in body.splitlines() if line and not line.startswith(" "))
    if plain and not plain.startswith(DIFFERENCE):
        raise ValueError(f"a section has an example and a line {DIFFERENCE!r}: {plain}")
    return Section(indented_lines(body), plain.removeprefix(DIFFERENCE))


def indented_lines(text: str) -> str:
    """The indented lines of a text, without their indentation."""
    return textwrap.dedent("\n".join(line for line in text.splitlines() if line.startswith(" ")))


class ExampleRunner(doctest.DocTestRunner):
    """Runner that notes what each statement prints, in the statement itself if `renews`."""

    def __init__(self, renews: bool = False) -> None:
        super().__init__(verbose=False)
        self.renews = renews

    def report_failure(self, out: Report, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        """Take the output over, or report it."""
        if self.renews and example.exc_msg is not None:
            example.want = f"Traceback (most recent call last):\n    ...\n{got.splitlines()[-1]}\n"
        elif self.renews:
            example.want = got
        else:
            super().report_failure(out, test, example, got)


def run_examples(text: str, report: Report, renews: bool = False) -> str:
    """Run every section of a companion, warnings being errors; return the text, with new outputs if `renews`."""
    head, *parts = HEADING.split(text)
    scope = make_scope()
    pieces = [run_section(head, "the head", scope, report, renews)]
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        pieces += [f"## {name}\n", run_section(body, name, scope.copy(), report, renews)]
    return "".join(pieces)


def run_alone(body: str, name: str, report: Report) -> None:
    """Run the example of a docstring."""
    run_section(body, name, make_scope(), report)


def make_scope() -> dict[str, Any]:
    """The names that SETUP gives."""
    scope: dict[str, Any] = {}
    run_section(SETUP, "SETUP", scope, sys.stderr.write)
    return scope


def run_section(body: str, name: str, scope: dict[str, Any], report: Report, renews: bool = False) -> str:
    """Run one section with the names of `scope`, to which its own are added; return it with its outputs."""
    import adjoint

    pieces = doctest.DocTestParser().parse(body)
    examples = [piece for piece in pieces if isinstance(piece, doctest.Example)]
    test = doctest.DocTest(examples, scope, name, None, 0, body)
    test.globs = scope  # the test has a copy of it
    state = adjoint.get_rng_state()
    adjoint.manual_seed(SEED_OF_NO_EXAMPLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ExampleRunner(renews).run(test, out=report, clear_globs=False)
    adjoint.set_rng_state(state)
    return "".join(piece if isinstance(piece, str) else write_statement(piece) for piece in pieces)


def write_statement(example: doctest.Example) -> str:
    """A statement with its prompts and its output, indented as it was."""
    first, *rest = example.source.splitlines()
    lines = [f">>> {first}", *(f"... {line}".rstrip() for line in rest)]
    lines += [line or "<BLANKLINE>" for line in example.want.splitlines()]
    return textwrap.indent("\n".join(lines) + "\n", " " * example.indent)


def renew_companions() -> list[Path]:
    """Write the outputs of all companions anew; return the files that have changed. Faults go to the error stream."""
    changed = []
    for path in sorted(FOLDER.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        renewed = run_examples(text, sys.stderr.write, renews=True)
        if renewed != text:
            path.write_text(renewed, encoding="utf-8")
            changed.append(path)
    return changed
