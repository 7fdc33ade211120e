"""Matrix products of a graph as kernels: operands read where they lie, batches of one matrix as its rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.ir.symbolic_size import find_symbols, is_symbolic_size
from adjoint.compiler.kernels.elementwise import Access, Accesses
from adjoint.compiler.kernels.epilogue import Epilogue
from adjoint.compiler.kernels.kernel import Finish, Kernel, Prepare
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, KernelMemo, make_kernel_text
from adjoint.compiler.kernels.matmul.gated_epilogue import GatedEpilogue, finish_by_unit, join_panels
from adjoint.compiler.kernels.matmul.matmul import MatmulPlan, MatrixStrides, plan_matmul, write_matmul
from adjoint.compiler.kernels.matmul.operand import MatmulOperand
from adjoint.compiler.kernels.matmul.prologue import Prologue
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Reg, from_dtype

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group

Shape = tuple[int, ...]
MAX_UNROLLED_EPILOGUE = 4  # equations after a product that may be written for every register of a block


def lower(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    """The kernel of a product and of what follows it element by element."""
    root = group.root
    assert root is not None
    views = [fusion.views[operand] for operand in root.operands]
    left, right = views
    in_panels = len(right.shape) > len(root.shape)
    if not in_panels:
        left, right = (view.expand((*root.shape[:-2], *view.shape[-2:])) for view in views)
    # A batch with one right matrix is one product of more rows, which fills the register blocks better; what follows
    # must then be readable over these rows too.
    flat = None if group.prologue or in_panels else _merge_batch_into_rows(left, right)
    epilogue: Epilogue | None
    if group.gate_width:
        epilogue = GatedEpilogue(group, fusion)
    else:
        epilogue = None if flat is None else Epilogue.over(group, fusion, (flat[0].shape[0], root.shape[-1]))
    if flat is not None and epilogue is not None:
        left, right = flat
    epilogue = epilogue or Epilogue(group, fusion, root.shape)
    sides = [
        Prologue(group, fusion, fusion.views[operand], view.shape[:-2])
        if view.base in group.prologue
        else Access(view.base, view.offset, view.strides)
        for operand, view in zip(root.operands, (left, right), strict=True)
    ]
    *batch, m = epilogue.shape[:-1]
    if in_panels:
        batch = [right.shape[0]]
        left = StridedView(left.base, (*batch, *left.shape), (0, *left.strides), left.offset)
    plan = plan_matmul(
        tuple(batch),
        m,
        right.shape[-1],
        left.shape[-1],
        _matrix_strides(left),
        _matrix_strides(right),
        from_dtype(root.dtype),
        target,
        direct=len(epilogue.equations) <= MAX_UNROLLED_EPILOGUE,
        precision=fusion.precision_of(root),
        parts=len(epilogue.roots),
        lanes=root.params.get("lanes", 0) if group.gate_width else 0,
        computed=(isinstance(sides[0], Prologue), isinstance(sides[1], Prologue)),
    )
    if fusion.precision_of(root) != "highest" and root.dtype == np.float32:
        group.reason += f", {_describe_rounding(plan)}"
    # Blocks of pairs are rounded to bfloat16 as they are packed: a prologue need not round them before.
    if plan.blocking.is_paired and plan.blocking.parts == 1:
        for side in sides:
            if isinstance(side, Prologue):
                side.leave_rounding()
    # Kernels that differ only in which values they read share one text: the key names values by their places among the
    # arguments, and offsets by whether there is one.
    parts = (*sides, epilogue)
    accesses = [_accesses(part) for part in parts]
    bases = list(dict.fromkeys([base for each in accesses for base in each.bases]))
    places = tuple([bases.index(base) for each in accesses for base in each.bases])
    numbers = [number for each in accesses for number in each.numbers]
    begins = [p.offset if is_symbolic_size(p.offset) else bool(p.offset) for p in sides if isinstance(p, Access)]
    structures = [p.structure for p in parts if not isinstance(p, Access)]
    width = plan.n if in_panels else 0
    key: Hashable = plan, width, places, tuple(begins), tuple(structures), isinstance(sides[0], Access)
    if key not in known:
        ops = [v.op for v in group.equations]
        known[key] = make_kernel_text(
            "product", key, ops, target, partial(_write, target, plan, sides, epilogue, bases, find_symbols(key), width)
        )
    return Kernel(*known[key], bases, group, plan.tiles, plan.scratch, numbers=numbers)


def _describe_rounding(plan: MatmulPlan) -> str:
    """Describe the rounding of a product's operands, for `explain`."""
    rounding = plan.blocking.rounding
    if rounding is None:
        return "in float32 all the same"
    return f"which rounds its operands to {rounding.description}" + (
        ", for tile registers" if rounding.is_tiled else ""
    )


def _accesses(part: Access | Prologue | Epilogue) -> Accesses:
    return Accesses([part]) if isinstance(part, Access) else part.accesses


def _write(
    target: Target,
    plan: MatmulPlan,
    sides: Sequence[Access | Prologue],
    epilogue: Epilogue,
    bases: list[Value],
    symbols: Sequence[str],
    width: int,
) -> str:
    b = Builder(target)
    with b.kernel(NAME_PLACEHOLDER) as (args, tile, thread):
        pointers = {base: b.argument(args, i) for i, base in enumerate(bases)}
        at = len(bases)
        scratch = None
        if plan.scratch:
            scratch = b.gep(b.argument(args, at), b.mul(thread, plan.scratch), from_dtype("u1"))
            at += 1
        operands: list[Reg | MatmulOperand] = []
        b.bind_symbols(symbols)
        for side in sides:
            count = len(_accesses(side).numbers)
            numbers = [b.number(args, at + i) for i in range(count)]
            at += count
            if isinstance(side, Prologue):
                operands.append(side.operand(b, pointers, numbers))
            else:
                begins: list[Reg | int] = [side.offset] if is_symbolic_size(side.offset) else [*numbers]
                start = pointers[side.base]
                operands.append(b.gep(start, begins[0], from_dtype(side.base.dtype)) if begins else start)
        numbers = [b.number(args, at + i) for i in range(len(epilogue.accesses.numbers))]
        writer = epilogue.finish(b, pointers, numbers)
        finish: Finish = writer
        as_result = not (plan.merged or plan.swapped)  # a block's rows and columns are its own
        prepare: Prepare | None = writer.prefetch if as_result else None
        if len(epilogue.roots) > 1:
            finish, prepare = finish_by_unit(b, finish, prepare, len(epilogue.roots))
        if width:
            finish, prepare = join_panels(b, finish, prepare, width)
        write_matmul(b, plan, operands[0], operands[1], scratch, tile, finish, prepare)
    return b.text()


def _merge_batch_into_rows(left: StridedView, right: StridedView) -> tuple[StridedView, StridedView] | None:
    """A stack of matrices, each multiplied by the same one, as the rows of one matrix."""
    batch = left.shape[:-2]
    if not batch or any(s for n, s in zip(batch, right.strides[:-2], strict=True) if n != 1):
        return None
    rows = left.reshape((prod(left.shape[:-1]), left.shape[-1]))
    if rows is None:
        return None
    return rows, StridedView(right.base, right.shape[-2:], right.strides[-2:], right.offset)


def _matrix_strides(view: StridedView) -> MatrixStrides:
    return MatrixStrides(view.strides[:-2], view.strides[-2], view.strides[-1])
