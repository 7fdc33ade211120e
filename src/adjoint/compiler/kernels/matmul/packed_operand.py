"""The operands of a matrix product that are packed and can be computed meanwhile, as fusion asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView, row_major, view_over
from adjoint.compiler.kernels.matmul.blocking import MatrixStrides
from adjoint.compiler.kernels.matmul.plan import plan_matmul
from adjoint.compiler.kernels.matmul.product import MatmulPlan
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import from_dtype
from adjoint.compiler.passes.materialize import is_generated

Shape = tuple[int, ...]


def is_readable(equations: Sequence[Value], views: dict[Value, StridedView], operand: StridedView) -> bool:
    """True if strides say where what the equations read lies for each element of an operand which they give."""
    order = find_permutation(operand)

    def lies(value: Value, shape: Shape) -> bool:
        base = views[value].base
        if is_generated(base):
            return base.op.family == "full"
        return base in equations or (order is not None and view_over(views[value], shape, order[0]) is not None)

    return all(lies(o, equation.shape) for equation in equations for o in equation.operands)


def count_packings(root: Value, views: Sequence[StridedView], side: int, target: Target, precision: str) -> int:
    """Return how often a product packs each element of an operand that can be computed then; 0 where it packs none.

    `views`: of the two operands; `precision`: of the product.
    """
    if find_permutation(views[side]) is None:
        return 0
    plain = plan_root(root, views, (False, False), target, precision=precision)
    packed = plain.blocking.pack_right if side else plain.blocking.pack_left
    if not packed or plain.swapped or plain.blocking.along_depth:
        return 0
    if not plan_root(root, views, (side == 0, side == 1), target, precision=precision).tiles:
        return 0
    _, down, across = plain.grid
    return down if side else across


def plan_root(
    root: Value, views: Sequence[StridedView], computed: tuple[bool, bool], target: Target, **how: Any
) -> MatmulPlan:
    """The plan of a product of matrices that are read where they lie, or `computed`."""
    *batch, m, n = root.shape
    strides = [view.expand((*batch, *view.shape[-2:])).strides for view in views]
    left, right = (MatrixStrides(s[:-2], s[-2], s[-1]) for s in strides)
    k = views[0].shape[-1]
    return plan_matmul(tuple(batch), m, n, k, left, right, from_dtype(root.dtype), target, computed=computed, **how)


@lru_cache(1024)
def find_permutation(view: StridedView) -> tuple[Shape, Shape] | None:
    """The shape that a value has in memory, and the order of dimensions in which a view sees all of it, each element
    once; None if it sees it otherwise.
    """
    rank = len(view.shape)
    order = sorted(range(rank), key=lambda d: (view.shape[d] > 1, -view.strides[d]))
    shape = tuple(view.shape[d] for d in order)
    strides = tuple(view.strides[d] for d in order)
    same = all(n == 1 or s == own for n, s, own in zip(shape, strides, row_major(shape), strict=True))
    if view.offset or not same or prod(shape) != view.base.size:
        return None
    return shape, tuple(order.index(d) for d in range(rank))
