"""Kernels along a dimension: their text, for an equation of a graph or an eager call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, KernelMemo, KernelText, make_kernel_text
from adjoint.compiler.kernels.rows import extremes, fft, recurrence, scan, search, sort
from adjoint.compiler.kernels.rows.catalogue import plan_equation
from adjoint.compiler.kernels.rows.plan import LineTable, RowPlan
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group


def lower(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    """The kernel of an equation along a dimension."""
    root = group.root
    assert root is not None
    plan = plan_equation(root, fusion.views, target)
    assert plan is not None
    views = [fusion.views[x] for x in root.operands]
    bases = list(dict.fromkeys(view.base for view in views))
    places, sizes = tuple(bases.index(view.base) for view in views), tuple(view.base.dtype.itemsize for view in views)
    numbers = (*(view.offset for view in views), *([plan.scratch] if plan.scratch else []), *plan.numbers)
    text = make_rows_text(plan, places, sizes, target, known)
    return Kernel(*text, [*bases, root], group, plan.tiles, plan.scratch, numbers=numbers)


def make_rows_text(
    plan: RowPlan, places: tuple[int, ...], sizes: tuple[int, ...], target: Target, known: KernelMemo
) -> tuple[str, KernelText | str]:
    """The name and the module of a plan's kernel, from `known` if it is there.

    `places`: of the operands in its table; `sizes`: the bytes of their elements.
    """
    key = plan.kind, plan.structure, places, sizes, bool(plan.scratch)
    if key not in known:
        known[key] = make_kernel_text("rows", key, [], target, partial(write_rows, plan, places, sizes, target))
    return known[key]


WRITERS: dict[str, Callable[..., None]] = {
    "fft": fft.write_transform_kernel,
    "order": sort.write_order,
    "position": extremes.write_position,
    "recurrence": recurrence.write_recurrence,
    "scan": scan.write_scan,
    "search": search.write_search,
}


def write_rows(plan: RowPlan, places: tuple[int, ...], sizes: tuple[int, ...], target: Target) -> str:
    """The module of a plan's kernel."""
    b = Builder(target)
    with b.kernel(NAME_PLACEHOLDER) as (args, tile, thread):
        table = LineTable(b, args, thread, places, sizes, bool(plan.scratch))
        WRITERS[plan.kind](b, table, tile, target, plan.structure)
    return b.text()
