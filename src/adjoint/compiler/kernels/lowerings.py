"""Lowering of groups to kernels, by the kind of their root; a group without one is a loop nest."""

from __future__ import annotations

from importlib import import_module

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.kernels import kernel_kinds
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_kinds import KERNEL_KINDS
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, KernelMemo, name_by_digest
from adjoint.compiler.kernels.loop_nest import loop_nest, reduction_stages
from adjoint.compiler.kernels.loop_nest.iteration_space import space_of
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group

EMPTY_KERNEL = f"define void @{NAME_PLACEHOLDER}(ptr %args, i64 %tile, i64 %thread) {{\n  ret void\n}}\n"


def lower_all(fusion: Fusion, target: Target) -> dict[Group, Kernel]:
    """The kernels of all groups that are no calls."""
    known: KernelMemo = {}
    return {group: _lower(group, fusion, target, known) for group in fusion.order if not group.call}


def _lower(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    if group in fusion.elided_concats:
        return Kernel(*name_by_digest(EMPTY_KERNEL, "nothing"), [], group)
    if group.root is None:
        return loop_nest.lower(group, fusion, target, known)
    folder, function = LOWERINGS[KERNEL_KINDS[group.root.op.name]]
    lowering = import_module(f"adjoint.compiler.kernels.{folder}.lowering")
    kernel: Kernel = getattr(lowering, function)(group, fusion, target, known)
    return kernel


def can_overwrite(group: Group, fusion: Fusion, value: Value, symbol: Value) -> bool:
    """True if a group's kernel may write `value` over `symbol`: it reads no element of that after writing it."""
    if group.root is None:
        return reduction_stages.can_overwrite(value, symbol, space_of(group, fusion))
    views: dict[Value, list[StridedView]] = {v: [fusion.views[o] for o in v.operands] for v in group.equations}
    read = {v: [view for view in found if view.base is symbol] for v, found in views.items()}
    return not any(read[v] for v in (group.root, *group.prologue)) and all(
        view.is_linear and symbol.size == value.size for r in read.values() for view in r
    )


# For each kind the module and the function that write it: imported when the first such group comes.
LOWERINGS = {
    kernel_kinds.PRODUCT: ("matmul", "lower"),
    kernel_kinds.READING: ("gather_scatter", "lower_gather"),
    kernel_kinds.WRITING: ("gather_scatter", "lower_scatter"),
    kernel_kinds.SPATIAL: ("conv_pool", "lower"),
    kernel_kinds.DRAW: ("random", "lower"),
    kernel_kinds.ATTENTION: ("attention", "lower"),
}
