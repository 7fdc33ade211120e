"""Places of the matrices of a stack: the numbers of a kernel's table, for arrays and for a graph's values."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView, strided_view_of
from adjoint.compiler.kernels.linalg.stack_kernels import STACK_KERNELS, count_scratch_bytes
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.typing import Shape

MAX_SOLVED_ROWS, MAX_FEW_COLUMNS = 512, 64  # many more rows of many columns leave the caches: LAPACK is faster
SOLUTIONS = ("inv", "solve", "solve_triangular")
MIN_LANE_MATRICES = 4  # from which on lanes are used
MAX_LANES = 16  # of any register: tiles of lanes are of whole groups
MIN_TILE_FLOPS = 20_000  # about what a tile has to compute: fewer take longer to hand out


class Layout(NamedTuple):
    """A stack of matrices in memory: its shape and strides, in elements, and the place of its first element."""

    shape: Shape
    strides: Shape
    offset: int = 0


class StackPlan(NamedTuple):
    """The numbers of a kernel's table, how many tiles there are, and the bytes of scratch memory for each thread."""

    numbers: tuple[int, ...]
    tiles: int
    scratch: int


@lru_cache(1024)
def plan_stack(
    name: str, operands: tuple[Layout, ...], itemsize: int, flags: tuple[int, ...], target: Target | None = None
) -> StackPlan | None:
    """Plan the kernel of this name; None if the steps from one matrix to the next differ, or if NumPy is faster.

    `flags`: the kernel's other numbers. `target`: the machine, by default this one.
    """
    lead = broadcast_shapes(*[operand.shape[:-2] for operand in operands])
    rows, columns = operands[-1].shape[-2:]
    if rows > MAX_SOLVED_ROWS and columns > MAX_FEW_COLUMNS and name in SOLUTIONS:
        return None
    steps: list[int] = []
    for operand in operands:
        batch = _batch_step(operand, lead)
        if batch is None:
            return None
        steps += [operand.offset, batch, *operand.strides[-2:]]
    count = prod(lead)
    per_tile = max(1, MIN_TILE_FLOPS // max(rows * rows * columns, 1))
    in_lanes = max(rows, columns // 2) <= STACK_KERNELS[name].max_lane_rows and count >= MIN_LANE_MATRICES
    if in_lanes:
        per_tile = -(-per_tile // MAX_LANES) * MAX_LANES
    scratch = count_scratch_bytes(name, (rows, columns), itemsize, target or host(), in_lanes)
    numbers = (count, per_tile, in_lanes, rows, columns, scratch, *steps, *flags, 0)
    return StackPlan(numbers, max(1, -(-count // per_tile)), scratch)


def _batch_step(operand: Layout, lead: Shape) -> int | None:
    """The step between neighbouring matrices, of a stack broadcast to `lead`; None if there is no such number."""
    own = operand.shape[:-2]
    missing = len(lead) - len(own)
    strides = [0] * missing + [0 if n == 1 else s for n, s in zip(own, operand.strides, strict=False)]
    found: int | None = None
    size = 1
    for n, stride in zip(reversed(lead), reversed(strides), strict=True):
        if n == 1:
            continue
        if found is None:
            found = stride
        elif stride != found * size:
            return None
        size *= n
    return found or 0


def plan_value(
    value: Value, views: dict[Value, StridedView], target: Target | None = None
) -> tuple[StackPlan, list[Value]] | None:
    """The plan of an equation, and the values whose memory it reads; None if NumPy is to compute it.

    NumPy computes what has operands of several types, and stacks whose matrices are not one step apart.
    """
    layouts, bases = [], []
    for x in value.operands:
        view = strided_view_of(x, views)
        if view is None or view.base.dtype != value.dtype:
            return None
        layouts.append(Layout(view.shape, view.strides, view.offset))
        bases.append(view.base)
    flags = tuple(int(value.params.get(name, 0)) for name in STACK_KERNELS[value.op.name].numbers.split())
    plan = plan_stack(value.op.name, tuple(layouts), value.dtype.itemsize, flags, target)
    return None if plan is None else (plan, bases)
