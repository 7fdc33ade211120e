"""The plans of all kernels along a dimension, by op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.kernels.rows import extremes, fft, recurrence, scan, search, sort
from adjoint.compiler.kernels.rows.order_writer import MEDIAN, NANMEDIAN
from adjoint.compiler.kernels.rows.plan import INT64, RowOperand, RowPlan
from adjoint.compiler.llvm.jit.target import Target
from adjoint.core.typing import NumpyDtype, Params

Planner = Callable[..., RowPlan | None]


def plan_scan(
    name: str, x: RowOperand, *, axis: int, dtype: NumpyDtype | None = None, target: Target
) -> RowPlan | None:
    """Plan running sums, products or logarithms."""
    return scan.plan_running(name, x, axis, x.dtype if dtype is None else dtype, target)


def plan_extreme(x: RowOperand, *, axis: int, largest: bool, target: Target) -> RowPlan | None:
    """Plan the positions of running extremes."""
    return scan.plan_running("argmax" if largest else "argmin", x, axis, INT64, target)


def plan_argsort(x: RowOperand, *, axis: int, descending: bool, target: Target) -> RowPlan | None:
    """Plan `argsort`."""
    return sort.plan_order(x, axis, 0, x.shape[axis], descending, target)


def plan_leading(x: RowOperand, *, axis: int, count: int, descending: bool, target: Target) -> RowPlan | None:
    """Plan `leading`."""
    return sort.plan_order(x, axis, 0, count, descending, target)


def plan_rank(x: RowOperand, *, axis: int, rank: int, target: Target) -> RowPlan | None:
    """Plan `index_at_rank`."""
    return sort.plan_order(x, axis, rank, 1, False, target)


def plan_median(x: RowOperand, *, axis: int, ignore_nan: bool, target: Target) -> RowPlan | None:
    """Plan `median_index`."""
    return sort.plan_order(x, axis, 0, 1, False, target, NANMEDIAN if ignore_nan else MEDIAN)


def plan_c2c(x: RowOperand, *, axes: tuple[int], inverse: bool, scale: float, target: Target) -> RowPlan | None:
    """Plan `line_c2c`."""
    return fft.plan_transform("c2c", x, axes[0], x.shape[axes[0]], inverse, scale, target)


def plan_r2c(x: RowOperand, *, axes: tuple[int], scale: float, target: Target) -> RowPlan | None:
    """Plan `line_r2c`."""
    return fft.plan_transform("r2c", x, axes[0], x.shape[axes[0]], False, scale, target)


def plan_c2r(x: RowOperand, *, axes: tuple[int], n: int, scale: float, target: Target) -> RowPlan | None:
    """Plan `line_c2r`."""
    return fft.plan_transform("c2r", x, axes[0], n, True, scale, target)


PLANNERS: dict[str, Planner] = {
    "argmax": partial(extremes.plan_position, largest=True),
    "argmin": partial(extremes.plan_position, largest=False),
    "cumsum": partial(plan_scan, "cumsum"),
    "cumprod": partial(plan_scan, "cumprod"),
    "logcumsumexp": partial(plan_scan, "logcumsumexp"),
    "where_extreme": plan_extreme,
    "recurrence": recurrence.plan_recurrence,
    "searchsorted": search.plan_search,
    "line_c2c": plan_c2c,
    "line_r2c": plan_r2c,
    "line_c2r": plan_c2r,
    "argsort": plan_argsort,
    "leading": plan_leading,
    "index_at_rank": plan_rank,
    "median_index": plan_median,
}


def plan_rows(name: str, operands: Sequence[RowOperand], params: Params, target: Target) -> RowPlan | None:
    """Plan an op on operands in memory; None if there is no kernel for it."""
    return PLANNERS[name](*operands, **params, target=target)


def plan_equation(value: Value, views: dict[Value, StridedView], target: Target) -> RowPlan | None:
    """Plan an equation's kernel; None if NumPy is to compute it."""
    found = [views[x] for x in value.operands]
    operands = [RowOperand(view.shape, view.base.dtype, view.strides) for view in found]
    return plan_rows(value.op.name, operands, value.params, target)
