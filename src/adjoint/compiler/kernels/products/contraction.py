"""Matrix products of a graph as kernels: operands read where they lie, batches of one matrix as its rows."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from adjoint.compiler.graph import Value
from adjoint.compiler.kernels.code import coded
from adjoint.compiler.kernels.finish import Epilogue
from adjoint.compiler.kernels.kernel import NAME, Kernel, Known
from adjoint.compiler.kernels.products.product import Matrix, Product, plan_product, write_product
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.target import Target
from adjoint.compiler.llvm.types import Reg, from_dtype
from adjoint.compiler.view import View

if TYPE_CHECKING:
    from adjoint.compiler.fuse import Fusion
    from adjoint.compiler.group import Group

Shape = tuple[int, ...]
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
FEW = 64  # elements that may follow one another one by one
SHORT = 4  # equations after a product that may be written for every register of a block


def accepts(value: Value, views: dict[Value, View], target: Target) -> bool:
    """True if a kernel can compute the product."""
    return value.dtype in FLOATS


def joins(value: Value) -> bool:
    """True if what follows the product is part of its kernel: not for one column, whose elements come one by one."""
    return value.shape[-1] > 1 or value.size <= FEW


def lower(group: Group, fusion: Fusion, target: Target, known: Known) -> Kernel:
    """The kernel of a product and of what follows it element by element."""
    root = group.root
    assert root is not None
    left, right = (_over_batch(fusion.views[o], root.shape[:-2]) for o in root.operands)
    flat = _as_rows(left, right)
    epilogue = None if flat is None else Epilogue.over(group, fusion, (flat[0].shape[0], root.shape[-1]))
    if flat is not None and epilogue is not None:
        left, right = flat
    else:
        epilogue = Epilogue(group, fusion, root.shape)
    *batch, m, n = epilogue.shape
    plan = plan_product(
        tuple(batch), m, n, left.shape[-1], _matrix(left), _matrix(right), from_dtype(root.dtype), target,
        direct=len(epilogue.equations) <= SHORT,
    )  # fmt: skip
    bases = list(dict.fromkeys((left.base, right.base, *epilogue.accesses.bases)))
    places = tuple(bases.index(v) for v in (right.base, *epilogue.accesses.bases))
    numbers = [*(view.offset for view in (left, right) if view.offset), *epilogue.accesses.numbers]
    key = plan, left.offset > 0, right.offset > 0, places, epilogue.structure
    if key not in known:
        ops = [v.op for v in group.equations]
        known[key] = coded("product", key, ops, target, partial(_write, plan, left, right, epilogue, bases))
    return Kernel(*known[key], bases, group, plan.tiles, plan.scratch, numbers=numbers)


def _write(plan: Product, left: View, right: View, epilogue: Epilogue, bases: list[Value]) -> str:
    b = Builder()
    with b.kernel(NAME) as (args, tile, thread):
        pointers = {base: b.argument(args, i) for i, base in enumerate(bases)}
        at = len(bases)
        scratch = None
        if plan.scratch:
            scratch = b.gep(b.argument(args, at), b.mul(thread, plan.scratch), from_dtype("u1"))
            at += 1
        starts: list[Reg] = []
        for view in (left, right):
            start = pointers[view.base]
            if view.offset:
                start = b.gep(start, b.number(args, at), from_dtype(view.base.dtype))
                at += 1
            starts.append(start)
        numbers = [b.number(args, at + i) for i in range(len(epilogue.accesses.numbers))]
        write_product(b, plan, starts[0], starts[1], scratch, tile, epilogue.finish(b, pointers, numbers))
    return b.text()


def _over_batch(view: View, batch: Shape) -> View:
    return view.expand((*batch, *view.shape[-2:]))


def _as_rows(left: View, right: View) -> tuple[View, View] | None:
    """A stack of matrices, each multiplied by the same one, as the rows of one matrix."""
    batch = left.shape[:-2]
    if not batch or any(s for n, s in zip(batch, right.strides[:-2], strict=True) if n != 1):
        return None
    rows = left.reshape((prod(left.shape[:-1]), left.shape[-1]))
    if rows is None:
        return None
    return rows, View(right.base, right.shape[-2:], right.strides[-2:], right.offset)


def _matrix(view: View) -> Matrix:
    return Matrix(view.strides[:-2], view.strides[-2], view.strides[-1])
