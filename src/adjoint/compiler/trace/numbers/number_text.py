"""Texts of numbers that each call computes: in the trace, markers and placeholders stand for the digits.

An f-string and `format` ask the number for its text, which is a marker. A format with `%` asks it for an int or a
float, and lays the digits out by itself: that is a placeholder, with digits that occur in no text of a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from typing import NamedTuple

from adjoint.compiler.ir.graph import TextReadError
from adjoint.core.graph.source_location import user_site

TEXT_BEGINS, TEXT_ENDS = "\ue0ad\ue000", "\ue001"  # characters for private use, around the name of a text
TEXT_PATTERN = re.compile(f"{TEXT_BEGINS}(n\\d+){TEXT_ENDS}")

INT_PLACEHOLDER = 729315471935 * 10**12  # and a count: 24 digits, more than fields are wide
FLOAT_PLACEHOLDER, MIN_EXPONENT, MAX_EXPONENT = "5.8274193506", 200, 299  # the exponents tell numbers apart
# What a text shows of a placeholder: of an int, of a float, and of a float with an exponent, which may be rounded.
PLACEHOLDER_PATTERN = re.compile(r"729315471935|58274193506|[56](?:\.\d*)?[eE]\+2\d\d")

PRINTF_FIELD = re.compile(r"%(?:\([^()]*\))?([#0\- +]*\d*(?:\.\d+)?)(.)", re.DOTALL)
FIELD_TYPES: dict[str, type] = {
    **dict.fromkeys("diu", int),
    **dict.fromkeys("eEfFgG", float),
    **dict.fromkeys("sra", str),
}
SHOWN_VALUES = {int: r"[-+ 0-9]*?", float: r"[-+ .0-9a-zA-Z]*?", str: "(?s:.*?)"}  # patterns of what the fields show
MAX_FIELDS = 10  # of a format: a text is compared with each choice of those that may have shown a placeholder

NameLine = Callable[[str, tuple[str, ...]], str]  # the name of what an expression gives in each call, by what it needs


def is_late_text(x: object) -> bool:
    """True for a string that stands for one which each call makes anew."""
    return type(x) is str and (TEXT_BEGINS in x or PLACEHOLDER_PATTERN.search(x) is not None)


class PrintfField(NamedTuple):
    """A field of a printf-style format, such as `%5.2f`, and the type of number that it asks for."""

    code: str
    type: type


class PlacedNumber(NamedTuple):
    """A number by its name in the step's arithmetic, and what a field got for it."""

    name: str
    placeholder: float


class PrintfText:
    """A text that a step makes by a printf-style format: the format's parts, and the numbers that it has asked."""

    def __init__(self, literals: list[str], fields: list[PrintfField]) -> None:
        self.literals, self.fields = literals, fields  # a literal before each field, and one after them
        self.numbers: list[PlacedNumber] = []

    def replace_placeholders(self, text: str, name_line: NameLine) -> str:
        """Return a text with markers where this one shows placeholders, unless it could be read in two ways."""
        found: dict[tuple[tuple[str, str], ...], str] = {}  # patterns, by the code of each text and its number
        for places in combinations(range(len(self.fields)), len(self.numbers)):
            shown = dict(zip(places, self.numbers, strict=True))
            if all(type(number.placeholder) is self.fields[i].type for i, number in shown.items()):
                pattern = self._write_pattern(shown)
                if re.search(pattern, text):
                    shows = [(f"{self.fields[i].code!r} % ({n.name},)", n.name) for i, n in shown.items()]
                    found.setdefault(tuple(shows), pattern)
        if len(found) != 1:
            return text
        for codes, pattern in found.items():
            markers = [f"{TEXT_BEGINS}{name_line(code, (name,))}{TEXT_ENDS}" for code, name in codes]
            text = re.sub(pattern, partial(_put_markers, markers=markers), text)
        return text

    def _write_pattern(self, shown: dict[int, PlacedNumber]) -> str:
        """The pattern of a text of this format in which these fields show placeholders: each in a group."""
        parts = [re.escape(self.literals[0])]
        for i, (field, literal) in enumerate(zip(self.fields, self.literals[1:], strict=True)):
            piece = f"({re.escape(field.code % shown[i].placeholder)})" if i in shown else SHOWN_VALUES[field.type]
            parts += piece, re.escape(literal)
        return "".join(parts)


class NumberTexts:
    """The texts of numbers in a trace."""

    def __init__(self) -> None:
        self.may_show = True  # numbers need not have their values where a text is made of them
        self.are_shown = False  # the instruction that runs makes a text, which nobody looks into
        self.count = 0  # of those made so far
        self._current: PrintfText | None = None  # which the instruction makes
        self._printed: list[PrintfText] = []  # which show placeholders

    def begin(self, made: PrintfText | None) -> None:
        """Let numbers show themselves from now on; `made`: by placeholders, in the text of a format with `%`."""
        self.are_shown, self._current = self.may_show, made

    def mark(self, name: str) -> str:
        """Return a text that stands for the one that has this name in each call."""
        self.count += 1
        return f"{TEXT_BEGINS}{name}{TEXT_ENDS}"

    def place(self, kind: type, name: str) -> float | None:
        """The placeholder for a number which is asked for an int or a float; None if that must have its value."""
        if not self.are_shown or self._current is None:
            return None
        placeholder: float = INT_PLACEHOLDER + self.count
        if kind is float:
            exponent = MIN_EXPONENT + self.count
            if exponent > MAX_EXPONENT:
                return None
            placeholder = float(f"{FLOAT_PLACEHOLDER}e{exponent}")
        self.count += 1
        if not self._current.numbers:
            self._printed.append(self._current)
        self._current.numbers.append(PlacedNumber(name, placeholder))
        return placeholder

    def name(self, text: str, name_line: NameLine) -> str:
        """The name of the text that each call makes where `text` was made in the trace.

        Raises: TextReadError if it does not tell which fields show which numbers.
        """
        for made in reversed(self._printed):  # the last ones may hold those before
            if PLACEHOLDER_PATTERN.search(text) is not None:
                text = made.replace_placeholders(text, name_line)
        if self._printed and PLACEHOLDER_PATTERN.search(text) is not None:
            raise TextReadError(f"a step makes a text that does not tell which numbers it shows, at {user_site()}")
        parts = TEXT_PATTERN.split(text)  # every second one is a name
        code = " + ".join(part if i % 2 else repr(part) for i, part in enumerate(parts) if part)
        return name_line(code, tuple(parts[1::2]))


def parse_format(form: str) -> PrintfText | None:
    """The parts of a format with `%`; None where it shows more of a number than an int or a float.

    >>> parse_format("epoch %3d: %.4f").fields
    [PrintfField(code='%3d', type=<class 'int'>), PrintfField(code='%.4f', type=<class 'float'>)]
    """
    literals, fields, end = [""], list[PrintfField](), 0
    for found in PRINTF_FIELD.finditer(form):
        layout, kind = found.groups()
        literals[-1] += form[end : found.start()]
        end = found.end()
        if kind == "%":
            literals[-1] += "%"
        elif kind not in FIELD_TYPES or (FIELD_TYPES[kind] is str and layout):  # in another base, or a text is cut
            return None
        else:
            fields.append(PrintfField(f"%{layout}{kind}", FIELD_TYPES[kind]))
            literals.append("")
    literals[-1] += form[end:]
    return PrintfText(literals, fields) if len(fields) <= MAX_FIELDS else None


def _put_markers(match: re.Match[str], markers: Iterable[str]) -> str:
    """The text of a match with a marker in place of each group."""
    text, end = "", match.start()
    for i, marker in enumerate(markers, 1):
        text += match.string[end : match.start(i)] + marker
        end = match.end(i)
    return text + match.string[end : match.end()]
