"""Markdown from docstrings in this project's form: paragraphs, sections, a session as an example."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

HEADING = re.compile(r"([A-Z][a-z]+):")
INLINE_HEADING = re.compile(r"(Raises|Returns|Shapes|Source|Sources|Shape|Yields): ")
ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): ")
CODE_SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
SPECIAL = re.compile(r"([\\*_\[\]<>|$#~])")


def convert_docstring(text: str, keeps_example: bool = True) -> list[str]:
    """Markdown from a docstring in this project's form: paragraphs, sections, an example unless there is another."""
    blocks: list[str] = []
    for heading, lines in split_sections(text):
        if heading in ("Example", "Examples"):
            blocks += write_example(textwrap.dedent("\n".join(lines)).strip("\n")) if keeps_example else []
        elif heading:
            blocks += ["", f"**{heading}**", "", *convert_entries(lines)]
        else:
            blocks += ["", *(INLINE_HEADING.sub(r"**\1:** ", escape_markdown(line), count=1) for line in lines)]
    return blocks


def split_sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """The parts of a docstring: a heading, or "" for free text, with its lines."""
    heading, lines = "", list[str]()
    for line in text.splitlines():
        opening = HEADING.fullmatch(line)
        if opening or (heading and line and not line.startswith(" ")):
            yield heading, lines
            heading, lines = (opening[1], []) if opening else ("", [line])
        else:
            lines.append(line)
    yield heading, lines


def convert_entries(lines: list[str]) -> list[str]:
    """The lines of a section as a list: deeper lines go on with the entry before them."""
    entries: list[str] = []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        elif line.strip():
            entries.append(line.strip())
    return [f"- {escape_markdown(ENTRY.sub(lambda found: f'`{found[1]}`: ', entry, count=1))}" for entry in entries]


def escape_markdown(text: str) -> str:
    """The text with Markdown's special characters escaped outside of code spans."""
    parts, end = [], 0
    for span in CODE_SPAN.finditer(text):
        parts += [SPECIAL.sub(r"\\\1", text[end : span.start()]), span[0]]
        end = span.end()
    return "".join([*parts, SPECIAL.sub(r"\\\1", text[end:])])


def write_example(session: str) -> list[str]:
    """An example under its heading."""
    return ["", "**Example**", "", *write_session(session)]


def write_session(session: str) -> list[str]:
    """A Python session as a block; blank lines in its output are blank again."""
    return ["```pycon", *session.replace("<BLANKLINE>", "").splitlines(), "```"]
