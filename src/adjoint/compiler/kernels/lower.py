"""From groups to kernels, whatever their kind."""

from __future__ import annotations

from adjoint.compiler.fuse import Fusion
from adjoint.compiler.graph import Value
from adjoint.compiler.group import Group
from adjoint.compiler.kernels.kernel import NAME, Kernel, Known, named
from adjoint.compiler.kernels.loops import nest, stages
from adjoint.compiler.kernels.loops.space import space_of
from adjoint.compiler.llvm.target import Target
from adjoint.compiler.view import View

NOTHING = f"define void @{NAME}(ptr %args, i64 %tile, i64 %thread) {{\n  ret void\n}}\n"


def lower_all(fusion: Fusion, target: Target) -> dict[Group, Kernel]:
    """The kernels of all groups that are no calls."""
    known: Known = {}
    return {group: _lower(group, fusion, target, known) for group in fusion.order if not group.call}


def _lower(group: Group, fusion: Fusion, target: Target, known: Known) -> Kernel:
    if group in fusion.assembled:
        return Kernel(*named(NOTHING, "nothing"), [], group)
    if group.root is None:
        return nest.lower(group, fusion, target, known)
    assert group.kind is not None
    return group.kind.lower(group, fusion, target, known)


def overwrites_safely(group: Group, fusion: Fusion, value: Value, symbol: Value) -> bool:
    """True if a group's kernel may write `value` over `symbol`: it reads no element of that after writing it."""
    if group.root is None:
        return stages.overwrites_safely(value, symbol, space_of(group, fusion))
    views: dict[Value, list[View]] = {v: [fusion.views[o] for o in v.operands] for v in group.equations}
    read = {v: [view for view in found if view.base is symbol] for v, found in views.items()}
    return not any(read[v] for v in (group.root, *group.prologue)) and all(
        view.is_linear and symbol.size == value.size for r in read.values() for view in r
    )
