"""Sums of many terms in a graph: trees of additions whose inner results nobody else reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from adjoint.compiler.ir.graph import Graph, Value
from adjoint.compiler.passes.rewriter import Rewriter
from adjoint.core.op.spec import Spec


class Sums:
    """Finds the sums of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.users, self.outputs = graph, graph.users(), set(graph.outputs)

    def find(self, is_wanted: Callable[[Value], bool]) -> Iterator[tuple[Value, list[Value]]]:
        """Yield the last addition of each sum of wanted additions, and the terms of the sum in order."""
        inner: set[Value] = set()
        for v in reversed(self.graph.equations):
            if v not in inner and is_wanted(v):
                yield v, self._take_apart(v, is_wanted, inner)

    def is_only_in_sum(self, term: Value, root: Value) -> bool:
        """Return whether only the sum reads a term, which runs when that does."""
        same = term.origin is None or root.origin is None or term.origin.checkpoint == root.origin.checkpoint
        return len(self.users[term]) == 1 and term not in self.outputs and term.shape == root.shape and same

    def _take_apart(self, root: Value, is_wanted: Callable[[Value], bool], inner: set[Value]) -> list[Value]:
        """Return the terms of a sum, and add the additions inside it to `inner`."""
        terms: list[Value] = []
        stack = [root]
        while stack:
            v = stack.pop()
            if v is root or (is_wanted(v) and self.is_only_in_sum(v, root)):
                inner.add(v)
                stack.extend(reversed(v.operands))
            else:
                terms.append(v)
        return terms


def is_sum(v: Value) -> bool:
    """Return whether a value is the sum of two values of its shape and type."""
    return (
        v.op is not None
        and v.op.name == "add"
        and len(v.operands) == 2
        and all(x.shape == v.shape and x.dtype == v.dtype for x in v.operands)
    )


def add_terms(v: Value, terms: Sequence[Value], rewriter: Rewriter) -> Value:
    """Return the sum of the terms, one added after another, in place of the sum `v`."""
    total = terms[0]
    for x in terms[1:]:
        total = rewriter.make(Value(v.op, (total, x), {}, Spec(v.shape, v.dtype), v.origin))
    return total
