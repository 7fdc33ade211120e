"""Rematerialisation: values of the forward pass that backward computes again from less memory.

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
from adjoint.compiler.passes import cost_model
from adjoint.compiler.passes.cost_model import can_rematerialize, is_much_smaller, recompute_cost
from adjoint.compiler.passes.materialize import is_view_or_generated


class RematChain(NamedTuple):
    """The equations that make a value from what is kept, and from one more value, `anchor`, if that is not None."""

    anchor: Value | None
    equations: tuple[Value, ...]
    start: int  # position of the last of what they read


def rematerialize(graph: Graph, written: Iterable[Value]) -> Graph:
    """The graph in which backward reads copies of equations, made right before. `written`: inputs that are overwritten.

    The copies have an origin that says so, so that no kernel of the forward pass takes them in.
    """
    again = plan_rematerialization(graph, written)
    if not again:
        return graph
    out = Graph(graph.name, graph.sizes)
    out.inputs = graph.inputs
    renamed: dict[Value, Value] = {v: v for v in graph.inputs}
    copies: dict[Value, Value] = {}

    def copy(value: Value) -> Value:
        if value not in again:
            return renamed[value]
        if value not in copies:
            origin = value.origin and value.origin._replace(backward=True, rematerialized=True)
            copies[value] = out.add_like(value, copy, origin)
        return copies[value]

    for v in graph.equations:
        renamed[v] = out.add_like(v, copy if _is_backward(v) and v not in again else renamed.__getitem__)
    out.outputs = [renamed[v] for v in graph.outputs]
    return out


def plan_rematerialization(graph: Graph, written: Iterable[Value]) -> frozenset[Value]:
    """Choose the equations that backward computes again, movements among them. `written`: inputs overwritten."""
    return frozenset(_RematChooser(graph, set(written)).choose())


class _RematChooser:
    """The candidates of a graph, and what is kept so far."""

    def __init__(self, graph: Graph, written: set[Value]) -> None:
        self.written = written
        self.position = {v: i for i, v in enumerate(graph.equations)}
        heavy = cost_model.HEAVY_FAMILIES
        self.heavy_before = list(accumulate((v.op.family in heavy for v in graph.equations), initial=0))
        self.free = _gradient_free_equations(graph)
        self.first: dict[Value, int] = {}  # the first of backward's readers, and the last
        self.last: dict[Value, int] = {}
        self._find_readers(graph)
        outputs = set(graph.outputs)
        self.candidates = {v for v in self.first if self._is_candidate(v) and v not in outputs}
        self.saved_values = self.first.keys() - self.candidates

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
            v.nbytes < cost_model.MIN_REMAT_BYTES
            or is_view_or_generated(v)
            or not can_rematerialize(v)
            or (v.origin is not None and v.origin.rematerialized)
        ):
            return False
        matmuls = self.heavy_before[self.last[v]] - self.heavy_before[self.first[v]]
        return matmuls <= cost_model.MAX_MATMULS_BETWEEN_READERS

    def choose(self) -> set[Value]:
        """Keep, again and again, the value that frees most; what is kept may make others at no cost."""
        gained, again = 0, set[Value]()
        if sum(v.nbytes for v in self.candidates) < cost_model.MIN_TOTAL_SAVING_BYTES:
            return again
        # The latest value of the frontier is replaced by its operands until one is left: then the equations so far make
        # the value from that one alone. Each such moment is a way; a later one costs more and reaches further back.
        while True:
            covers: dict[Value | None, list[tuple[Value, RematChain]]] = {}
            for value in self.candidates:
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
                    self.saved_values.add(anchor)
                    done.add(anchor)
            if not done:
                break
            self.candidates -= done
        return again - self.saved_values if gained >= cost_model.MIN_TOTAL_SAVING_BYTES else set()

    def _saved_bytes(self, anchor: Value | None, made: Iterable[Value]) -> int:
        kept = 0 if anchor is None or anchor in self.candidates else anchor.nbytes
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
                anchor = heap[0][1] if heap else None
                can_anchor = anchor is None or (anchor is not value and not is_view_or_generated(anchor))
                # much must happen between the making of what it is made from and its first reader in backward
                matmuls = self.heavy_before[self.first[value]] - self.heavy_before[at]
                if can_anchor and at >= 0 and matmuls >= cost_model.MIN_MATMULS_BETWEEN:
                    found.append(RematChain(anchor, tuple(equations), at))
            if not heap:
                return found
            _, v = heapq.heappop(heap)
            cost += recompute_cost(v)
            is_copy = v.origin is not None and v.origin.rematerialized
            if is_copy or not can_rematerialize(v) or cost > cost_model.MAX_REMAT_COST:
                return found
            equations.append(v)
            for operand in v.operands:
                if operand in seen:
                    continue
                seen.add(operand)
                if operand.op is None:
                    if operand in self.written and not is_much_smaller(operand, value):
                        return found
                elif operand in self.saved_values or (
                    not is_view_or_generated(operand) and is_much_smaller(operand, value)
                ):
                    start = max(start, self.position[operand])
                else:
                    heapq.heappush(heap, (-self.position[operand], operand))


def _gradient_free_equations(graph: Graph) -> set[Value]:
    """The elementwise equations of backward that read only what forward makes."""
    found: set[Value] = set()
    for v in graph.equations:
        early = all(x.op is None or not _is_backward(x) or x in found for x in v.operands)
        if early and _is_backward(v) and can_rematerialize(v) and not (v.origin and v.origin.rematerialized):
            found.add(v)
    return found


def _base_of(value: Value) -> Value:
    """Return the value that a moved value was moved from."""
    while value.op is not None and is_view_or_generated(value) and value.operands:
        value = value.operands[0]
    return value


def _is_backward(v: Value) -> bool:
    return v.origin is not None and v.origin.backward
