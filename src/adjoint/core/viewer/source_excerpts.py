"""Excerpts of the user's files: the lines that a document names, and those around them."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from adjoint.core.graph.source_location import Site, describe_cell_line
from adjoint.core.viewer.document import GraphDocument

LINES_AROUND = 12  # of a line that is named; other lines stay out of the page
MAX_LINE_LENGTH = 400


@dataclass(frozen=True)
class SourceExcerpt:
    """Lines of one file. `parts`: runs of lines, each the number of its first line and their texts."""

    path: str
    name: str
    parts: tuple[tuple[int, tuple[str, ...]], ...]


def collect_excerpts(document: GraphDocument) -> list[SourceExcerpt]:
    """Return an excerpt for each file that the document names, in the order in which it names them."""
    lines: dict[str, set[int]] = {}
    for site in iter_sites(document):
        lines.setdefault(site.file, set()).add(site.line)
    return [_read_excerpt(file, found) for file, found in lines.items()]


def iter_sites(document: GraphDocument) -> Iterator[Site]:
    """Yield the user's lines of all nodes and groups."""
    for graph in document.graphs:
        for node in graph.nodes:
            yield from node.sites
        for group in graph.groups:
            yield from group.sites


def _read_excerpt(file: str, named: Iterable[int]) -> SourceExcerpt:
    """Read the lines of a file that are named or near one that is."""
    text = linecache.getlines(file)
    wanted: set[int] = set()
    for line in named:
        first, last = max(1, line - LINES_AROUND), min(len(text), line + LINES_AROUND)
        wanted.update(range(first, last + 1))
    parts: list[tuple[int, list[str]]] = []
    for line in sorted(wanted):
        if not parts or parts[-1][0] + len(parts[-1][1]) != line:
            parts.append((line, []))
        parts[-1][1].append(text[line - 1].rstrip("\n")[:MAX_LINE_LENGTH])
    return SourceExcerpt(file, _name_file(file), tuple((first, tuple(run)) for first, run in parts))


def _name_file(file: str) -> str:
    """Return the name of a file without its folders, or IPython's words for a cell of a notebook."""
    cell = describe_cell_line(file, 1)
    if cell is not None:
        return cell.removesuffix(", line 1")
    return file.replace("\\", "/").rpartition("/")[2]
