"""Grouping equations into kernels: what shares an iteration space is computed in one kernel, nothing stored between.

A kernel runs over one shape. An elementwise equation joins the kernel that makes its operands if it reads them at the
very element being computed; a fold joins the kernel over its operand's shape, and what has one element for each of its
results, or needs them at each element, joins too. An equation with a kernel of its own kind, a matrix product for
instance, takes in what is elementwise after it. All others are calls of their NumPy function. Why an equation begins a
new kernel is written down for `explain`.
"""

from __future__ import annotations

from collections.abc import Set
from math import prod
from typing import Any

from adjoint.compiler.ir.graph import Graph, Value
from adjoint.compiler.ir.strided_view import (
    StridedView,
    indexes_reduction_result,
    iteration_shape,
    keepdims_shape,
    strided_view_of,
    view_over,
)
from adjoint.compiler.kernels.kernel_kinds import kernel_kind_of
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.fusion_group import Group, topological_order
from adjoint.compiler.passes.materialize import is_kernel_op, is_view_or_generated
from adjoint.core.dtype.dtype import is_bfloat16

Shape = tuple[int, ...]
MAX_ELEMENTS_TO_JOIN_UNRELATED = 4096  # elements up to which unrelated loops over one shape are joined, to save a call
MAX_KERNEL_EQUATIONS = 128  # equations in a kernel: LLVM's time grows faster than their number
STORE_ALIGNMENT_BYTES = 64  # bytes: what is stored begins at a multiple of them
MAX_ELEMENTS_AFTER_FULL_REDUCTION = (
    1 << 15
)  # elements up to which what waits for a fold over all of them is in the kernel of the fold


class Fusion:
    """The groups of a graph, in an order in which they can run. `late`: what is to be computed where it is read.

    `precision`: of its products of float32 matrices.
    """

    def __init__(self, graph: Graph, late: Set[Value] = frozenset(), precision: str = "highest") -> None:
        self.graph, self.late, self.precision = graph, late, precision
        self.views: dict[Value, StridedView] = {v: StridedView.whole(v) for v in graph.inputs}
        self.maker: dict[Value, Group] = {}
        self.groups: list[Group] = []
        self.spaces: dict[Group, Any] = {}  # the iteration space of each loop nest, once it was asked for
        self.memo: dict[Any, Any] = {}  # what else was asked of a group, and is kept with the plan
        self._kernels: dict[Shape, list[Group]] = {}  # the groups that are kernels, by shape
        self.last_effect: Group | None = None  # the group of the last random draw
        self.position = {value: i for i, value in enumerate(graph.equations)}
        for position, value in enumerate(graph.equations):
            strided_view_of(value, self.views)
            if not is_view_or_generated(value):
                self._assign_group(position, value)
        self.order = topological_order(self.groups)
        self._mark_stored()
        self.inside: dict[Value, tuple[Value, int]] = {}  # what is stored in the memory of what joins it, from where on
        self.elided_concats: set[Group] = set()  # the groups that have nothing to copy for that reason
        self._elide_concats()

    def _assign_group(self, position: int, value: Value) -> None:
        group = self._group_for(position, value)
        if group.shape is not None and value is not group.root:
            if value.op.combine:
                group.axes = value.params["axes"]
                group.reductions.append(value)
            elif is_reduced_shape(group, value.shape):
                group.kept.add(value)
        group.equations.append(value)
        again, backward = _pass_flags(value)
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
            if value in self.late and not self.late >= set(other.equations):
                continue  # not to where its operands are made
            if self._can_be_prologue(group, other):
                reason = group.reason
                self._merge(group, other)
                group.prologue += other.equations
                names = " ".join(v.op.name for v in other.equations)
                group.reason = f"{reason}; {names} computed as it is packed, which takes less time than to store it"
            elif self._can_merge(group, other):
                self._merge(group, other)
            elif self._can_merge(other, group):
                self._merge(other, group)
                group = other

    def _group_for(self, position: int, value: Value) -> Group:
        """The group that an equation joins, or a new one."""
        shape, reason = None, f"{value.op.name} is computed by NumPy"
        if value.op.family == "check":
            reason = f"{value.op.name} looks at what a kernel has found"
        kind = kernel_kind_of(value, self.views)
        source = self._producer_of_all(value) if value.op.name == "cat" else None
        if source is not None:
            source.concatenations.append(value)
            return source
        if kind is not None:
            shape, reason = value.shape, f"{value.op.name} has a kernel of its own kind"
        elif value in self.late:
            shape, reason = value.shape, f"{value.op.name} takes less time where it is read than to store"
        elif is_kernel_op(value):
            shape = value.operands[0].shape if value.op.combine else value.shape
            joined, reason = self._best_group(value, shape)
            if joined is not None:
                return joined
        group = Group(
            shape,
            position,
            reason,
            None if kind is None else value,
            kind is not None and not kind.fuses_epilogue(value),
        )
        self.groups.append(group)
        if shape is not None:
            self._kernels.setdefault(shape, []).append(group)
        return group

    def _producer_of_all(self, value: Value) -> Group | None:
        """The kernel of a product which makes all that `value` joins, and can store it where that has it."""
        groups = {self.maker.get(self.views[o].base) for o in value.operands}
        group = groups.pop() if len(groups) == 1 else None
        if group is None or group.root is None or group.closed or group.unit:
            return None
        whole = all(
            self.views[o] == StridedView.whole(o) and o.shape == group.shape and o.dtype == value.dtype
            for o in value.operands
        )
        fits = group.root.op.family == "contraction" and group.is_same_pass(*_pass_flags(value))
        return group if whole and fits and len(group.equations) < MAX_KERNEL_EQUATIONS else None

    def _can_be_prologue(self, group: Group, other: Group) -> bool:
        """True if a product just begun can compute an operand as it packs it: all that another group makes."""
        root = group.root
        if root is None or group.equations[-1] is not root or other.call or not self.late >= set(other.equations):
            return False
        sides = [i for i, o in enumerate(root.operands) if self.maker.get(self.views[o].base) is other]
        alone = len(sides) == 1 and other.equations[-1] is self.views[root.operands[sides[0]]].base
        agrees = alone and group.is_same_pass(other.again, other.backward)
        return agrees and self.times_packed(root, sides[0], other.equations) > 0

    def times_packed(self, root: Value, side: int, equations: list[Value]) -> int:
        """How often a product would compute an operand, which equations give, as it packs it; 0: not at all."""
        if root.op.name not in ("mm", "bmm"):
            return 0
        from adjoint.compiler.kernels.matmul.packed_operand import count_packings, is_readable

        views = [self.views[o] for o in root.operands]
        if not is_readable(equations, self.views, views[side]):
            return 0
        return count_packings(root, views, side, host(), self.precision_of(root))

    def precision_of(self, root: Value) -> str:
        """How precise a product must be: where both of its operands are bfloat16, rounding them takes nothing away."""
        return "medium" if all(_is_upcast_bfloat16(self.views[o].base) for o in root.operands) else self.precision

    def _can_merge(self, group: Group, other: Group) -> bool:
        """True if a kernel can take in another, with which an equation has brought it together."""
        if group.call or other.call or other.root is not None or not group.is_same_pass(other.again, other.backward):
            return False
        assert group.shape is not None
        assert other.shape is not None
        if group.closed or group.unit or group.concatenations or other.concatenations:
            return False
        if group.root is not None and (other.axes is not None or other in map(self.maker.get, self._bases(group.root))):
            return False
        small = is_reduced_shape(group, other.shape)
        if None not in (group.axes, other.axes) and (small or group.axes != other.axes):
            return False
        if other.shape != group.shape and not self._can_run_over(other, group.keepdims_shape if small else group.shape):
            return False
        if len(group.equations) + len(other.equations) > MAX_KERNEL_EQUATIONS:
            return False
        between = (group.needs | other.needs) - {group, other}
        if any(g.is_downstream_of(group) or g.is_downstream_of(other) for g in between):
            return False
        axes = group.axes if other.axes is None else other.axes
        kept = group.kept | other.kept | (set(other.equations) if small else set())
        apart = {group.root, *group.prologue}
        return all(
            _access_mismatch(view, value, group.shape, axes, value in kept, view.base in kept or view.base.op.combine)
            is None
            for value in (*group.equations, *other.equations)
            if value not in apart
            for view in (self.views[operand] for operand in value.operands)
            if self.maker.get(view.base) in (group, other)
        )

    def _can_run_over(self, group: Group, space: Shape) -> bool:
        """True if a kernel without folds can run over another shape."""
        return (
            group.axes is None
            and prod(group.shape or ()) == prod(space)
            and all(view_over(self.views[o], v.shape, space) is not None for v in group.equations for o in v.operands)
        )

    def _merge(self, group: Group, other: Group) -> None:
        """Make `other` a part of `group`."""
        for value in other.equations:
            self.maker[value] = group
        group.kept |= set(other.equations) if is_reduced_shape(group, other.shape or ()) else other.kept
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

    def _best_group(self, value: Value, shape: Shape) -> tuple[Group | None, str]:
        """The kernel to join, or why there is none."""
        makers = [self.maker[b] for b in self._bases(value) if b in self.maker]
        reason = "it reads only inputs" if not makers else ""
        for group in sorted({g for g in makers if not g.call}, key=lambda g: -g.first):
            refusal = self.why_not_fused(group, value, shape)
            if refusal is None:
                return group, ""
            reason = reason or refusal
        if not reason:
            reason = f"its operand is made by a call ({makers[0].equations[0].op.name})"
        if prod(shape) <= MAX_ELEMENTS_TO_JOIN_UNRELATED:
            for group in reversed(self._kernels.get(shape, [])):
                if (
                    group.root is None
                    and len(group.equations) < MAX_KERNEL_EQUATIONS
                    and self.why_not_fused(group, value, shape) is None
                ):
                    return group, ""
        return None, reason

    def why_not_fused(self, group: Group, value: Value, shape: Shape) -> str | None:
        """Why `value` cannot join `group`; None if it can."""
        assert group.shape is not None
        name, axes = value.op.name, group.axes
        if not group.is_same_pass(*_pass_flags(value)):
            return f"{name} is computed again for the gradient, which the forward pass is to be over for"
        if group.closed:
            return f"{name} reads what {group.equations[0].op.name} has stored"
        kept = not value.op.combine and is_reduced_shape(group, shape)
        parts = group.has_gate_slices(shape)
        if value.op.combine:
            if group.root is not None:
                return f"{name} folds what {group.root.op.name} makes block by block"
            if group.shape != shape:
                return f"{name} runs over {list(shape)}, its operand's kernel over {list(group.shape)}"
            axes = value.params["axes"]
            if group.axes is not None and group.axes != axes:
                return f"{name} folds axes {axes}, its operand's kernel {group.axes}"
        elif not kept and not parts and prod(shape) != prod(group.shape):
            return f"{name} runs over {list(shape)}, its operand's kernel over {list(group.shape)}"
        space = group.keepdims_shape if kept else shape if parts else group.shape
        for operand in value.operands:
            view = self.views[operand]
            if view_over(view, shape, space) is None:
                return f"{name} reads {list(view.shape)} in an order of its own"
            maker = self.maker.get(view.base)
            if view.base in group.concatenations or view.base in group.prologue:
                return f"{name} reads other elements of {view.base.op.name} than the ones being computed"
            if maker is group and group.unit:
                if not (parts and _are_gate_slices(view.expand(shape), group.unit)):
                    return f"{name} reads other elements of {view.base.op.name} than the ones being computed"
            elif maker is group:
                folded = view.base in group.kept or view.base.op.combine
                misread = _access_mismatch(view, value, group.shape, axes, kept, folded)
                if misread:
                    return misread
            elif maker is not None and maker.is_downstream_of(group):
                return f"{name} also needs what comes after its operand's kernel"
        return (
            f"its operand's kernel has {MAX_KERNEL_EQUATIONS} equations already"
            if len(group.equations) >= MAX_KERNEL_EQUATIONS
            else None
        )

    def _mark_stored(self) -> None:
        outputs = set(self.graph.outputs)
        read_elsewhere: set[Value] = set()
        for group in self.groups:
            for value in group.equations:
                read_elsewhere |= {b for b in self._bases(value) if self.maker.get(b) not in (None, group)}
        for group in self.groups:
            entire = group.call or group.closed  # these store what they make, wanted or not
            group.stored.extend(v for v in group.equations if v in outputs or v in read_elsewhere or entire)

    def _elide_concats(self) -> None:
        """Find what joins values that can be stored at their place in it: one after another in memory."""
        outputs = set(self.graph.outputs)
        for group in self.order:
            whole = group.equations[0]
            if len(group.equations) > 1 or whole.op.name != "cat" or whole in outputs:
                continue
            parts = dict.fromkeys(whole.operands)
            one_after_another = prod(whole.shape[: whole.params["axis"]]) == 1 and len(parts) == len(whole.inputs)
            alike = all(part.dtype == whole.dtype for part in parts)
            if one_after_another and alike and all(self._can_be_placed_in_concat(part, outputs) for part in parts):
                self.elided_concats.add(group)
                begins = 0
                for part in parts:
                    self.inside[part] = whole, begins
                    begins += part.size

    def _can_be_placed_in_concat(self, part: Value, outputs: set[Value]) -> bool:
        """True if a kernel stores a value that may lie anywhere."""
        maker = self.maker.get(part)
        free = part not in outputs and part not in self.inside and maker not in self.elided_concats
        return (
            free
            and maker is not None
            and not maker.call
            and part in maker.stored
            and part.nbytes % STORE_ALIGNMENT_BYTES == 0
        )


def is_reduced_shape(group: Group, shape: Shape) -> bool:
    """True if a value of this shape has one element for each fold of a group, and not for each that is folded."""
    assert group.shape is not None
    if group.axes is None or shape == group.shape or prod(shape) == prod(group.shape):
        return False
    return prod(shape) == prod(group.keepdims_shape)


def _are_gate_slices(view: StridedView, unit: int) -> bool:
    """True if a view is of neighbouring parts of `unit` columns of a value that has parts, in every row."""
    columns = view.base.shape[-1]
    lies = all(n == 1 or s == own for n, s, own in zip(view.shape, view.strides, (columns, 1), strict=True))
    return lies and view.offset % unit == 0 and view.offset + view.shape[-1] <= columns


def _access_mismatch(
    view: StridedView, value: Value, shape: Shape, axes: Shape | None, kept: bool, folded: bool
) -> str | None:
    """Why an equation of a kernel over `shape` cannot read a value of it; None if it can.

    `kept`: the reader has one element for each fold; `folded`: so has what it reads.
    """
    name, made = value.op.name, view.base.op.name
    if not folded:
        seen = None if kept else view_over(view, iteration_shape(value), shape)
        if seen is not None and seen.is_linear:
            return None
        return f"{name} reads other elements of {made} than the one being computed"
    assert axes is not None
    space = keepdims_shape(shape, axes) if kept else shape
    seen = view_over(view, iteration_shape(value), space)
    if seen is None or not indexes_reduction_result(seen, space, axes):
        return f"{name} reads other results of {made} than the one being computed"
    if not kept and prod(keepdims_shape(shape, axes)) == 1 and prod(shape) > MAX_ELEMENTS_AFTER_FULL_REDUCTION:
        return f"{name} needs the finished {made}"
    return None


def _pass_flags(value: Value) -> tuple[bool, bool]:
    """Whether an equation is computed again after the forward pass, and whether in the backward pass."""
    return (False, False) if value.origin is None else (value.origin.again, value.origin.backward)


def _is_upcast_bfloat16(value: Value) -> bool:
    """True for what was bfloat16 before."""
    return value.op is not None and value.op.name == "cast" and is_bfloat16(value.operands[0].dtype)
