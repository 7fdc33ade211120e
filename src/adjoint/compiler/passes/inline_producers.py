"""Inlining of producers: cheap values are computed by each kernel that reads them, instead of being stored.

Memory costs more than a few operations. A value is inlined if computing it takes little arithmetic on values that lie
in memory anyway. Examples are the mask of a gradient, and a normalised value, made from its input, mean and deviation.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import prod
from typing import NamedTuple

from adjoint.compiler.ir.graph import Graph, Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.passes.cost_model import MAX_INLINED_EQUATIONS, is_cheap, is_free_read, is_inlining_cheaper
from adjoint.compiler.passes.fusion import Fusion, fuse
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.fusion_rules import MAX_KERNEL_EQUATIONS
from adjoint.compiler.passes.materialize import is_generated, is_view_or_generated
from adjoint.compiler.passes.regrouping import regroup
from adjoint.compiler.passes.simplify import eliminate_dead_code

MIN_EQUATIONS_TO_REGROUP = 2048  # from which on groups take in what they read, and are not sought again
ReadsByGroup = dict[Value, dict[Group, list[StridedView]]]


class InlinedGraph(NamedTuple):
    """A graph with copies of equations for their readers, and which these are; its groups, where they are known."""

    graph: Graph
    inlined: set[Value]
    fusion: Fusion | None = None


def inline_producers(graph: Graph, written: Iterable[Value], precision: str = "highest") -> InlinedGraph:
    """The graph in which cheap values are computed where they are read. `written`: inputs that the step overwrites."""
    fusion = fuse(graph, precision=precision)
    chosen = plan_inlining(fusion, written)
    return _copy_for_readers(fusion, chosen) if chosen else InlinedGraph(graph, set(), fusion)


def plan_inlining(fusion: Fusion, written: Iterable[Value]) -> dict[Value, list[Value]]:
    """Choose the stored values to compute where they are read, each with the equations that it takes."""
    return _InlineChooser(fusion, set(written)).choose()


class _InlineChooser:
    """The readers of a graph's stored values, and the values chosen so far."""

    def __init__(self, fusion: Fusion, written: set[Value]) -> None:
        self.fusion, self.written = fusion, written
        self.readers = _reads_by_group(fusion)
        self.outputs = set(fusion.graph.outputs)
        self.chosen: dict[Value, list[Value]] = {}

    def choose(self) -> dict[Value, list[Value]]:
        """Take the equations in order: a value chosen is memory for none of those after it."""
        for value in self.fusion.graph.equations:
            chain = None if is_view_or_generated(value) else self._chain_of(value)
            if chain is not None:
                self.chosen[value] = chain
        return self.chosen

    def _chain_of(self, value: Value) -> list[Value] | None:
        """The equations, operands first, that give a stored value from memory; None if it is to be stored."""
        group = self.fusion.maker[value]
        if group.call or value not in group.stored or value in self.outputs or not is_cheap(value):
            return None
        readers = [g for g in self.readers.get(value, {}) if g is not group]
        if not readers or not all(self._can_compute(g, value) for g in readers):
            return None
        chain: list[Value] = []
        leaves: set[Value] = set()
        if not self._collect(value, value, chain, leaves) or not all(
            self._times_computed(g, value, chain) for g in readers
        ):
            return None
        saved, times = value.nbytes, 0
        for reader in readers:
            if len(reader.equations) + len(chain) > MAX_KERNEL_EQUATIONS:
                return None
            count = self._times_computed(reader, value, chain)
            read = sum(leaf.nbytes for leaf in leaves if reader not in self.readers.get(leaf, {}))
            saved += count * (value.nbytes - read)
            times += count - 1
        return chain if is_inlining_cheaper(saved, value, len(chain), times) else None

    def _can_compute(self, reader: Group, value: Value) -> bool:
        """True if a group reads a value element by element where it computes."""
        if (
            reader.call
            or reader.shape is None
            or (reader.rematerialized and not (value.origin and value.origin.backward))
        ):
            return False
        views = self.readers[value][reader]
        if reader.gate_width:
            return False
        if self._operand_index(reader, value) is not None:
            return len(views) == 1
        return all(
            value.size == prod(reader.shape) and (seen := v.reshape(reader.shape)) is not None and seen.is_linear
            for v in views
        )

    def _operand_index(self, reader: Group, value: Value) -> int | None:
        """Return the position of a value among the operands of a kernel's root; None if it is none."""
        operands = reader.root.operands if reader.root is not None else ()
        return next((i for i, o in enumerate(operands) if self.fusion.views[o].base is value), None)

    def _times_computed(self, reader: Group, value: Value, chain: list[Value]) -> int:
        """Count how often a reader would compute each element: a product each time it packs it; 0 if it cannot."""
        side = self._operand_index(reader, value)
        return 1 if side is None or reader.root is None else self.fusion.times_packed(reader.root, side, chain)

    def _collect(self, value: Value, root: Value, chain: list[Value], leaves: set[Value]) -> bool:
        """Add what computes `value`, and the memory it reads; False if that is too much."""
        if value in chain:
            return True
        for operand in value.operands:
            view = self.fusion.views[operand]
            base = view.base
            if is_generated(base):
                continue
            if self._is_in_memory(base) or is_free_read(base, root):
                leaves.add(base)
                continue
            alike = base.op is not None and view.is_linear and base.shape == value.shape
            if not (alike and is_cheap(base) and self._collect(base, root, chain, leaves)):
                return False
        chain.append(value)
        return len(chain) <= MAX_INLINED_EQUATIONS

    def _is_in_memory(self, base: Value) -> bool:
        """True if a value lies in memory whatever is decided here."""
        if base.op is None:
            return base not in self.written
        maker = self.fusion.maker[base]
        return base in maker.stored and base not in self.chosen


def _reads_by_group(fusion: Fusion) -> ReadsByGroup:
    readers: ReadsByGroup = {}
    for group in fusion.order:
        for equation in group.equations:
            for operand in equation.operands:
                view = fusion.views[operand]
                readers.setdefault(view.base, {}).setdefault(group, []).append(view)
    return readers


def _copy_for_readers(fusion: Fusion, chosen: dict[Value, list[Value]]) -> InlinedGraph:
    """The graph in which each group that reads a chosen value has its own copy of the equations that give it."""
    graph, copier = fusion.graph, _ProducerCopier(fusion, chosen)
    out, renamed = copier.out, copier.renamed
    for v in graph.equations:
        renamed[v] = out.add_like(v, partial(copier.resolve_operand, group=fusion.maker.get(v)))
    out.outputs = [renamed[v] for v in graph.outputs]
    out = eliminate_dead_code(out)
    regrouped = None
    if len(graph.equations) >= MIN_EQUATIONS_TO_REGROUP:
        owners = {renamed[v]: group for v, group in fusion.maker.items()}
        owners.update({copy: group for (group, _), copy in copier.copies.items()})
        regrouped = regroup(fusion, out, owners, renamed)
    return InlinedGraph(out, copier.late & set(out.equations), regrouped)


class _ProducerCopier:
    """The new graph with what has become of each value, and the copies that groups have: `late` are the chosen ones."""

    def __init__(self, fusion: Fusion, chosen: dict[Value, list[Value]]) -> None:
        self.fusion, self.chosen = fusion, chosen
        self.out = Graph(fusion.graph.name, fusion.graph.sizes)
        self.out.inputs = fusion.graph.inputs
        self.renamed: dict[Value, Value] = {v: v for v in fusion.graph.inputs}
        self.copies: dict[tuple[Group, Value], Value] = {}
        self.late: set[Value] = set()

    def resolve_operand(self, value: Value, group: Group | None) -> Value:
        """Return the value that stands for an operand in a group's equations."""
        view, copies = self.fusion.views[value], self.copies
        if group is None or view.base not in self.chosen or self.fusion.maker[view.base] is group:
            return self.renamed[value]
        if value is not view.base:  # moved: the movement is copied too
            key = group, value
            if key not in copies:
                copies[key] = self.out.add_like(value, partial(self.resolve_operand, group=group))
            return copies[key]
        for each in self.chosen[value]:
            key = group, each
            if key not in copies:
                copies[key] = self.out.add_like(each, partial(self._resolve_in_copy, group=group))
                self.late.add(copies[key])
        return copies[group, value]

    def _resolve_in_copy(self, value: Value, group: Group) -> Value:
        base = self.fusion.views[value].base
        if (group, base) in self.copies and value is base:
            return self.copies[group, base]
        if base in self.chosen or (group, base) in self.copies:
            return self.resolve_operand(value, group)
        return self.renamed[value]
