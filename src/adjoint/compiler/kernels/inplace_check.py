"""The check that a kernel may write a new value straight over an old one."""

from __future__ import annotations

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.kernels.loop_nest import reduction_stages
from adjoint.compiler.kernels.loop_nest.iteration_space import space_of
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group


def can_overwrite(group: Group, fusion: Fusion, value: Value, symbol: Value) -> bool:
    """True if a group's kernel may write `value` over `symbol`: it reads no element of that after writing it."""
    if group.root is None:
        return reduction_stages.can_overwrite(value, symbol, space_of(group, fusion))
    views: dict[Value, list[StridedView]] = {v: [fusion.views[o] for o in v.operands] for v in group.equations}
    read = {v: [view for view in found if view.base is symbol] for v, found in views.items()}
    return not any(read[v] for v in (group.root, *group.prologue)) and all(
        view.is_linear and symbol.size == value.size for r in read.values() for view in r
    )
