"""The equations that have a kernel of their own kind: which kind that is, and what of them it accepts.

How a group with such a root is lowered is said above fusion, in `lowerings`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import View
from adjoint.compiler.llvm.jit.target import Target, host

Views = dict[Value, View]
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
FEW = 64  # elements that may follow one another one by one


class Kind(NamedTuple):
    """A kind of kernel: which equations can be its root, and whether what follows that element by element joins."""

    accepts: Callable[[Value, Views, Target], bool]
    joins: Callable[[Value], bool]


# What plans a kind is imported when the first such equation comes: most steps have few kinds.


def _can_multiply(value: Value, views: Views, target: Target) -> bool:
    return value.dtype in FLOATS


def _can_read(value: Value, views: Views, target: Target) -> bool:
    from adjoint.compiler.kernels.gather_scatter.gather import plan_reading

    return bool(value.shape) and plan_reading(value, target, views.__getitem__) is not None


def _can_write(value: Value, views: Views, target: Target) -> bool:
    from adjoint.compiler.kernels.gather_scatter.scatter import plan_writing

    return plan_writing(value, target, views.__getitem__) is not None


def _can_slide_windows(value: Value, views: Views, target: Target) -> bool:
    from adjoint.compiler.kernels.conv_pool.windowed_op import plan_spatial

    return plan_spatial(value, target) is not None


def _can_draw(value: Value, views: Views, target: Target) -> bool:
    from adjoint.compiler.kernels.random.draw import plan_draw

    return not value.operands and plan_draw(value) is not None


def _can_attend(value: Value, views: Views, target: Target) -> bool:
    from adjoint.compiler.kernels.attention.call import reason_against

    return not reason_against(value, views, target)


def _has_elements_side_by_side(product: Value) -> bool:
    """True if what follows the product is part of its kernel: not for one column, whose elements come one by one."""
    return product.shape[-1] > 1 or product.size <= FEW


PRODUCT = Kind(_can_multiply, _has_elements_side_by_side)
READING = Kind(_can_read, lambda root: True)
WRITING = Kind(_can_write, lambda root: False)
SPATIAL = Kind(_can_slide_windows, lambda root: True)
DRAW = Kind(_can_draw, lambda root: False)
ATTENTION = Kind(_can_attend, lambda root: False)

KINDS = {
    "attention": ATTENTION,
    "attention_gradient": ATTENTION,
    "bmm": PRODUCT,
    "cat": READING,
    "coin": DRAW,
    "convolution": SPATIAL,
    "convolution_input": SPATIAL,
    "convolution_weight": SPATIAL,
    "dropout_factor": DRAW,
    "exponential": DRAW,
    "gated_mm": PRODUCT,
    "gather": READING,
    "index": READING,
    "index_add": WRITING,
    "max_pool": SPATIAL,
    "max_pool_input": SPATIAL,
    "mm": PRODUCT,
    "normal": DRAW,
    "pad": WRITING,
    "put_index": WRITING,
    "put_slice": WRITING,
    "randint": DRAW,
    "scatter": WRITING,
    "scatter_add": WRITING,
    "scatter_reduce": WRITING,
    "uniform": DRAW,
    "unslice": WRITING,
    "window_sum": SPATIAL,
    "window_sum_input": SPATIAL,
}


def kind_of(value: Value, views: Views) -> Kind | None:
    """The kind of kernel that an equation begins; None if it begins none."""
    kind = KINDS.get(value.op.name)
    return kind if kind is not None and kind.accepts(value, views, host()) else None
