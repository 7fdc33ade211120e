"""From groups to kernels: the function that lowers each kind, and the loop nest of what has no root."""

from __future__ import annotations

from collections.abc import Callable

from adjoint.compiler.kernels import kernel_kinds
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_kinds import KINDS, Kind
from adjoint.compiler.kernels.kernel_text import NAME, Known, named
from adjoint.compiler.kernels.loop_nest import loop_nest
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group

NOTHING = f"define void @{NAME}(ptr %args, i64 %tile, i64 %thread) {{\n  ret void\n}}\n"


def lower_all(fusion: Fusion, target: Target) -> dict[Group, Kernel]:
    """The kernels of all groups that are no calls."""
    known: Known = {}
    return {group: _lower(group, fusion, target, known) for group in fusion.order if not group.call}


def _lower(group: Group, fusion: Fusion, target: Target, known: Known) -> Kernel:
    if group in fusion.assembled:
        return Kernel(*named(NOTHING, "nothing"), [], group)
    if group.root is None:
        return loop_nest.lower(group, fusion, target, known)
    return LOWERINGS[KINDS[group.root.op.name]](group, fusion, target, known)


# What writes a kind is imported when the first such group comes.


def _lower_product(group: Group, fusion: Fusion, target: Target, known: Known) -> Kernel:
    from adjoint.compiler.kernels.matmul import lowering

    return lowering.lower(group, fusion, target, known)


def _lower_reading(group: Group, fusion: Fusion, target: Target, known: Known) -> Kernel:
    from adjoint.compiler.kernels.gather_scatter import lowering

    return lowering.lower_reading(group, fusion, target, known)


def _lower_writing(group: Group, fusion: Fusion, target: Target, known: Known) -> Kernel:
    from adjoint.compiler.kernels.gather_scatter import lowering

    return lowering.lower_writing(group, fusion, target, known)


def _lower_spatial(group: Group, fusion: Fusion, target: Target, known: Known) -> Kernel:
    from adjoint.compiler.kernels.conv_pool import lowering

    return lowering.lower(group, fusion, target, known)


def _lower_draw(group: Group, fusion: Fusion, target: Target, known: Known) -> Kernel:
    from adjoint.compiler.kernels.random import lowering

    return lowering.lower(group, fusion, target, known)


def _lower_attention(group: Group, fusion: Fusion, target: Target, known: Known) -> Kernel:
    from adjoint.compiler.kernels.attention import lowering

    return lowering.lower(group, fusion, target, known)


LOWERINGS: dict[Kind, Callable[[Group, Fusion, Target, Known], Kernel]] = {
    kernel_kinds.PRODUCT: _lower_product,
    kernel_kinds.READING: _lower_reading,
    kernel_kinds.WRITING: _lower_writing,
    kernel_kinds.SPATIAL: _lower_spatial,
    kernel_kinds.DRAW: _lower_draw,
    kernel_kinds.ATTENTION: _lower_attention,
}
