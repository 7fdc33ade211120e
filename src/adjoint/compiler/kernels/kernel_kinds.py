"""The equations that have a kernel of their own kind: which kind that is, and what of them it accepts.

How a group with such a root is lowered is said above fusion, in `lowerings`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.llvm.jit.target import Target, host

Views = dict[Value, StridedView]
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
MAX_FUSED_PARTS = 8  # of a concatenation: what follows is written for each, and none is stored where it belongs
MAX_SCALAR_EPILOGUE = 64  # elements that may follow one another one by one


class KernelKind(NamedTuple):
    """A kind of kernel: which equations can be its root, and whether what follows that element by element joins."""

    accepts: Callable[[Value, Views, Target], bool]
    fuses_epilogue: Callable[[Value], bool]


# What plans a kind is imported when the first such equation comes: most steps have few kinds.


def can_gather(value: Value, views: Views, target: Target) -> bool:
    """Return whether a gather kernel can read what `value` reads."""
    from adjoint.compiler.kernels.gather_scatter.gather import plan_gather

    return bool(value.shape) and plan_gather(value, target, views.__getitem__) is not None


def can_scatter(value: Value, views: Views, target: Target) -> bool:
    """Return whether a scatter kernel can write what `value` writes."""
    from adjoint.compiler.kernels.gather_scatter.scatter import plan_scatter

    return plan_scatter(value, target, views.__getitem__) is not None


def _can_slide_windows(value: Value, views: Views, target: Target) -> bool:
    from adjoint.compiler.kernels.conv_pool.windowed_op import plan_windowed_op

    return plan_windowed_op(value, target) is not None


def _can_draw(value: Value, views: Views, target: Target) -> bool:
    from adjoint.compiler.kernels.random.draw import plan_draw

    return not value.operands and plan_draw(value) is not None


def _can_attend(value: Value, views: Views, target: Target) -> bool:
    from adjoint.compiler.kernels.attention.call import reason_against

    return not reason_against(value, views, target)


def can_factor_or_solve(value: Value, views: Views, target: Target) -> bool:
    """Return whether a kernel of matrices computes `value`: one that raises no error, from operands with even steps."""
    from adjoint.compiler.kernels.linalg.plan import plan_value

    return value.dtype in FLOATS and not value.params.get("name") and plan_value(value, views) is not None


def can_follow_rows(value: Value, views: Views, target: Target) -> bool:
    """Return whether a kernel along a dimension computes `value`."""
    from adjoint.compiler.kernels.rows.catalogue import plan_equation

    return plan_equation(value, views, target) is not None


def can_fuse_epilogue(product: Value) -> bool:
    """True if what follows the product is part of its kernel: not for one column, whose elements come one by one."""
    return product.shape[-1] > 1 or product.count <= MAX_SCALAR_EPILOGUE


PRODUCT = KernelKind(lambda value, views, target: value.dtype in FLOATS, can_fuse_epilogue)
READING = KernelKind(can_gather, lambda root: root.op.name != "cat" or len(root.inputs) <= MAX_FUSED_PARTS)
WRITING = KernelKind(can_scatter, lambda root: False)
SPATIAL = KernelKind(_can_slide_windows, lambda root: True)
DRAW = KernelKind(_can_draw, lambda root: False)
ATTENTION = KernelKind(_can_attend, lambda root: False)
MATRICES = KernelKind(can_factor_or_solve, lambda root: False)
ROWS = KernelKind(can_follow_rows, lambda root: False)

_ROOTS_BY_KIND = {
    PRODUCT: ("bmm", "gated_mm", "mm", "panel_mm"),
    READING: ("cat", "gather", "index"),
    WRITING: ("index_add", "pad", "put_index", "put_slice", "scatter", "scatter_add", "scatter_reduce", "unslice"),
    SPATIAL: (
        "convolution",
        "convolution_input",
        "convolution_weight",
        "max_pool",
        "max_pool_input",
        "window_sum",
        "window_sum_input",
    ),
    DRAW: ("coin", "dropout_factor", "exponential", "normal", "randint", "uniform"),
    ATTENTION: ("attention", "attention_gradient"),
    MATRICES: ("cholesky", "det", "inv", "slogdet", "solve", "solve_triangular"),
    ROWS: (
        "argmax",
        "argmin",
        "argsort",
        "cumprod",
        "cumsum",
        "index_at_rank",
        "leading",
        "line_c2c",
        "line_c2r",
        "line_r2c",
        "logcumsumexp",
        "median_index",
        "searchsorted",
        "where_extreme",
    ),
}
KERNEL_KINDS = {name: kind for kind, names in _ROOTS_BY_KIND.items() for name in names}


def kernel_kind_of(value: Value, views: Views) -> KernelKind | None:
    """The kind of kernel that an equation begins; None if it begins none."""
    kind = KERNEL_KINDS.get(value.op.name)
    return kind if kind is not None and kind.accepts(value, views, host()) else None
