"""Base of rules that read the program's text when the watch ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from adjoint.core.graph.source_location import Site, library_files
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.source_expressions import SourceFile, parse_source
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.rule import WatchRule

MAX_FILES = 4


class TextRule(WatchRule):
    """A rule that looks at the syntax trees of the files that trained."""

    def finish(self) -> None:
        for source in find_sources(self.facts):
            self.read(source)

    def read(self, source: SourceFile) -> None:
        """Look at a file."""

    def blame(self, kind: str, where: tuple[SourceFile, ast.AST], name: str, problem: str, advice: str) -> None:
        """Report a node of a file."""
        source, node = where
        number = getattr(node, "lineno", 0)
        self.report(kind, Place(Site(source.name, number, "")), name, problem, advice, number)


def find_sources(facts: Facts) -> Iterator[SourceFile]:
    """Yield the files whose lines made a backward pass, an optimizer, or the class of a model."""
    places = [each.place for each in facts.backwards] + list(facts.made_optimizers.values())
    places += [place for _, place, _ in facts.gradients]
    files = [place.site.file for place in places]
    files = files + [root.made.site.file for root in facts.names.models() if root.made is not None]
    for root in facts.names.models():
        code = getattr(type(root.module).forward, "__code__", None)
        files += [] if code is None else [code.co_filename]
    own = [name for name in dict.fromkeys(files) if not library_files[name]]
    for name in own[:MAX_FILES]:
        source = parse_source(name)
        if source is not None:
            yield source


def name_of(node: ast.AST) -> str:
    """Return the last name of a variable, an attribute, or what is called or indexed; empty for all else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, (ast.Call, ast.Subscript)):
        return name_of(node.func if isinstance(node, ast.Call) else node.value)
    return ""


def calls_in(*nodes: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in some nodes."""
    for node in nodes:
        for each in ast.walk(node):
            if isinstance(each, ast.Call):
                yield each
