"""Which operands of a matrix product are packed, and can be computed as that is done: what fusion asks of a product."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import View, over, row_major
from adjoint.compiler.kernels.matmul.blocking import Matrix
from adjoint.compiler.kernels.matmul.plan import plan_product
from adjoint.compiler.kernels.matmul.product import Product
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import from_dtype
from adjoint.compiler.passes.materialize import is_made

Shape = tuple[int, ...]


def is_readable(equations: Sequence[Value], views: dict[Value, View], operand: View) -> bool:
    """True if strides say where what the equations read lies for each element of an operand which they give."""
    order = turned(operand)

    def lies(value: Value, shape: Shape) -> bool:
        base = views[value].base
        if is_made(base):
            return base.op.family == "full"
        return base in equations or (order is not None and over(views[value], shape, order[0]) is not None)

    return all(lies(o, equation.shape) for equation in equations for o in equation.operands)


def times_packed(root: Value, views: Sequence[View], side: int, target: Target, precision: str) -> int:
    """How often a product packs each element of an operand, if that can be computed then; 0 where it reads it as it
    lies. `views`: of the two operands; `precision`: of the product.
    """
    if turned(views[side]) is None:
        return 0
    plain = plan_of(root, views, (False, False), target, precision=precision)
    packed = plain.blocking.pack_right if side else plain.blocking.pack_left
    if not packed or plain.swapped or plain.blocking.along_depth:
        return 0
    if not plan_of(root, views, (side == 0, side == 1), target, precision=precision).tiles:
        return 0
    _, down, across = plain.grid
    return down if side else across


def plan_of(root: Value, views: Sequence[View], computed: tuple[bool, bool], target: Target, **how: Any) -> Product:
    """The plan of a product of matrices that are read where they lie, or `computed`."""
    *batch, m, n = root.shape
    left, right = (_matrix(view.expand((*batch, *view.shape[-2:]))) for view in views)
    k = views[0].shape[-1]
    return plan_product(tuple(batch), m, n, k, left, right, from_dtype(root.dtype), target, computed=computed, **how)


@lru_cache(1024)
def turned(view: View) -> tuple[Shape, Shape] | None:
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


def _matrix(view: View) -> Matrix:
    return Matrix(view.strides[:-2], view.strides[-2], view.strides[-1])
