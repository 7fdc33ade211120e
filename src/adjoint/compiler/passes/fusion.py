"""Fusion: the groups of equations that are computed in one kernel each, with nothing stored between.

A kernel runs over one shape. An elementwise equation joins the kernel that makes its operands if it reads them at the
element being computed. A reduction joins the kernel over its operand's shape; an equation joins a reduction's kernel if
its shape is the result's, or if it reads the result at every element of the loop. An equation with a kernel of its own
kind, such as a matrix product, takes in the elementwise equations after it. All others are calls of their NumPy
function. Each group records why it begins, for `explain`.
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from dataclasses import dataclass, field
from math import prod
from operator import attrgetter
from typing import Any

from adjoint.compiler.ir.graph import Graph, Value
from adjoint.compiler.ir.strided_view import StridedView, strided_view_of
from adjoint.compiler.ir.symbolic_size import has_symbols, size_value
from adjoint.compiler.kernels.kernel_kinds import kernel_kind_of
from adjoint.compiler.passes.fusion_group import Group, describe_call, topological_order
from adjoint.compiler.passes.fusion_rules import (
    MAX_KERNEL_EQUATIONS,
    MAX_REDUCTIONS_OF_TURNS,
    GroupMap,
    Shape,
    have_one_line,
    is_reduced_shape,
    pass_flags,
)
from adjoint.compiler.passes.materialize import is_kernel_op, is_view_or_generated

MAX_ELEMENTS_TO_JOIN_UNRELATED = 4096  # of loops over one shape that are joined only to save a call
STORE_ALIGNMENT_BYTES = 64
# Of a product that the caller keeps, as it does a gradient: what follows a larger one reads and writes far memory, in
# rows as short as a block; apart from it, it reads the product once more, and all in the order of its memory.
MAX_KEPT_PRODUCT_BYTES = 1 << 19


@dataclass(frozen=True, eq=False)
class Fusion(GroupMap):
    """The plan of a graph's kernels: its groups, in `order` of execution.

    `placed_in_concat`: values stored in the memory of a concatenation, each with that and its first element there.
    `elided_concats`: the groups that have nothing left to copy for that reason. `spaces` and `memo` cache what is asked
    of a group; `memo` is kept on disk with the plan.
    """

    graph: Graph
    order: list[Group]
    placed_in_concat: dict[Value, tuple[Value, int]]
    elided_concats: set[Group]
    spaces: dict[Group, Any] = field(default_factory=dict)
    memo: dict[Hashable, Any] = field(default_factory=dict)


def fuse(graph: Graph, late: Set[Value] = frozenset(), precision: str = "highest") -> Fusion:
    """Group the equations of a graph into kernels and calls.

    `late`: equations to compute where their result is read. `precision`: of its products of float32 matrices.
    """
    grouping = _Grouping(graph, late, precision)
    return order_groups(graph, [*grouping.groups], grouping.values)


def order_groups(graph: Graph, groups: list[Group], values: GroupMap) -> Fusion:
    """The plan of a graph whose equations are in `groups`: their order, and what they store."""
    order = topological_order(groups)
    _mark_stored(graph, order, values)
    inside, elided = elide_concats(graph, order, values)
    for group in order:
        group.users.clear()  # of use until the order is known; with `needs` a cycle, which waits for the collector
    return Fusion(values.precision, values.views, values.maker, graph, order, inside, elided)


class _Grouping:
    """The groups of the equations seen so far."""

    def __init__(self, graph: Graph, late: Set[Value], precision: str) -> None:
        self.inlined = frozenset(late)
        self.outputs = frozenset(graph.outputs)
        self.values = GroupMap(precision, {v: StridedView.in_memory(v) for v in graph.inputs}, {})
        self.views, self.maker = self.values.views, self.values.maker
        self.groups: dict[Group, None] = {}  # in order, and quick to take one out
        self.loops_by_shape: dict[Shape, dict[Group, None]] = {}  # the kernels without a root
        self.last_draw: Group | None = None
        self.position = {value: i for i, value in enumerate(graph.equations)}
        for position, value in enumerate(graph.equations):
            strided_view_of(value, self.views)
            if not is_view_or_generated(value):
                self._assign_group(position, value)

    def _assign_group(self, position: int, value: Value) -> None:
        bases = self.values.bases_of(value)
        makers = {self.maker[b] for b in bases if b in self.maker}
        group = self._group_for(position, value, bases, makers)
        if group.shape is not None and value is not group.root:
            if value.op.combine:
                group.axes = value.params["axes"]
                group.reductions.append(value)
            elif is_reduced_shape(group, value.shape):
                group.reduced_values.add(value)
        group.equations.append(value)
        again, backward = pass_flags(value)
        group.rematerialized |= again
        group.backward &= backward
        makers.discard(group)
        if not makers <= group.needs:
            group.require(makers)
        if value.op.effect and value.op.family != "check":
            # draws come from one stream: none may overtake another
            if self.last_draw is not None:
                group.require([self.last_draw])
            self.last_draw = group
        self.maker[value] = group
        for other in sorted(makers, key=attrgetter("first")) if len(makers) > 1 else makers:
            if value in self.inlined and not self.inlined.issuperset(other.equations):
                continue  # not to where its operands are made
            if group.root is value and self._can_be_prologue(group, other):
                reason = group.reason
                self._merge(group, other)
                group.prologue += other.equations
                names = " ".join(v.op.name for v in other.equations)
                group.reason = f"{reason}; {names} computed as it is packed, which takes less time than to store it"
            elif self.values.can_merge(group, other):
                self._merge(group, other)
            elif self.values.can_merge(other, group):
                self._merge(other, group)
                group = other

    def _group_for(self, position: int, value: Value, bases: list[Value], makers: Set[Group]) -> Group:
        """The group that an equation joins, or a new one."""
        shape, reason = None, describe_call(value)
        kind = kernel_kind_of(value, self.views)
        source = self._producer_of_all(value) if value.op.name == "cat" else None
        if source is not None:
            source.concatenations.append(value)
            return source
        if kind is not None:
            shape, reason = value.shape, f"{value.op.name} has a kernel of its own kind"
        elif value in self.inlined:
            shape, reason = value.shape, f"{value.op.name} takes less time where it is read than to store"
        elif is_kernel_op(value):
            shape = value.operands[0].shape if value.op.combine else value.shape
            joined, reason = self._best_group(value, shape, bases, makers)
            if joined is not None:
                return joined
        is_large = value.op.family == "contraction" and size_value(value.nbytes) > MAX_KEPT_PRODUCT_BYTES
        rejects_epilogue = not (kind and kind.fuses_epilogue(value)) or (is_large and value in self.outputs)
        group = Group(shape, position, reason, value if kind else None, kind is not None and rejects_epilogue)
        self.groups[group] = None
        if shape is not None and kind is None:
            self.loops_by_shape.setdefault(shape, {})[group] = None
        return group

    def _producer_of_all(self, value: Value) -> Group | None:
        """The kernel of a product which makes all that `value` joins, and can store it where that has it."""
        groups = {self.maker.get(self.views[o].base) for o in value.operands}
        group = groups.pop() if len(groups) == 1 else None
        if group is None or group.root is None or group.rejects_epilogue or group.gate_width:
            return None
        whole = all(
            self.views[o] == StridedView.whole(o) and o.shape == group.shape and o.dtype == value.dtype
            for o in value.operands
        )
        fits = group.root.op.family == "contraction" and group.is_same_pass(*pass_flags(value))
        return group if whole and fits and len(group.equations) < MAX_KERNEL_EQUATIONS else None

    def _can_be_prologue(self, group: Group, other: Group) -> bool:
        """True if a product just begun can compute an operand as it packs it: all that another group makes."""
        root = group.root
        if root is None or other.call or not self.inlined.issuperset(other.equations):
            return False
        sides = [i for i, o in enumerate(root.operands) if self.maker.get(self.views[o].base) is other]
        alone = len(sides) == 1 and other.equations[-1] is self.views[root.operands[sides[0]]].base
        agrees = alone and group.is_same_pass(other.rematerialized, other.backward)
        return agrees and self.values.times_packed(root, sides[0], other.equations) > 0

    def _merge(self, group: Group, other: Group) -> None:
        """Make `other` a part of `group`."""
        for value in other.equations:
            self.maker[value] = group
        group.reduced_values |= (
            set(other.equations) if is_reduced_shape(group, other.shape or ()) else other.reduced_values
        )
        group.equations = sorted([*group.equations, *other.equations], key=self.position.__getitem__)
        if other.reductions:
            group.reductions = [v for v in group.equations if v.op.combine]
        group.axes = other.axes if group.axes is None else group.axes
        if other.first < group.first:
            group.first, group.reason = other.first, other.reason
        group.rematerialized |= other.rematerialized
        group.backward &= other.backward
        group.absorb(other)
        del self.groups[other]
        self.loops_by_shape.get(other.shape or (), {}).pop(other, None)

    def _best_group(
        self, value: Value, shape: Shape, bases: list[Value], makers: Set[Group]
    ) -> tuple[Group | None, str]:
        """The kernel to join, or why there is none."""
        reason = "it reads only inputs" if not makers else ""
        for group in sorted([g for g in makers if not g.call], key=attrgetter("first"), reverse=True):
            refusal = self.values.why_not_fused(group, value, shape)
            if refusal is None:
                return group, ""
            reason = reason or refusal
        if not reason:
            call = next(self.maker[b] for b in bases if b in self.maker)
            reason = f"its operand is made by a call ({call.equations[0].op.name})"
        if size_value(prod(shape)) <= MAX_ELEMENTS_TO_JOIN_UNRELATED:
            for group in reversed(self.loops_by_shape.get(shape, {})):
                full = len(group.equations) >= MAX_KERNEL_EQUATIONS
                if value.op.combine and len(group.reductions) >= MAX_REDUCTIONS_OF_TURNS:
                    apart = {b for v in group.equations for b in self.values.bases_of(v)}.isdisjoint(bases)
                    full |= apart and have_one_line(group.reductions, [value])
                if not full and self.values.why_not_fused(group, value, shape) is None:
                    return group, ""
        return None, reason


def _mark_stored(graph: Graph, order: list[Group], values: GroupMap) -> None:
    """Note with each group which of its values other groups and the caller read."""
    outputs = set(graph.outputs)
    read_elsewhere: set[Value] = set()
    maker = values.maker
    for group in order:
        for value in group.equations:
            read_elsewhere.update([b for b in values.bases_of(value) if b in maker and maker[b] is not group])
    for group in order:
        stores_all = group.call or group.rejects_epilogue
        group.stored.extend(
            v
            for v in group.equations
            if v in outputs or v in read_elsewhere or (stores_all and v not in group.prologue)
        )


def elide_concats(
    graph: Graph, order: list[Group], values: GroupMap
) -> tuple[dict[Value, tuple[Value, int]], set[Group]]:
    """Find concatenations whose operands can be stored where they would be copied to: one after another."""
    outputs = set(graph.outputs)
    inside: dict[Value, tuple[Value, int]] = {}
    elided: set[Group] = set()

    def can_be_placed(part: Value) -> bool:
        """True if a kernel stores a value that may lie anywhere."""
        maker = values.maker.get(part)
        if maker is None or maker.call or maker in elided or part in outputs or part in inside:
            return False
        # where it is of another size in each call, what follows would lie elsewhere in each
        return part in maker.stored and not has_symbols(part.shape) and part.nbytes % STORE_ALIGNMENT_BYTES == 0

    for group in order:
        whole = group.equations[0]
        if len(group.equations) > 1 or whole.op.name != "cat" or whole in outputs:
            continue
        parts = dict.fromkeys(whole.operands)
        one_after_another = prod(whole.shape[: whole.params["axis"]]) == 1 and len(parts) == len(whole.inputs)
        if one_after_another and all(part.dtype == whole.dtype and can_be_placed(part) for part in parts):
            elided.add(group)
            begins = 0
            for part in parts:
                inside[part] = whole, begins
                begins += part.size
    return inside, elided
