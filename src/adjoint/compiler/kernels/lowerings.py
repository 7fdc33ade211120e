"""From groups to kernels: the function that lowers each kind, and the loop nest of what has no root."""

from __future__ import annotations

from collections.abc import Callable

from adjoint.compiler.kernels import kernel_kinds
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_kinds import KERNEL_KINDS, KernelKind
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, KernelMemo, name_by_digest
from adjoint.compiler.kernels.loop_nest import loop_nest
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
    return LOWERINGS[KERNEL_KINDS[group.root.op.name]](group, fusion, target, known)


# What writes a kind is imported when the first such group comes.


def _lower_product(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    from adjoint.compiler.kernels.matmul import lowering

    return lowering.lower(group, fusion, target, known)


def _lower_reading(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    from adjoint.compiler.kernels.gather_scatter import lowering

    return lowering.lower_gather(group, fusion, target, known)


def _lower_writing(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    from adjoint.compiler.kernels.gather_scatter import lowering

    return lowering.lower_scatter(group, fusion, target, known)


def _lower_spatial(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    from adjoint.compiler.kernels.conv_pool import lowering

    return lowering.lower(group, fusion, target, known)


def _lower_draw(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    from adjoint.compiler.kernels.random import lowering

    return lowering.lower(group, fusion, target, known)


def _lower_attention(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    from adjoint.compiler.kernels.attention import lowering

    return lowering.lower(group, fusion, target, known)


LOWERINGS: dict[KernelKind, Callable[[Group, Fusion, Target, KernelMemo], Kernel]] = {
    kernel_kinds.PRODUCT: _lower_product,
    kernel_kinds.READING: _lower_reading,
    kernel_kinds.WRITING: _lower_writing,
    kernel_kinds.SPATIAL: _lower_spatial,
    kernel_kinds.DRAW: _lower_draw,
    kernel_kinds.ATTENTION: _lower_attention,
}
