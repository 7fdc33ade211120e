"""Draws from a random stream as kernels of a graph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_text import KernelMemo, make_kernel_text
from adjoint.compiler.kernels.random.draw import plan_draw, write_draw
from adjoint.compiler.llvm.jit.target import Target

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group


def lower(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    """The kernel of a draw."""
    root = group.root
    assert root is not None
    plan = plan_draw(root)
    assert plan is not None
    key = repr(plan)
    if key not in known:
        known[key] = make_kernel_text("draw", key, [root.op], target, partial(write_draw, plan, target))
    return Kernel(*known[key], [root], group, scratch=plan.scratch, generator=root.params["generator"])
