"""The groups of a long program after inlining: each takes in the copies that it reads.

To look for the groups once more takes as long as the first time, and finds the same: a copy reads what lies in memory,
at the element that its reader computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from adjoint.compiler.ir.graph import Graph, Value
from adjoint.compiler.ir.strided_view import StridedView, strided_view_of, view_over
from adjoint.compiler.passes.fusion import Fusion, order_groups
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.fusion_rules import MAX_KERNEL_EQUATIONS, GroupMap, pass_flags
from adjoint.compiler.passes.materialize import is_view_or_generated


def regroup(
    fusion: Fusion, graph: Graph, owners: Mapping[Value, Group], renamed: Mapping[Value, Value]
) -> Fusion | None:
    """Return the plan of a graph of the equations of `fusion`, and of copies of some in the groups that read them.

    `owners`: the former group of each equation, or that which reads the copy; `renamed`: the equations of the former
    graph in the new one. None where a group cannot take in a copy.
    """
    values = GroupMap(fusion.precision, {v: StridedView.in_memory(v) for v in graph.inputs}, {})
    former_values, alive = set(renamed.values()), set(graph.equations)
    made: dict[Group, Group] = {}
    grown: set[Group] = set()
    last_draw: Group | None = None
    for position, value in enumerate(graph.equations):
        strided_view_of(value, values.views)
        if is_view_or_generated(value):
            continue
        former = owners[value]
        group = made.get(former) or made.setdefault(former, _make_like(former, position, renamed, alive))
        bases = [b for b in values.bases_of(value) if b in values.maker]
        # A copy is computed where it is read, so its group must be able to compute it, and from memory alone.
        if value not in former_values:
            if not _can_take_in(group, value, values) or any(
                values.maker[b] is group and b in former_values for b in bases
            ):
                return None
            if not group.equations:
                group.reason = f"{value.op.name} takes less time where it is read than to store"
            grown.add(group)
        elif value is group.root and not former_values.issuperset(bases):
            return None  # it could compute them as it packs them
        group.equations.append(value)
        if value.op.combine:
            group.reductions.append(value)
        again, backward = pass_flags(value)
        group.rematerialized |= again
        group.backward &= backward
        group.require({values.maker[b] for b in bases if values.maker[b] is not group} - group.needs)
        # Draws of random numbers stay in the program's order: each moves the generator on.
        if value.op.effect and value.op.family != "check":
            if last_draw is not None and last_draw is not group:
                group.require([last_draw])
            last_draw = group
        values.maker[value] = group
    if any(len(g.equations) > MAX_KERNEL_EQUATIONS or not g.is_same_pass(g.rematerialized, g.backward) for g in grown):
        return None
    return order_groups(graph, [*made.values()], values)


def _make_like(former: Group, position: int, renamed: Mapping[Value, Value], alive: Set[Value]) -> Group:
    """A group of the same kind for the same equations, which are still to come."""
    root = None if former.root is None else renamed[former.root]
    group = Group(former.shape, position, former.reason, root, former.rejects_epilogue)
    group.axes = former.axes
    group.reduced_values = {renamed[v] for v in former.reduced_values} & alive
    group.concatenations = [renamed[v] for v in former.concatenations]
    group.prologue = [renamed[v] for v in former.prologue]
    return group


def _can_take_in(group: Group, value: Value, values: GroupMap) -> bool:
    """True if a group can compute a copy at each of its elements."""
    if group.shape is None or group.rejects_epilogue or group.concatenations or group.prologue or group.gate_width:
        return False
    return value.shape == group.shape or all(
        view_over(values.views[operand], value.shape, group.shape) is not None for operand in value.operands
    )
