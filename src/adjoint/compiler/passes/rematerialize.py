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
from adjoint.compiler.passes.materialize import is_view_or_generated
from adjoint.compiler.passes.partition import DEFAULT_OP_COST, OP_COSTS, can_rematerialize
from adjoint.core.op.spec import Spec

MIN_REMAT_BYTES = 1 << 16  # bytes of a value that is worth a look
MIN_TOTAL_SAVING_BYTES = 1 << 22  # bytes in all that are worth the time to compute anything again
MIN_SHRINK_FACTOR = 8  # times smaller than a value: what may be kept to make it again
MAX_REMAT_COST = 80  # the most that making an element again may cost, in additions
MIN_MATMULS_BETWEEN = (
    3  # products between the making of a value and its first reader in backward: a shorter life costs little
)
MAX_MATMULS_BETWEEN_READERS = (
    12  # products between its first reader and its last: a longer life would be that of a value kept
)
HEAVY_FAMILIES = ("contraction", "convolution", "attention")


class RematChain(NamedTuple):
    """The equations that make a value from what is kept, and from one more value, `anchor`, if that is not None."""

    anchor: Value | None
    equations: tuple[Value, ...]
    start: int  # position of the last of what they read


def rematerialize(graph: Graph, written: Iterable[Value]) -> Graph:
    """The graph in which backward reads copies of equations, made right before. `written`: inputs that are overwritten.

    The copies have an origin that says `again`, so that no kernel of the forward pass takes them in.
    """
    again = _RematPlan(graph, set(written)).again
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


class _RematPlan:
    """Which equations are made again: `again`, movements among them."""

    def __init__(self, graph: Graph, written: set[Value]) -> None:
        self.written = written
        self.position = {v: i for i, v in enumerate(graph.equations)}
        self.heavy_before = list(accumulate((v.op.family in HEAVY_FAMILIES for v in graph.equations), initial=0))
        self.free = _gradient_free_equations(graph)
        self.first: dict[Value, int] = {}  # the first of backward's readers, and the last
        self.last: dict[Value, int] = {}
        self.again: set[Value] = set()
        self._find_readers(graph)
        outputs = set(graph.outputs)
        self.wanted = {v for v in self.first if self._is_candidate(v) and v not in outputs}
        self.kept = self.first.keys() - self.wanted
        if sum(v.nbytes for v in self.wanted) >= MIN_TOTAL_SAVING_BYTES:
            self._choose()

    def _find_readers(self, graph: Graph) -> None:
        for i, v in enumerate(graph.equations):
            if _is_backward(v) and v not in self.free:
                for operand in v.operands:
                    base = _base_of(operand)
                    if base.op is not None and (not _is_backward(base) or base in self.free):
                        self.first.setdefault(base, i)
                        self.last[base] = i

    def _is_candidate(self, v: Value) -> bool:
        if (
            v.nbytes < MIN_REMAT_BYTES
            or is_view_or_generated(v)
            or not can_rematerialize(v)
            or (v.origin is not None and v.origin.again)
        ):
            return False
        return self.heavy_before[self.last[v]] - self.heavy_before[self.first[v]] <= MAX_MATMULS_BETWEEN_READERS

    def _choose(self) -> None:
        """Keep, again and again, the value that frees most; what is kept may make others at no cost."""
        gained, again = 0, set[Value]()
        while True:
            covers: dict[Value | None, list[tuple[Value, RematChain]]] = {}
            for value in self.wanted:
                for chain in self._chains(value):
                    covers.setdefault(chain.anchor, []).append((value, chain))
            gains = {a: self._saved_bytes(a, (v for v, _ in found)) for a, found in covers.items()}
            done = set[Value]()
            for anchor in sorted(gains, key=lambda a: (-gains[a], 0 if a is None else -self.position[a])):
                found = [(v, chain) for v, chain in covers[anchor] if v not in done and v is not anchor]
                gain = self._saved_bytes(anchor, (v for v, _ in found))
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
        if gained >= MIN_TOTAL_SAVING_BYTES:
            self.again = again - self.kept

    def _saved_bytes(self, anchor: Value | None, made: Iterable[Value]) -> int:
        kept = 0 if anchor is None or anchor in self.wanted else anchor.nbytes
        return sum(v.nbytes for v in made if v is not anchor) - kept

    def _chains(self, value: Value) -> list[RematChain]:
        """The ways to make a value from what is kept and at most one value more, the shortest first."""
        found: list[RematChain] = []
        equations: list[Value] = []
        start, cost = -1, 0
        heap = [(-self.position[value], value)]
        seen = {value}
        while True:
            if len(heap) <= 1:
                at = max(start, -heap[0][0] if heap else -1)
                if (
                    heap
                    and not is_view_or_generated(heap[0][1])
                    and heap[0][1] is not value
                    and self._is_worth_the_distance(value, at)
                ):
                    found.append(RematChain(heap[0][1], tuple(equations), at))
                elif not heap and self._is_worth_the_distance(value, at):
                    found.append(RematChain(None, tuple(equations), at))
            if not heap:
                return found
            _, v = heapq.heappop(heap)
            cost += 0 if is_view_or_generated(v) else OP_COSTS.get(v.op.name, DEFAULT_OP_COST)
            if not can_rematerialize(v) or cost > MAX_REMAT_COST or (v.origin is not None and v.origin.again):
                return found
            equations.append(v)
            for operand in v.operands:
                if operand in seen:
                    continue
                seen.add(operand)
                if operand.op is None:
                    if operand in self.written and operand.nbytes * MIN_SHRINK_FACTOR > value.nbytes:
                        return found
                elif operand in self.kept or (
                    not is_view_or_generated(operand) and operand.nbytes * MIN_SHRINK_FACTOR <= value.nbytes
                ):
                    start = max(start, self.position[operand])
                else:
                    heapq.heappush(heap, (-self.position[operand], operand))

    def _is_worth_the_distance(self, value: Value, start: int) -> bool:
        """True if much happens between the making of what a value is made from and its first reader in backward."""
        return start >= 0 and self.heavy_before[self.first[value]] - self.heavy_before[start] >= MIN_MATMULS_BETWEEN


def _gradient_free_equations(graph: Graph) -> set[Value]:
    """The elementwise equations of backward that read only what forward makes."""
    found: set[Value] = set()
    for v in graph.equations:
        early = all(x.op is None or not _is_backward(x) or x in found for x in v.operands)
        if early and _is_backward(v) and can_rematerialize(v) and not (v.origin and v.origin.again):
            found.add(v)
    return found


def _base_of(value: Value) -> Value:
    """What a moved value was moved from."""
    while value.op is not None and is_view_or_generated(value) and value.operands:
        value = value.operands[0]
    return value


def _is_backward(v: Value) -> bool:
    return v.origin is not None and v.origin.backward
