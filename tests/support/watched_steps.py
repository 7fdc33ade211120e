"""Running a step under a witness, and a table of such steps with what they read and write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from adjoint.compiler.trace.frames import FrameObserver
from adjoint.compiler.trace.frames.sources import BuiltinSource, Source
from adjoint.core.graph.source_location import Site


class Refused(RuntimeError):
    """The step did something that cannot be repeated."""


class Case(NamedTuple):
    step: Callable[[], Any]
    reads: set[str]
    writes: set[str]


def refuse(what: str, site: Site) -> None:
    raise Refused(f"{what} at line {site.line}")


def watched(step: Callable[..., Any], *args: Any) -> FrameObserver:
    witness = FrameObserver(refuse)
    with witness.observe(step):
        step(*args)
    return witness


def places_read(witness: FrameObserver) -> list[Source]:
    places = [read.place for read in witness.reads]
    return [place for place in places if not isinstance(place, BuiltinSource) and place.name != "__code__"]


def seen(step: Callable[..., Any], *args: Any) -> tuple[set[str], set[str]]:
    """The reads and writes of a step in words, without what every step reads: names of Python itself, its code."""
    witness = watched(step, *args)
    return {place.what for place in places_read(witness)}, {write.place.what for write in witness.writes}


def case(cases: list[Case], reads: str = "", writes: str = "") -> Callable[[Any], Any]:
    """Add the function to a table; what it reads and writes is given in words, one to a line or after a comma."""

    def add(step: Callable[[], Any]) -> Callable[[], Any]:
        cases.append(Case(step, _words(reads), _words(writes)))
        return step

    return add


def parameters(expressions: Mapping[str, Any], cases: list[Case]) -> list[Any]:
    """Make of expressions, `name: (step, reads, writes)` with the latter two in words, and cases test parameters."""
    rows = {name: Case(step, *map(_words, (*places, "", "")[:2])) for name, (step, *places) in expressions.items()}
    rows |= {case.step.__name__: case for case in cases}
    return [pytest.param(case, id=name) for name, case in rows.items()]


def _words(text: str) -> set[str]:
    return {word.strip() for line in text.splitlines() for word in line.split(",") if word.strip()}
