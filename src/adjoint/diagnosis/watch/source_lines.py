"""Lines of a program's text: its calls, what it sets, and the blocks around a line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeVar

from adjoint.core.graph.source_location import Site
from adjoint.diagnosis.findings import Place, place_of_origin
from adjoint.diagnosis.operands import Origin
from adjoint.diagnosis.source_expressions import parse_source, text_of

Node = TypeVar("Node", bound=ast.expr | ast.stmt | ast.keyword)


def nodes_in(file: str | None, kind: type[Node]) -> list[Node]:
    """Return the nodes of a kind in a file; none where its source cannot be had."""
    source = None if file is None else parse_source(file)
    return [] if source is None else source.nodes_of(kind)


def nodes_at(place: Place, kind: type[Node]) -> list[Node]:
    """Return the nodes of a kind that begin at a line."""
    return [node for node in nodes_in(place.site.file, kind) if node.lineno == place.site.line]


def nodes_around(place: Place, kind: type[Node]) -> list[Node]:
    """Return the nodes of a kind around a line, the innermost last."""
    line = place.site.line
    found = [node for node in nodes_in(place.site.file, kind) if node.lineno <= line <= (node.end_lineno or 0)]
    return sorted(found, key=lambda node: node.lineno)


def line_of(file: str, node: ast.expr | ast.stmt | ast.keyword) -> Place:
    """Return the line at which a node begins."""
    return Place(Site(file, node.lineno, ""))


def find_calls(site: Site, names: tuple[str, ...]) -> Iterator[Place]:
    """Yield the lines of a program that call a function or a method of one of these names."""
    source = parse_source(site.file)
    calls = [] if source is None else source.calls_of(*names)
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        yield line_of(site.file, call)


def find_only_call(place: Place, kind: type) -> Place:
    """Return the line of the place's file that makes an object of a class, if there is one such line alone."""
    source = parse_source(place.site.file)
    calls = [] if source is None else source.calls_of(kind.__name__)
    found = None if source is None or len(calls) != 1 else place_of_origin(Origin(source, calls[0]))
    return found or place


def find_uncalled(near: Place | None, method: str) -> Iterator[Place]:
    """Yield the lines of a program that name a method and do not call it: `optimizer.zero_grad`."""
    for node in nodes_in(near.site.file, ast.Expr) if near is not None else ():
        if near is not None and isinstance(node.value, ast.Attribute) and node.value.attr == method:
            yield line_of(near.site.file, node)


def find_attribute_writes(site: Site, attribute: str) -> Iterator[Place]:
    """Yield the lines of a program that set an attribute of this name, of an object that is not self."""
    for node in nodes_in(site.file, ast.Attribute):
        if isinstance(node.ctx, ast.Store) and node.attr == attribute:
            yield line_of(site.file, node)


def find_rate_writes(near: Place | None) -> Iterator[Place]:
    """Yield the lines of a program that set `group["lr"]`."""
    for node in nodes_in(near.site.file, ast.Subscript) if near is not None else ():
        if near is not None and isinstance(node.ctx, ast.Store) and text_of(node.slice) == "'lr'":
            yield line_of(near.site.file, node)
