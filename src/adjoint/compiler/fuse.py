"""Grouping equations into kernels: what shares an iteration space is computed in one loop nest, nothing stored between.

A kernel runs over one shape. An elementwise equation joins the kernel that makes its operands if it reads them at the
very element being computed; a reduction joins the kernel over its operand's shape and ends the loops over its axes. All
other equations are calls of their NumPy function. Why an equation begins a new kernel is written down for `explain`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from math import prod
from typing import Any

from adjoint.compiler.graph import Graph, Value
from adjoint.compiler.layout import is_kernel_op, is_virtual
from adjoint.compiler.view import View, view_of

Shape = tuple[int, ...]
SMALL = 4096  # elements up to which unrelated loops over one shape are joined, to save a call
MOST = 128  # equations in a kernel: LLVM's time grows faster than their number


class Group:
    """Equations that run together: a kernel over `shape`, or one call (`shape` None).

    Sets of groups are kept as bits of an integer too: `marks` are those of this group and of what was merged into it,
    `behind` the marks of all that it needs, directly or not.
    """

    __slots__ = (
        "again", "axes", "backward", "behind", "call", "equations", "first", "marks", "needs", "reason", "reductions",
        "shape", "stored", "users",
    )  # fmt: skip

    def __init__(self, shape: Shape | None, first: int, reason: str) -> None:
        self.shape = shape
        self.axes: Shape | None = None  # the reduced dimensions, if there is a reduction
        self.equations: list[Value] = []
        self.reductions: list[Value] = []
        self.needs: set[Group] = set()
        self.users: set[Group] = set()  # the groups that need this one
        self.first = first  # position of the first equation in the graph, which no other group has
        self.marks = 1 << first
        self.behind = 0
        self.reason = reason
        self.stored: list[Value] = []
        self.call = shape is None
        self.again = False  # if any equation is computed again after the forward pass
        self.backward = True  # if all belong to the backward pass

    def __repr__(self) -> str:
        kind = "call" if self.call else "kernel"
        return f"<{kind} {' '.join(v.op.name for v in self.equations)}>"

    def require(self, others: Iterable[Group]) -> None:
        """Need these groups too."""
        for other in others:
            self.needs.add(other)
            other.users.add(self)
            self._follow(other.marks | other.behind)

    def absorb(self, other: Group) -> None:
        """Stand for `other` too, in what it needs and where it is needed."""
        for need in other.needs:
            need.users.discard(other)
        for user in other.users:
            user.needs.discard(other)
        self.marks |= other.marks
        self.behind = (self.behind | other.behind) & ~self.marks
        self.require(other.needs - {self})
        for user in (self.users | other.users) - {self}:
            user.require([self])

    def _follow(self, marks: int) -> None:
        """Come after the groups of these marks, and with this group all that comes after it."""
        stack = [self]
        while stack:
            group = stack.pop()
            if marks & ~group.behind:
                group.behind |= marks
                stack.extend(group.users)

    def leads_back_to(self, other: Group) -> bool:
        """True if this group needs `other`, directly or not."""
        return bool(self.behind & other.marks)

    def agrees(self, again: bool, backward: bool) -> bool:
        """False if equations of the forward pass would come together with such as are computed again after it."""
        return not (self.again or again) or (self.backward and backward)


class Fusion:
    """The groups of a graph, in an order in which they can run."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.views: dict[Value, View] = {v: View.whole(v) for v in graph.inputs}
        self.maker: dict[Value, Group] = {}
        self.groups: list[Group] = []
        self._kernels: dict[Shape, list[Group]] = {}  # the groups that are kernels, by shape
        self.last_effect: Group | None = None  # the group of the last random draw
        self.position = {value: i for i, value in enumerate(graph.equations)}
        for position, value in enumerate(graph.equations):
            view_of(value, self.views)
            if not is_virtual(value):
                self._place(position, value)
        self.order = _ordered(self.groups)
        self._mark_stored()

    def _place(self, position: int, value: Value) -> None:
        group = self._group_for(position, value)
        if value.op.combine and not group.call:
            group.axes = value.params["axes"]
            group.reductions.append(value)
        group.equations.append(value)
        again, backward = _passes(value)
        group.again |= again
        group.backward &= backward
        makers = {self.maker[b] for b in self._bases(value) if b in self.maker} - {group}
        group.require(makers)
        if value.op.effect and value.op.family != "check":
            # draws come from one stream: none may overtake another
            if self.last_effect is not None:
                group.require([self.last_effect])
            self.last_effect = group
        self.maker[value] = group
        for other in sorted(makers, key=lambda g: g.first):
            if self._can_merge(group, other):
                self._merge(group, other)

    def _group_for(self, position: int, value: Value) -> Group:
        """The group that an equation joins, or a new one."""
        shape, reason = None, f"{value.op.name} is computed by NumPy"
        if is_kernel_op(value):
            shape = value.operands[0].shape if value.op.combine else value.shape
            joined, reason = self._best(value, shape)
            if joined is not None:
                return joined
        group = Group(shape, position, reason)
        self.groups.append(group)
        if shape is not None:
            self._kernels.setdefault(shape, []).append(group)
        return group

    def _can_merge(self, group: Group, other: Group) -> bool:
        """True if two kernels, which an equation has brought together, can be one."""
        if group.call or other.call or group.shape != other.shape or not group.agrees(other.again, other.backward):
            return False
        if None not in (group.axes, other.axes) and group.axes != other.axes:
            return False
        if len(group.equations) + len(other.equations) > MOST:
            return False
        between = (group.needs | other.needs) - {group, other}
        if any(g.leads_back_to(group) or g.leads_back_to(other) for g in between):
            return False
        return all(
            not view.base.op.combine and (aligned := align(view, group.shape or ())) is not None and aligned.is_linear
            for reader, maker in ((group, other), (other, group))
            for value in reader.equations
            for view in (self.views[operand] for operand in value.operands)
            if self.maker.get(view.base) is maker
        )

    def _merge(self, group: Group, other: Group) -> None:
        """Make `other` a part of `group`."""
        for value in other.equations:
            self.maker[value] = group
        group.equations = sorted([*group.equations, *other.equations], key=self.position.__getitem__)
        group.reductions = [v for v in group.equations if v.op.combine]
        group.axes = other.axes if group.axes is None else group.axes
        if other.first < group.first:
            group.first, group.reason = other.first, other.reason
        group.again |= other.again
        group.backward &= other.backward
        group.absorb(other)
        self.groups.remove(other)
        self._kernels[other.shape or ()].remove(other)

    def _bases(self, value: Value) -> list[Value]:
        """The values in memory that an equation reads, through views."""
        return [self.views[o].base if o in self.views else o for o in value.operands]

    def _best(self, value: Value, shape: Shape) -> tuple[Group | None, str]:
        """The kernel to join, or why there is none."""
        makers = [self.maker[b] for b in self._bases(value) if b in self.maker]
        reason = "it reads only inputs" if not makers else ""
        for group in sorted({g for g in makers if not g.call}, key=lambda g: -g.first):
            refusal = self.refusal(group, value, shape)
            if refusal is None:
                return group, ""
            reason = reason or refusal
        if not reason:
            reason = f"its operand is made by a call ({makers[0].equations[0].op.name})"
        if prod(shape) <= SMALL:
            for group in reversed(self._kernels.get(shape, [])):
                if len(group.equations) < MOST and self.refusal(group, value, shape) is None:
                    return group, ""
        return None, reason

    def refusal(self, group: Group, value: Value, shape: Shape) -> str | None:
        """Why `value` cannot join `group`; None if it can."""
        assert group.shape is not None
        name = value.op.name
        if not group.agrees(*_passes(value)):
            return f"{name} is computed again for the gradient, which the forward pass is to be over for"
        if value.op.combine:
            if group.shape != shape:
                return f"{name} runs over {list(shape)}, its operand's kernel over {list(group.shape)}"
            if group.axes is not None and group.axes != value.params["axes"]:
                return f"{name} folds axes {value.params['axes']}, its operand's kernel {group.axes}"
        elif prod(shape) != prod(group.shape):
            return f"{name} runs over {list(shape)}, its operand's kernel over {list(group.shape)}"
        for operand in value.operands:
            view = self.views[operand]
            aligned = align(view, group.shape)
            alike = shape == group.shape or _reads_alike(aligned, view.expand(shape).reshape(group.shape))
            if aligned is None or not alike:
                return f"{name} reads {list(view.shape)} in an order of its own"
            maker = self.maker.get(view.base)
            if maker is group:
                if view.base.op.combine:
                    return f"{name} needs the finished {view.base.op.name}"
                if not aligned.is_linear:
                    return f"{name} reads other elements of {view.base.op.name} than the one being computed"
            elif maker is not None and maker.leads_back_to(group):
                return f"{name} also needs what comes after its operand's kernel"
        return f"its operand's kernel has {MOST} equations already" if len(group.equations) >= MOST else None

    def _mark_stored(self) -> None:
        outputs = set(self.graph.outputs)
        for group in self.groups:
            for value in group.equations:
                if value in outputs or group.call or value.op.combine:
                    group.stored.append(value)
        read_elsewhere: set[Value] = set()
        for group in self.groups:
            for value in group.equations:
                read_elsewhere |= {b for b in self._bases(value) if self.maker.get(b) not in (None, group)}
        for group in self.groups:
            group.stored.extend(v for v in group.equations if v in read_elsewhere and v not in group.stored)


def align(view: View, shape: Shape) -> View | None:
    """The view read over an iteration space of `shape`: broadcast, or the same elements in another shape."""
    if view.shape == shape:
        return view
    if len(view.shape) <= len(shape) and all(
        a in (1, b) for a, b in zip(reversed(view.shape), reversed(shape), strict=False)
    ):
        return view.expand(shape)
    return view.reshape(shape) if prod(view.shape) == prod(shape) else None


def _reads_alike(view: View | None, other: View | None) -> bool:
    """True if both, of one shape and base, read the same elements in the same order."""
    return (
        view is not None
        and other is not None
        and view.offset == other.offset
        and all(n == 1 or a == b for n, a, b in zip(view.shape, view.strides, other.strides, strict=True))
    )


def _passes(value: Value) -> tuple[bool, bool]:
    """Whether an equation is computed again after the forward pass, and whether in the backward pass."""
    return (False, False) if value.origin is None else (value.origin.again, value.origin.backward)


def _ordered(groups: list[Group]) -> list[Group]:
    """Groups so that each comes after what it needs: checks and their needs first, else as the program had them."""
    urgent = {g for g in groups if g.call and g.equations[0].op.family == "check"}
    stack = list(urgent)
    while stack:
        fresh = stack.pop().needs - urgent
        urgent |= fresh
        stack.extend(fresh)
    users: dict[Group, list[Group]] = {g: [] for g in groups}
    waiting = {}
    for g in groups:
        waiting[g] = len(g.needs)
        for need in g.needs:
            users[need].append(g)

    def priority(g: Group) -> tuple[int, int]:
        return (0 if g in urgent else 1, g.first)

    ready: list[Any] = [(*priority(g), i, g) for i, g in enumerate(groups) if not waiting[g]]
    heapq.heapify(ready)
    numbers = {g: i for i, g in enumerate(groups)}
    order = []
    while ready:
        g = heapq.heappop(ready)[-1]
        order.append(g)
        for user in users[g]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (*priority(user), numbers[user], user))
    assert len(order) == len(groups), "the groups depend on one another in a circle"
    return order
