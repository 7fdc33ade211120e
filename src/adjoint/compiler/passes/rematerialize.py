"""What backward reads of the forward pass and is made again there from less memory, instead of being kept for it.

A value that takes only elementwise equations to make need not live from forward to backward if what it is made from
does, or is smaller: the normalised input of a layer, an activation, its derivative. Equations of backward that depend
on no gradient count as such values too, or they would be computed in forward, where their operands are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from adjoint.compiler.ir.graph import Graph, Value
from adjoint.compiler.passes.materialize import is_virtual
from adjoint.compiler.passes.partition import COSTLY, COSTS, can_be_remade
from adjoint.core.op.spec import Spec

LARGE = 1 << 16  # bytes of a value that is worth a look
WORTH = 1 << 22  # bytes in all that are worth the time to compute anything again
SMALLER = 8  # times smaller than a value: what may be kept to make it again
COST = 80  # the most that making an element again may cost, in additions
APART = 3  # products between the making of a value and its first reader in backward: a shorter life costs little
TOGETHER = 12  # products between its first reader and its last: a longer life would be that of a value kept
HEAVY = ("contraction", "convolution", "attention")


class Chain(NamedTuple):
    """The equations that make a value from what is kept, and from one more value, `anchor`, if that is not None."""

    anchor: Value | None
    equations: tuple[Value, ...]
    start: int  # position of the last of what they read


def remake(graph: Graph, written: Iterable[Value]) -> Graph:
    """The graph in which backward reads copies of equations, made right before. `written`: inputs that are overwritten.

    The copies have an origin that says `again`, so that no kernel of the forward pass takes them in.
    """
    again = _Choice(graph, set(written)).again
    if not again:
        return graph
    out = Graph(graph.name)
    out.inputs = graph.inputs
    renamed: dict[Value, Value] = {v: v for v in graph.inputs}
    copies: dict[Value, Value] = {}

    def copy(value: Value) -> Value:
        if value not in again:
            return renamed[value]
        if value not in copies:
            origin = value.origin and value.origin._replace(backward=True, again=True)
            inputs = tuple(copy(i) if isinstance(i, Value) else i for i in value.inputs)
            copies[value] = out.add(value.op, inputs, value.params, Spec(value.shape, value.dtype), origin)
        return copies[value]

    for v in graph.equations:
        take = copy if _is_backward(v) and v not in again else renamed.__getitem__
        inputs = tuple(take(i) if isinstance(i, Value) else i for i in v.inputs)
        renamed[v] = out.add(v.op, inputs, v.params, Spec(v.shape, v.dtype), v.origin)
    out.outputs = [renamed[v] for v in graph.outputs]
    return out


class _Choice:
    """Which equations are made again: `again`, movements among them."""

    def __init__(self, graph: Graph, written: set[Value]) -> None:
        self.written = written
        self.position = {v: i for i, v in enumerate(graph.equations)}
        self.heavy = list(accumulate((v.op.family in HEAVY for v in graph.equations), initial=0))
        self.free = _without_gradient(graph)
        self.first: dict[Value, int] = {}  # the first of backward's readers, and the last
        self.last: dict[Value, int] = {}
        self.again: set[Value] = set()
        self._find_readers(graph)
        outputs = set(graph.outputs)
        self.wanted = {v for v in self.first if self._is_candidate(v) and v not in outputs}
        self.kept = self.first.keys() - self.wanted
        if sum(v.nbytes for v in self.wanted) >= WORTH:
            self._choose()

    def _find_readers(self, graph: Graph) -> None:
        for i, v in enumerate(graph.equations):
            if _is_backward(v) and v not in self.free:
                for operand in v.operands:
                    base = _base(operand)
                    if base.op is not None and (not _is_backward(base) or base in self.free):
                        self.first.setdefault(base, i)
                        self.last[base] = i

    def _is_candidate(self, v: Value) -> bool:
        if v.nbytes < LARGE or is_virtual(v) or not can_be_remade(v) or (v.origin is not None and v.origin.again):
            return False
        return self.heavy[self.last[v]] - self.heavy[self.first[v]] <= TOGETHER

    def _choose(self) -> None:
        """Keep, again and again, the value that frees most; what is kept may make others at no cost."""
        gained, again = 0, set[Value]()
        while True:
            covers: dict[Value | None, list[tuple[Value, Chain]]] = {}
            for value in self.wanted:
                for chain in self._chains(value):
                    covers.setdefault(chain.anchor, []).append((value, chain))
            gains = {a: self._gain(a, (v for v, _ in found)) for a, found in covers.items()}
            done = set[Value]()
            for anchor in sorted(gains, key=lambda a: (-gains[a], 0 if a is None else -self.position[a])):
                found = [(v, chain) for v, chain in covers[anchor] if v not in done and v is not anchor]
                gain = self._gain(anchor, (v for v, _ in found))
                if gain <= 0 or anchor in done:
                    continue
                gained += gain
                again.update(e for _, chain in found for e in chain.equations)
                done.update(v for v, _ in found)
                if anchor is not None:
                    self.kept.add(anchor)
                    done.add(anchor)
            if not done:
                break
            self.wanted -= done
        if gained >= WORTH:
            self.again = again - self.kept

    def _gain(self, anchor: Value | None, made: Iterable[Value]) -> int:
        kept = 0 if anchor is None or anchor in self.wanted else anchor.nbytes
        return sum(v.nbytes for v in made if v is not anchor) - kept

    def _chains(self, value: Value) -> list[Chain]:
        """The ways to make a value from what is kept and at most one value more, the shortest first."""
        found: list[Chain] = []
        equations: list[Value] = []
        start, cost = -1, 0
        heap = [(-self.position[value], value)]
        seen = {value}
        while True:
            if len(heap) <= 1:
                at = max(start, -heap[0][0] if heap else -1)
                if heap and not is_virtual(heap[0][1]) and heap[0][1] is not value and self._is_long(value, at):
                    found.append(Chain(heap[0][1], tuple(equations), at))
                elif not heap and self._is_long(value, at):
                    found.append(Chain(None, tuple(equations), at))
            if not heap:
                return found
            _, v = heapq.heappop(heap)
            cost += 0 if is_virtual(v) else COSTS.get(v.op.name, COSTLY)
            if not can_be_remade(v) or cost > COST or (v.origin is not None and v.origin.again):
                return found
            equations.append(v)
            for operand in v.operands:
                if operand in seen:
                    continue
                seen.add(operand)
                if operand.op is None:
                    if operand in self.written and operand.nbytes * SMALLER > value.nbytes:
                        return found
                elif operand in self.kept or (not is_virtual(operand) and operand.nbytes * SMALLER <= value.nbytes):
                    start = max(start, self.position[operand])
                else:
                    heapq.heappush(heap, (-self.position[operand], operand))

    def _is_long(self, value: Value, start: int) -> bool:
        """True if much happens between the making of what a value is made from and its first reader in backward."""
        return start >= 0 and self.heavy[self.first[value]] - self.heavy[start] >= APART


def _without_gradient(graph: Graph) -> set[Value]:
    """The elementwise equations of backward that read only what forward makes."""
    found: set[Value] = set()
    for v in graph.equations:
        early = all(x.op is None or not _is_backward(x) or x in found for x in v.operands)
        if early and _is_backward(v) and can_be_remade(v) and not (v.origin and v.origin.again):
            found.add(v)
    return found


def _base(value: Value) -> Value:
    """What a moved value was moved from."""
    while value.op is not None and is_virtual(value) and value.operands:
        value = value.operands[0]
    return value


def _is_backward(v: Value) -> bool:
    return v.origin is not None and v.origin.backward
