"""Groups: equations that run together, what they need, and an order in which they can run."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import keepdims_shape

Shape = tuple[int, ...]


class Group:
    """Equations that run together: a kernel over `shape`, or one call (`shape` None).

    A kernel of a `kind` has a `root`, a matrix product for instance, and computes that and what follows it elementwise.
    One with folds runs over the dimensions it keeps, and inside over the folded `axes`, as many times as folds wait
    for one another; `reduced_values` are the equations that have one element for each fold.

    Sets of groups are kept as bits of an integer too: `ids` are those of this group and of what was merged into it,
    `ancestors` the marks of all that it needs, directly or not.
    """

    __slots__ = (
        "rematerialized", "axes", "backward", "ancestors", "call", "rejects_epilogue", "equations", "first",
        "concatenations", "reduced_values", "ids", "needs", "prologue", "reason", "reductions", "root", "shape",
        "stored", "gate_width", "users",
    )  # fmt: skip
    TRANSIENT_SLOTS = ("needs", "users", "ids", "ancestors")  # told by the others

    def __init__(
        self, shape: Shape | None, first: int, reason: str, root: Value | None = None, closed: bool = False
    ) -> None:
        self.shape = shape
        self.root = root
        self.gate_width: int = (
            root.params.get("unit", 0) if root is not None else 0
        )  # columns of a part, if it has parts
        self.rejects_epilogue = closed  # nothing joins
        self.axes: Shape | None = None  # the folded dimensions, if there is a fold
        self.equations: list[Value] = []
        self.reductions: list[Value] = []
        self.reduced_values: set[Value] = set()
        self.concatenations: list[
            Value
        ] = []  # what joins the group's values to one: each of these is stored at its place
        self.prologue: list[Value] = []  # what gives an operand of the root, computed as that is read
        self.needs: set[Group] = set()
        self.users: set[Group] = set()  # the groups that need this one
        self.first = first  # position of the first equation in the graph, which no other group has
        self.ids = 1 << first
        self.ancestors = 0
        self.reason = reason
        self.stored: list[Value] = []
        self.call = shape is None
        self.rematerialized = False  # if any equation is computed again after the forward pass
        self.backward = True  # if all belong to the backward pass

    def __repr__(self) -> str:
        kind = "call" if self.call else "kernel"
        return f"<{kind} {' '.join(v.op.name for v in self.equations)}>"

    @property
    def keepdims_shape(self) -> Shape:
        """The shape of the folds' results, the folded dimensions as 1."""
        assert self.shape is not None
        return keepdims_shape(self.shape, self.axes)

    def has_gate_slices(self, shape: Shape) -> bool:
        """True if a value of this shape is one part of the root's columns, or several that follow one another."""
        own = self.shape
        return (
            self.gate_width > 0
            and own is not None
            and shape[:-1] == own[:-1]
            and 0 < shape[-1] <= own[-1]
            and shape[-1] % self.gate_width == 0
        )

    def require(self, others: Iterable[Group]) -> None:
        """Need these groups too."""
        marks = 0
        for other in others:
            self.needs.add(other)
            other.users.add(self)
            marks |= other.ids | other.ancestors
        self._add_ancestors(marks)

    def absorb(self, other: Group) -> None:
        """Stand for `other` too, in what it needs and where it is needed."""
        for need in other.needs:
            need.users.discard(other)
        for user in other.users:
            user.needs.discard(other)
        self.ids |= other.ids
        self.ancestors = (self.ancestors | other.ancestors) & ~self.ids
        self.require(other.needs - {self})
        for user in (self.users | other.users) - {self}:
            user.require([self])

    def _add_ancestors(self, marks: int) -> None:
        """Come after the groups of these marks, and with this group all that comes after it."""
        stack = [self]
        while stack:
            group = stack.pop()
            if marks & ~group.ancestors:
                group.ancestors |= marks
                stack.extend(group.users)

    def is_downstream_of(self, other: Group) -> bool:
        """True if this group needs `other`, directly or not."""
        return bool(self.ancestors & other.ids)

    def is_same_pass(self, again: bool, backward: bool) -> bool:
        """False if equations of the forward pass would come together with such as are computed again after it."""
        return not (self.rematerialized or again) or (self.backward and backward)


def topological_order(groups: list[Group]) -> list[Group]:
    """Groups so that each comes after what it needs: checks and their needs first, else as the program had them, but
    what little an early group needs of a late one does not hold it back.
    """
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

    wanted = _due_positions(groups, users)

    def priority(g: Group) -> tuple[int, int]:
        return (0 if g in urgent else 1, wanted[g])

    ready = [(*priority(g), i, g) for i, g in enumerate(groups) if not waiting[g]]
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


def _due_positions(groups: list[Group], users: dict[Group, list[Group]]) -> dict[Group, int]:
    """The position at which each group is wanted: its own, or that of the first of those which wait for it."""
    left = {g: len(users[g]) for g in groups}
    ready = [g for g in groups if not left[g]]
    wanted: dict[Group, int] = {}
    while ready:
        g = ready.pop()
        wanted[g] = min([g.first, *(wanted[u] for u in users[g])])
        for need in g.needs:
            left[need] -= 1
            if not left[need]:
                ready.append(need)
    return wanted


def describe_call(value: Value) -> str:
    """Return why an equation is a call of its own, and no part of a kernel."""
    if value.op.family == "check":
        return f"{value.op.name} looks at what a kernel has found"
    if value.op.family == "collective":
        return f"{value.op.name} is an exchange between ranks"
    if value.op.family == "boundary":
        return f"{value.op.name} keeps one shard's work apart"
    return f"{value.op.name} is computed by NumPy"
