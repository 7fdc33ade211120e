"""From groups to kernels, whatever their kind."""

from __future__ import annotations

from adjoint.compiler.kernels.kernel import NAME, Kernel, Known, named
from adjoint.compiler.kernels.kernel_kinds import KINDS
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
    return KINDS[group.root.op.name]().lower(group, fusion, target, known)
