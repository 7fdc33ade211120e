"""Variance and standard deviation: one op in eager mode, composed of other ops in compiled steps."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, try_small_reduction
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction
from adjoint.ops.reduction.summation import HALF, SINGLE, add_up

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

Axes = tuple[int, ...]
VARIANCE, VARIANCE_OF_ALL = SmallArrayKernel("variance"), SmallArrayKernel("variance_of_all")


def _center(x: Operand, axes: Axes) -> Tensor:
    return arithmetic.sub(x, reduction.mean(x, axes=axes, keepdims=True))


def _variance(x: Tensor, *, axes: Axes, keepdims: bool, freedom: float) -> Tensor:
    wide = select.cast(x, dtype=SINGLE) if x.array.dtype == HALF else x
    centred = _center(wide, axes)
    total = reduction.sum(arithmetic.square(centred), axes=axes, keepdims=keepdims)
    missed = arithmetic.square(reduction.sum(centred, axes=axes, keepdims=keepdims))  # by what the mean was rounded
    count = float(prod([x.shape[a] for a in axes]))
    missed = select.where(comparison.eq(missed, np.inf), 0.0, arithmetic.div(missed, count))  # inf - inf is no number
    out = arithmetic.div(arithmetic.sub(total, missed), freedom)
    return out if wide is x else select.cast(out, dtype=HALF)


def _keep_axes(x: Operand, shape: Shape, axes: Axes) -> Tensor:
    """Return a result with its reduced axes as size 1."""
    return movement.reshape(x, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)]))


@with_eager_fast_path(
    composite=_variance,
    node="VarBackward0",
    dx=lambda g, x, axes, freedom: _keep_axes(g, x.shape, axes) * _center(x, axes) * (2.0 / freedom),
)
def variance(x: Array, *, axes: Axes, keepdims: bool, freedom: float) -> Operand:
    """Σ(x - mean)² / freedom over `axes`."""
    if not keepdims and (found := try_small_reduction(VARIANCE, VARIANCE_OF_ALL, x, axes, freedom)) is not None:
        return found
    count = float(prod([x.shape[a] for a in axes]))
    centred = x - add_up(x, axes, True) / count
    missed = np.square(add_up(centred, axes, keepdims)) / count  # by what the mean was rounded
    missed = np.where(np.isinf(missed), 0, missed)  # inf - inf is no number
    squares = np.square(centred, out=centred if x.ndim else None)
    total = (add_up(squares, axes, keepdims) - missed) / freedom
    return reduction.round_to(reduction.row_major(total, keepdims), x.dtype)


def safe_sqrt(x: Tensor) -> Operand:
    """√x, with the gradient 0 where x = 0."""
    zero = comparison.eq(x, 0.0)
    return select.where(zero, 0.0, arithmetic.sqrt(select.where(zero, 1.0, x)))


def _deviation_dx(g: Array, x: Array, out: Array, axes: Axes, freedom: float) -> Tensor:
    still = comparison.eq(out, 0.0)
    slope = select.where(still, 0.0, g / select.where(still, 1.0, out * freedom))
    return _keep_axes(slope, x.shape, axes) * _center(x, axes)


@with_eager_fast_path(
    composite=lambda x, **params: safe_sqrt(_variance(x, **params)), node="StdBackward0", dx=_deviation_dx
)
def deviation(x: Array, *, axes: Axes, keepdims: bool, freedom: float) -> Operand:
    """√ of `variance`; at 0 its gradient is taken as 0."""
    return np.sqrt(op_of(variance).evaluate(x, axes=axes, keepdims=keepdims, freedom=freedom))
