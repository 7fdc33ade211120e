"""Fusion's rules: when an equation can join a group, when two groups can be one kernel, and the reason if not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import (
    StridedView,
    indexes_reduction_result,
    iteration_shape,
    keepdims_shape,
    view_over,
)
from adjoint.compiler.ir.symbolic_size import size_value
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.fusion_group import Group
from adjoint.core.dtype.dtype import is_bfloat16

Shape = tuple[int, ...]
MAX_KERNEL_EQUATIONS = 128  # LLVM's time grows faster than their number
MAX_KERNEL_REDUCTIONS = 16  # of one shape
MAX_REDUCTIONS_OF_TURNS = 2  # of different values in one line: those of an unrolled loop are equal kernels
MAX_ELEMENTS_AFTER_FULL_REDUCTION = 1 << 15  # of what waits, in one kernel, for a reduction over all of them


@dataclass(frozen=True, eq=False)
class GroupMap:
    """The view that each value is of memory, and the group that computes it.

    `precision`: of its products of float32 matrices.
    """

    precision: str
    views: dict[Value, StridedView]
    maker: dict[Value, Group]

    def bases_of(self, value: Value) -> list[Value]:
        """Return the values in memory that an equation reads, through views."""
        views = self.views
        return [views[o][0] if o in views else o for o in value.operands]

    def precision_of(self, root: Value) -> str:
        """Return the precision of a product: rounding operands that were bfloat16 takes nothing from them."""
        for value in [self.views[o].base for o in root.operands]:
            if value.op is None or value.op.name != "cast" or not is_bfloat16(value.operands[0].dtype):
                return self.precision
        return "medium"

    def times_packed(self, root: Value, side: int, equations: list[Value]) -> int:
        """Count how often a product would compute an operand from `equations` as it packs it; 0 if it cannot."""
        if root.op.name not in ("mm", "bmm"):
            return 0
        from adjoint.compiler.kernels.matmul.packed_operand import count_packings, is_readable

        views = [self.views[o] for o in root.operands]
        if not is_readable(equations, self.views, views[side]):
            return 0
        return count_packings(root, views, side, host(), self.precision_of(root))

    def can_merge(self, group: Group, other: Group) -> bool:
        """True if a kernel can take in another, with which an equation has brought it together."""
        if (
            group.call
            or other.call
            or other.root is not None
            or not group.is_same_pass(other.rematerialized, other.backward)
        ):
            return False
        assert group.shape is not None
        assert other.shape is not None
        if group.rejects_epilogue or group.gate_width or group.concatenations or other.concatenations:
            return False
        root = group.root
        # What follows a product runs block by block as the product is made: it cannot fold over all blocks, and the
        # product cannot read what would only come after it.
        if root is not None and (other.axes is not None or other in map(self.maker.get, self.bases_of(root))):
            return False
        # Two kernels with folds must fold the same axes; what has one element for each fold runs after them, once.
        small = is_reduced_shape(group, other.shape)
        if None not in (group.axes, other.axes) and (small or group.axes != other.axes):
            return False
        if other.shape != group.shape and not self._can_run_over(other, group.keepdims_shape if small else group.shape):
            return False
        if len(group.equations) + len(other.equations) > MAX_KERNEL_EQUATIONS:
            return False
        reductions = len(group.reductions) + len(other.reductions)
        if reductions > MAX_KERNEL_REDUCTIONS:
            return False
        # Turns of an unrolled loop are equal kernels, of which LLVM compiles one. Merging them would give one long
        # kernel instead, which pays only where it saves reading a value twice.
        of_turns = reductions > MAX_REDUCTIONS_OF_TURNS and have_one_line(group.reductions, other.reductions)
        if of_turns and not self.reads_a_value_of(group, other):
            return False
        # A kernel that must run after one of the two and before the other has no place once they are one.
        between = (group.needs | other.needs) - {group, other}
        if any(g.is_downstream_of(group) or g.is_downstream_of(other) for g in between):
            return False
        axes = group.axes if other.axes is None else other.axes
        kept = group.reduced_values | other.reduced_values | (set(other.equations) if small else set())
        apart = {group.root, *group.prologue}
        # Within a kernel a value is in a register: its reader must want the element that is being computed, or a
        # finished fold. What the product itself reads is packed from memory and needs no such check.
        return all(
            _access_mismatch(view, value, group.shape, axes, value in kept, view.base in kept or view.base.op.combine)
            is None
            for value in (*group.equations, *other.equations)
            if value not in apart
            for view in (self.views[operand] for operand in value.operands)
            if self.maker.get(view.base) in (group, other)
        )

    def reads_a_value_of(self, group: Group, other: Group) -> bool:
        """True if two groups read one value of some size, which one kernel would read once."""
        small = size_value(prod(group.keepdims_shape))
        read = {b for v in group.equations for b in self.bases_of(v) if b.count > small}
        return any(b in read for v in other.equations for b in self.bases_of(v))

    def _can_run_over(self, group: Group, space: Shape) -> bool:
        """True if a kernel without folds can run over another shape."""
        return (
            group.axes is None
            and prod(group.shape or ()) == prod(space)
            and all(view_over(self.views[o], v.shape, space) is not None for v in group.equations for o in v.operands)
        )

    def why_not_fused(self, group: Group, value: Value, shape: Shape) -> str | None:
        """Return why `value` cannot join `group`; None if it can."""
        assert group.shape is not None
        name, axes = value.op.name, group.axes
        if not group.is_same_pass(*pass_flags(value)):
            return f"{name} is computed again for the gradient, which the forward pass is to be over for"
        if group.rejects_epilogue:
            return f"{name} reads what {group.equations[0].op.name} has stored"
        kept = not value.op.combine and is_reduced_shape(group, shape)
        parts = group.has_gate_slices(shape)
        if value.op.combine:
            if group.root is not None:
                return f"{name} folds what {group.root.op.name} makes block by block"
            if len(group.reductions) >= MAX_KERNEL_REDUCTIONS:
                return f"its operand's kernel has {MAX_KERNEL_REDUCTIONS} folds already"
            if group.shape != shape:
                return f"{name} runs over {list(shape)}, its operand's kernel over {list(group.shape)}"
            axes = value.params["axes"]
            if group.axes is not None and group.axes != axes:
                return f"{name} folds axes {axes}, its operand's kernel {group.axes}"
        elif not kept and not parts and prod(shape) != prod(group.shape):
            return f"{name} runs over {list(shape)}, its operand's kernel over {list(group.shape)}"
        # The kernel's loop runs over `space`: each operand must be readable at the loop's own index.
        space = group.keepdims_shape if kept else shape if parts else group.shape
        for operand in value.operands:
            view = self.views[operand]
            if view_over(view, shape, space) is None:
                return f"{name} reads {list(view.shape)} in an order of its own"
            maker = self.maker.get(view.base)
            if view.base in group.concatenations or view.base in group.prologue:
                return f"{name} reads other elements of {view.base.op.name} than the ones being computed"
            if maker is group and group.gate_width:
                if not (parts and _are_gate_slices(view.expand(shape), group.gate_width)):
                    return f"{name} reads other elements of {view.base.op.name} than the ones being computed"
            elif maker is group:
                folded = view.base in group.reduced_values or view.base.op.combine
                misread = _access_mismatch(view, value, group.shape, axes, kept, folded)
                if misread:
                    return misread
            elif maker is not None and maker.is_downstream_of(group):
                return f"{name} also needs what comes after its operand's kernel"
        if len(group.equations) >= MAX_KERNEL_EQUATIONS:
            return f"its operand's kernel has {MAX_KERNEL_EQUATIONS} equations already"
        return None


def have_one_line(reductions: Sequence[Value], others: Sequence[Value]) -> bool:
    """True if some of these and of the others come from one line in one module, as the turns of a loop do."""
    lines = {v.origin[:3] for v in reductions if v.origin is not None}
    return any(v.origin is not None and v.origin[:3] in lines for v in others)


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
    """Return why an equation of a kernel over `shape` cannot read a value of it; None if it can.

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
    if (
        not kept
        and prod(keepdims_shape(shape, axes)) == 1
        and size_value(prod(shape)) > MAX_ELEMENTS_AFTER_FULL_REDUCTION
    ):
        return f"{name} needs the finished {made}"
    return None


def pass_flags(value: Value) -> tuple[bool, bool]:
    """Return whether an equation is computed again after the forward pass, and whether in the backward pass."""
    return (False, False) if value.origin is None else (value.origin.rematerialized, value.origin.backward)
