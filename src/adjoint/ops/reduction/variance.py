"""Variance, standard deviation and Euclidean norm: one op in eager mode, composed of other ops in compiled steps."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider, try_small_reduction
from adjoint.core.op.elementwise_kernels import DIVIDE, MULTIPLY
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.op.op import op_of
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.size import as_float
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction
from adjoint.ops.reduction.summation import HALF, SINGLE, add_up

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

Axes = tuple[int, ...]
SMALLEST_SURE, LARGEST_SURE = 1e-24, 1e38  # variances between which no square of float32 left its range
MAX_TRANSPOSED_ELEMENTS = 2**12  # elements up to which rows are copied from columns: NumPy takes ten calls for them
WIDER = {HALF: SINGLE, SINGLE: np.dtype(np.float64)}
DEVIATION, DEVIATION_OF_ALL = SmallArrayKernel("deviation"), SmallArrayKernel("deviation_of_all")
NORM, NORM_OF_ALL = SmallArrayKernel("norm"), SmallArrayKernel("norm_of_all")
VARIANCE, VARIANCE_OF_ALL = SmallArrayKernel("variance"), SmallArrayKernel("variance_of_all")


def _center(x: Operand, axes: Axes) -> Operand:
    if movement.is_bare(x):
        centred: Array = x - op_of(reduction.mean).evaluate(x, axes=axes, keepdims=True)
        return centred
    return arithmetic.sub(x, reduction.mean(x, axes=axes, keepdims=True))


def _wide_variance(x: Tensor, axes: Axes, keepdims: bool, freedom: float) -> Tensor:
    """Return the variance of halves in float32, that of float32 in float64, where its squares have room."""
    kind = WIDER.get(x.array.dtype)
    centred = _center(x if kind is None else select.cast(x, dtype=kind), axes)
    total = reduction.sum(arithmetic.square(centred), axes=axes, keepdims=keepdims)
    missed = arithmetic.square(reduction.sum(centred, axes=axes, keepdims=keepdims))  # by what the mean was rounded
    count = as_float(prod([x.shape[a] for a in axes]))
    missed = select.where(comparison.eq(missed, np.inf), 0.0, arithmetic.div(missed, count))  # inf - inf is no number
    return arithmetic.div(arithmetic.sub(total, missed), freedom)


def _round_to_dtype_of(x: Tensor, out: Tensor) -> Tensor:
    return out if out.array.dtype == x.array.dtype else select.cast(out, dtype=x.array.dtype)


def _keep_axes(x: Operand, shape: Shape, axes: Axes) -> Operand:
    """Return a result with its reduced axes as size 1."""
    if movement.is_bare(x):
        return x.reshape(reduction.kept_shape(shape, axes))
    return movement.reshape(x, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)]))


@with_eager_fast_path(
    composite=lambda x, **params: _round_to_dtype_of(x, _wide_variance(x, **params)),
    node="VarBackward0",
    dx=lambda g, x, axes, freedom: _keep_axes(g, x.shape, axes) * _center(x, axes) * (2.0 / freedom),
)
def variance(x: Array, *, axes: Axes, keepdims: bool, freedom: float) -> Operand:
    """Σ(x - mean)² / freedom over `axes`."""
    if (found := _try_kernels(VARIANCE, VARIANCE_OF_ALL, x, axes, keepdims, freedom)) is not None:
        return found
    return reduction.round_to(reduction.row_major(_variance_array(x, axes, keepdims, freedom), keepdims), x.dtype)


def _try_kernels(
    rows: SmallArrayKernel, whole: SmallArrayKernel, x: Array, axes: Axes, keepdims: bool, *numbers: float
) -> Array | None:
    """Reduce an array by a routine; None if NumPy should, as where kept dimensions are to lie as those of x."""
    if keepdims and not x.flags.c_contiguous:
        return None
    if len(axes) == 1 < x.ndim and axes[0] != x.ndim - 1 and x.size <= MAX_TRANSPOSED_ELEMENTS:
        found = rows.call(x.transpose(_move_last(axes[0], x.ndim)), *numbers) if kernel_provider.enabled else None
    else:
        found = try_small_reduction(rows, whole, x, axes, *numbers)
    return found if found is None or not keepdims else found.reshape(reduction.kept_shape(x.shape, axes))


@cache
def _move_last(axis: int, rank: int) -> Axes:
    """Return the permutation that puts a dimension last."""
    return (*range(axis), *range(axis + 1, rank), axis)


def _variance_array(x: Array, axes: Axes, keepdims: bool, freedom: float) -> Array:
    """Return the variance in the type of x, or a wider one: float64 where squares of float32 overflow or vanish."""
    count = float(prod([x.shape[a] for a in axes]))
    centred = x - add_up(x, axes, True) / count
    missed = np.square(add_up(centred, axes, keepdims)) / count  # by what the mean was rounded
    missed = np.where(np.isinf(missed), 0, missed)  # inf - inf is no number
    squares = np.square(centred, out=centred if x.ndim else None)
    out: Array = (add_up(squares, axes, keepdims) - missed) / freedom
    in_range = x.dtype != SINGLE or not out.size or (out.min() > SMALLEST_SURE and out.max() < LARGEST_SURE)
    return out if in_range else _variance_array(x.astype(np.float64), axes, keepdims, freedom)


def safe_sqrt(x: Tensor) -> Operand:
    """√x, with the gradient 0 where x = 0."""
    if not (mode.recording or mode.needs_slow_path) if nondefault.count else x.node is None:
        return arithmetic.sqrt(x)  # of what is not recorded
    zero = comparison.eq(x, 0.0)
    return select.where(zero, 0.0, arithmetic.sqrt(select.where(zero, 1.0, x)))


def _deviation_dx(g: Operand, x: Operand, out: Operand, axes: Axes, freedom: float) -> Operand:
    if movement.is_bare(g) and movement.is_bare(out):
        slope: Operand = np.divide(g, out * freedom, out=np.zeros_like(g), where=out != 0.0)
        return _keep_axes(slope, x.shape, axes) * _center(x, axes)
    still = comparison.eq(out, 0.0)
    slope = select.where(still, 0.0, g / select.where(still, 1.0, out * freedom))
    return _keep_axes(slope, x.shape, axes) * _center(x, axes)


@with_eager_fast_path(
    composite=lambda x, **params: _round_to_dtype_of(x, safe_sqrt(_wide_variance(x, **params))),
    node="StdBackward0",
    dx=_deviation_dx,
)
def deviation(x: Array, *, axes: Axes, keepdims: bool, freedom: float) -> Operand:
    """√ of `variance`; at 0 its gradient is taken as 0."""
    if (found := _try_kernels(DEVIATION, DEVIATION_OF_ALL, x, axes, keepdims, freedom)) is not None:
        return found
    out = np.sqrt(_variance_array(x, axes, keepdims, freedom))
    return reduction.round_to(reduction.row_major(out, keepdims), x.dtype)


def _euclidean_norm_dx(g: Operand, x: Operand, out: Operand, axes: Axes) -> Operand:
    if type(g) is np.ndarray and type(out) is np.ndarray:
        slope = np.divide(g, out, out=np.zeros_like(g), where=out != 0.0)
        # x first: the gradient lies as x does
        return x * slope.reshape(reduction.kept_shape(x.shape, axes))
    still = comparison.eq(out, 0.0)
    slope = select.where(still, 0.0, g / select.where(still, 1.0, out))
    return x * _keep_axes(slope, x.shape, axes)


@with_eager_fast_path(
    composite=lambda x, **params: safe_sqrt(reduction.sum(arithmetic.square(x), **params)),
    node="LinalgVectorNormBackward0",
    preserves_strides=True,
    dx=_euclidean_norm_dx,
)
def euclidean_norm(x: Array, *, axes: Axes, keepdims: bool) -> Operand:
    """√Σx² over `axes`, of real numbers; at 0 its gradient is taken as 0."""
    if (found := _try_kernels(NORM, NORM_OF_ALL, x, axes, keepdims)) is not None:
        return found
    return np.sqrt(op_of(reduction.sum).evaluate(np.square(x), axes=axes, keepdims=keepdims))


def _unit_vectors_dx(g: Operand, x: Operand, axis: int, least: float) -> Operand:
    """(g - y Σ g y) / length, with y = x / length; where the length is `least`, it does not depend on x."""
    if movement.is_bare(g) and movement.is_bare(x):
        norm = op_of(euclidean_norm).evaluate(x, axes=(axis,), keepdims=True)
        length = np.maximum(norm, least)
        unit = DIVIDE.call(x, length)
        along = op_of(reduction.sum).evaluate(MULTIPLY.call(g, unit), axes=(axis,), keepdims=True)
        along = np.where(norm >= least, along, 0.0).astype(x.dtype, copy=False)
        return DIVIDE.call(g - MULTIPLY.call(unit, along), length)
    norm = euclidean_norm(x, axes=(axis,), keepdims=True)
    length = select.clamp_range(norm, low=least, high=None)
    unit = arithmetic.div(x, length)
    along = reduction.sum(arithmetic.mul(g, unit), axes=(axis,), keepdims=True)
    along = select.where(comparison.ge(norm, least), along, 0.0)
    return arithmetic.div(arithmetic.sub(g, arithmetic.mul(unit, along)), length)


@with_eager_fast_path(
    composite=lambda x, axis, least: arithmetic.div(
        x, select.clamp_range(euclidean_norm(x, axes=(axis,), keepdims=True), low=least, high=None)
    ),
    node="DivBackward0",
    preserves_strides=True,
    dx=_unit_vectors_dx,
)
def unit_vectors(x: Array, *, axis: int, least: float) -> Operand:
    """x / max(‖x‖, least) along `axis`, of real numbers."""
    length = np.maximum(op_of(euclidean_norm).evaluate(x, axes=(axis,), keepdims=True), least)
    return DIVIDE.call(x, length)
