"""Attention and its gradient as kernels of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.compiler.graph import Value
from adjoint.compiler.kernels.attention.attention_lowering import lower_attention, reason_against
from adjoint.compiler.kernels.kernel import Kernel, Known
from adjoint.compiler.llvm.target import Target
from adjoint.compiler.view import View

if TYPE_CHECKING:
    from adjoint.compiler.fuse import Fusion
    from adjoint.compiler.group import Group


def accepts(value: Value, views: dict[Value, View], target: Target) -> bool:
    """True if a kernel can compute the equation."""
    return not reason_against(value, views, target)


def lower(group: Group, fusion: Fusion, target: Target, known: Known) -> Kernel:
    """The kernel of an equation of attention."""
    assert group.root is not None
    lowered = lower_attention(group.root, fusion.views, target, known)
    assert not isinstance(lowered, str)
    return Kernel(lowered.name, lowered.code, lowered.arguments, group, lowered.tiles, lowered.scratch)
