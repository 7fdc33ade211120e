"""The docstrings of the most used names: a summary, every parameter, and an example that gives what it shows."""

import doctest
import inspect
import re
import warnings
from functools import reduce
from typing import Any

import numpy as np
import pytest
from tests.docstring_names import FUNCTIONS, MODULES
from tests.support.errors import assert_raises

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

TOP = FUNCTIONS + MODULES
MOST_STATEMENTS = 6  # of an example
MOST_SOURCE_LINES = 10
UNNAMED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
BEYOND_SIGNATURES = {"out"}  # what decorators take besides, and a signature does not show


def documented(name: str) -> Any:
    return reduce(getattr, name.split("."), ad)


def docstring(name: str) -> str:
    return inspect.cleandoc(documented(name).__doc__ or "")


def sections(text: str) -> dict[str, list[str]]:
    """The lines below each heading such as `Args:`; the blank ones are left out."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z][a-z]+:", line):
            heading = line[:-1]
        elif line and not line.startswith(" "):
            heading = ""
        if heading and line.startswith(" "):
            found.setdefault(heading, []).append(line)
    return found


def arguments(text: str) -> list[str]:
    """The names that the section `Args:` explains: `x: …`, and several at once as `x, y: …`."""
    names = []
    for line in sections(text).get("Args", ()):
        if entry := re.match(r" {4}([*\w]+(?:, [*\w]+)*): \S", line):
            names += [name.strip("*") for name in entry[1].split(", ")]
    return names


def parameters(called: Any) -> tuple[set[str], set[str]]:
    """The names that must be explained, and all that may be; one with an underscore in front is nobody's business."""
    every = inspect.signature(called).parameters.values()
    public = [p for p in every if p.name not in ("self", "cls") and not p.name.startswith("_")]
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in every)
    required = {p.name for p in public if p.kind not in UNNAMED}
    return required, {".*"} if open_ended else {p.name for p in public} | BEYOND_SIGNATURES


def test_each_name_stands_once() -> None:
    assert len(TOP) == len(set(TOP))


@pytest.mark.parametrize("name", TOP)
def test_summary(name: str) -> None:
    text = docstring(name)
    first, *rest = text.splitlines() or [""]
    assert first[:1].isupper() or first[:1].isdigit(), "a summary begins with a capital letter (or 2-d …)"
    assert first.endswith("."), "a summary is a whole sentence in one line"
    assert not rest or not rest[0], "a blank line follows the summary"


@pytest.mark.parametrize("name", TOP)
def test_arguments(name: str) -> None:
    explained = arguments(docstring(name))
    required, allowed = parameters(documented(name))
    assert len(explained) == len(set(explained)), "an argument is explained once"
    assert not required - set(explained), "Args: lacks these"
    assert allowed == {".*"} or not set(explained) - allowed, "Args: names what the signature has not"


@pytest.mark.parametrize("name", TOP)
def test_example(name: str) -> None:
    if name == "compile":
        pytest.importorskip("llvmlite")
    text = docstring(name)
    example = "\n".join(sections(text).get("Example", ()))
    scope = {"ad": ad, "nn": nn, "F": F, "optim": optim, "np": np}
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(example), scope, name, None, None)
    assert test.examples, "there is no Example:"
    assert ">>>" not in text.replace(example, ""), "an example stands in the section Example:"
    assert len(test.examples) <= MOST_STATEMENTS
    assert sum(len(e.source.splitlines()) for e in test.examples) <= MOST_SOURCE_LINES
    assert any(e.want for e in test.examples), "an example shows what comes out"
    report: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


BROKEN = """Return twice x.

Args:
    x: number to double.

Example:
    >>> 2 * 3
    7
"""


def test_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(x: Any, y: Any) -> Any:
        return 2 * x

    twice.__doc__ = BROKEN
    monkeypatch.setattr(ad, "twice", twice, raising=False)
    test_summary("twice")
    assert_raises(AssertionError, "lacks these", test_arguments, "twice")
    assert_raises(AssertionError, r"Expected:\n +7\n +Got:\n +6", test_example, "twice")
    twice.__doc__ = BROKEN.replace("x:", "x, z:").replace("    >>> 2 * 3\n", "").replace("Return twice x.", "2 x")
    assert_raises(AssertionError, "whole sentence", test_summary, "twice")
    assert_raises(AssertionError, "no Example", test_example, "twice")
    assert_raises(AssertionError, "lacks these", test_arguments, "twice")
    twice.__doc__ = BROKEN.replace("x:", "x, y, z:")
    assert_raises(AssertionError, "names what the signature has not", test_arguments, "twice")
