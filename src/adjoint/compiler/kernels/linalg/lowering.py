"""Factorizations and solutions of stacks of matrices as kernels of a graph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, KernelMemo, make_kernel_text
from adjoint.compiler.kernels.linalg.plan import plan_value
from adjoint.compiler.kernels.linalg.stack_kernels import write_stack_kernel
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Type, from_dtype

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group


def lower(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    """The kernel of a factorization or solution.

    All shapes of one type share its text: sizes and steps are numbers of its table.
    """
    root = group.root
    assert root is not None
    planned = plan_value(root, fusion.views, target)
    assert planned is not None
    plan, bases = planned
    arguments = [*dict.fromkeys(bases), root]
    places = tuple(arguments.index(v) for v in (*bases, root))
    name = root.op.name
    key = name, root.dtype.str, places
    if key not in known:
        write = partial(_write, name, from_dtype(root.dtype), target, places)
        known[key] = make_kernel_text("matrices", key, [root.op], target, write)
    return Kernel(*known[key], arguments, group, plan.tiles, plan.scratch, numbers=plan.numbers)


def _write(name: str, kind: Type, target: Target, places: tuple[int, ...]) -> str:
    b = Builder(target)
    write_stack_kernel(b, name, NAME_PLACEHOLDER, kind, target, places)
    return b.text()
