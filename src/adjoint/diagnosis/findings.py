"""Findings of `ad.doctor`: what is wrong, the line to blame, the name, the number, and what to do."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType

from adjoint.core.graph.source_location import InstructionLocation, Site, site_of
from adjoint.core.runtime.notebook import show_in_notebook
from adjoint.core.runtime.text_table import pluralize
from adjoint.diagnosis.operands import Origin
from adjoint.diagnosis.source_expressions import shorten

MAX_KNOWN_PLACES = 4096


@dataclass(frozen=True)
class Place:
    """A line of the user's program."""

    site: Site

    @property
    def text(self) -> str:
        """The line as it is written, without its comment."""
        return shorten(linecache.getline(self.site.file, self.site.line).partition("#")[0])

    def __str__(self) -> str:
        text = self.text
        return f"{self.site.describe_briefly()}: {text}" if text else self.site.describe_briefly()


_places: dict[tuple[int, int], tuple[CodeType, Place]] = {}  # by a code that the value keeps alive, and the offset


def place_of_frame(frame: FrameType) -> Place:
    """Return the line that a frame carries out."""
    return place_of_instruction((frame.f_code, frame.f_lasti))


def place_of_instruction(location: InstructionLocation) -> Place:
    """Return the line of a code's instruction."""
    code, offset = location
    known = _places.get((id(code), offset))  # the hash of a code would take longer than the search for the line
    if known is None:
        while len(_places) >= MAX_KNOWN_PLACES:
            del _places[next(iter(_places))]
        known = _places[id(code), offset] = code, Place(site_of(code, offset))
    return known[1]


def place_of_origin(origin: Origin | None) -> Place | None:
    """Return the line of a statement that gave a value; None where there is none."""
    if origin is None:
        return None
    return Place(Site(origin.source.name, getattr(origin.node, "lineno", 0), ""))


@dataclass(frozen=True)
class Finding:
    """One mistake: its kind, the line to blame, the name and the number that show it, and what to do."""

    kind: str
    place: Place | None
    name: str
    number: str
    problem: str
    advice: str

    @property
    def line(self) -> str:
        """The file, the number and the text of the line: `train.py:12: x = x.detach()`."""
        return "" if self.place is None else str(self.place)

    def __str__(self) -> str:
        where = f"{self.line}\n  " if self.place is not None else ""
        return f"{where}{self.problem} [{self.kind}]\n  try: {self.advice}"


@dataclass
class Report:
    """The findings of one watch, in the order of their weight; it prints as the text that a user reads."""

    findings: list[Finding] = field(default_factory=list)
    steps: int = 0
    failures: list[str] = field(default_factory=list)  # of rules, which a program never sees

    def add(self, finding: Finding) -> None:
        """Add a finding, unless the same one is there already."""
        key = (finding.kind, finding.place, finding.name)
        if all(key != (other.kind, other.place, other.name) for other in self.findings):
            self.findings.append(finding)

    def kinds(self) -> list[str]:
        """Return the kinds of the findings."""
        return [finding.kind for finding in self.findings]

    @property
    def title(self) -> str:
        """The number of findings and of watched steps."""
        number = pluralize(len(self.findings), "finding") if self.findings else "nothing found"
        return f"doctor: {number} in {pluralize(self.steps, 'step')}"

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"{i}. {each}" for i, each in enumerate(self.findings, 1))])

    _repr_html_ = show_in_notebook

    def __repr__(self) -> str:
        return str(self)
