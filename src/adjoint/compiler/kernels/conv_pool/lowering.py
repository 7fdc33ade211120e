"""Convolution and pooling, forward and backward, as kernels of a graph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.kernels.conv_pool.windowed_op import WindowedOp, plan_windowed_op
from adjoint.compiler.kernels.epilogue import Epilogue
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, KernelMemo, make_kernel_text
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I8

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group


def lower(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    """The kernel of a convolution, or pooling, and of what follows it element by element."""
    root = group.root
    assert root is not None
    flat = plan_windowed_op(root, target)
    assert flat is not None
    epilogue = Epilogue.over(group, fusion, flat.shape)
    plan = flat if epilogue is not None else plan_windowed_op(root, target, flat=False)
    assert plan is not None
    epilogue = epilogue or Epilogue(group, fusion, plan.shape)
    operands = [fusion.views[o].base for o in root.operands]
    bases = list(dict.fromkeys((*operands, *epilogue.accesses.bases)))
    places = tuple(bases.index(v) for v in (*operands, *epilogue.accesses.bases))
    key = repr((root.op.name, plan.plan)), places, epilogue.structure
    if key not in known:
        ops = [v.op for v in group.equations]
        known[key] = make_kernel_text(
            "spatial", key, ops, target, partial(_write, target, plan, operands, epilogue, bases)
        )
    return Kernel(*known[key], bases, group, plan.tiles, plan.scratch, numbers=epilogue.accesses.numbers)


def _write(target: Target, plan: WindowedOp, operands: list[Value], epilogue: Epilogue, bases: list[Value]) -> str:
    b = Builder(target)
    with b.kernel(NAME_PLACEHOLDER) as (args, tile, thread):
        pointers = {base: b.argument(args, i) for i, base in enumerate(bases)}
        scratch = args  # a plan without scratch memory does not look there
        if plan.scratch:
            scratch = b.gep(b.argument(args, len(bases)), b.mul(thread, plan.scratch), I8)
        at = len(bases) + bool(plan.scratch)
        numbers = [b.number(args, at + i) for i in range(len(epilogue.accesses.numbers))]
        plan.write(b, [pointers[v] for v in operands], scratch, tile, epilogue.finish(b, pointers, numbers))
    return b.text()
