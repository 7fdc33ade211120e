"""Native evaluation of normalisations and their gradients, for arrays of any shape; None where NumPy should do it.

The gradients in x, weight and bias come from one pass. The rules of an op run one after another: the first one computes
them all and keeps those of the others.
"""

from __future__ import annotations

import sys
import threading
from functools import lru_cache
from math import prod
from typing import NamedTuple
from weakref import ref

import numpy as np

from adjoint.core.op.eager_kernels import LateKernel, SmallArrayKernel, kernel_provider
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.typing import Array, NumpyDtype, Shape

LAYER_NORM, LAYER_NORM_DX = SmallArrayKernel("layer_norm"), SmallArrayKernel("layer_norm_dx")
BATCH_NORM, BATCH_NORM_DX = SmallArrayKernel("batch_norm"), SmallArrayKernel("batch_norm_dx")
COLUMNS, COLUMNS_DX = SmallArrayKernel("batch_norm_columns"), SmallArrayKernel("batch_norm_dx_columns")
RUNNING_NORM, RUNNING_COLUMNS = LateKernel("running_norm"), LateKernel("running_norm_columns")
MOVE_STATISTIC = LateKernel("move_statistic")
GROUP_NORM, GROUP_NORM_DX = SmallArrayKernel("group_norm"), SmallArrayKernel("group_norm_dx")
MAX_ELEMENTS = 2**22  # of more, kernels for their shape divide the work among threads
MAX_ROW_ELEMENTS = 2**15  # that a layer norm adds in the type of the elements
MIN_PLANE_ELEMENTS = 8  # of fewer in a channel, loops over them would be mostly overhead
ROWS_TO_ADD = 128  # rows of a layer norm whose gradients in weight and bias are added in one row
Axes = tuple[int, ...]


class Moments(NamedTuple):
    """The mean and the variance of each channel of `x`."""

    x: ref[Array]
    mean: Array
    var: Array


class _Kept(threading.local):
    """The last results beside those that were asked for."""

    moments: Moments | None = None
    gradients: tuple[ref[Array], int, dict[str, Array]] | None = None


_kept = _Kept()


def normalize(x: Array, weight: Array | None, bias: Array | None, axes: Axes, eps: float) -> Array | None:
    """(x - mean) / √(var + eps) over `axes`, then · weight + bias."""
    if not _is_possible(x):
        return None
    found: Array | None
    if channels := _channels_of(x, axes):
        count, flat, plane = channels
        w, b = _vector(weight, count, 1.0, x), _vector(bias, count, 0.0, x)
        mean, var = np.empty(count, x.dtype), np.empty(count, x.dtype)
        kernel = COLUMNS if plane == 1 else BATCH_NORM
        found = kernel.call(flat, w, b, mean, var, eps)
        if found is not None:
            _kept.moments = Moments(ref(x), mean, var)
    elif length := _row_of(x, axes, weight, bias):
        found = LAYER_NORM.call(
            x if len(axes) == 1 else x.reshape(-1, length), *_row_vectors(weight, bias, length, x), eps
        )
    else:
        return None
    return found if found is None or found.shape == x.shape else found.reshape(x.shape)


def normalize_rows(x: Array, weight: Array, bias: Array, eps: float) -> Array | None:
    """(x - mean) / √(var + eps) over the last dimension, then · weight + bias, which are as long."""
    if not _is_possible(x) or len(weight) > MAX_ROW_ELEMENTS:
        return None
    found: Array | None = LAYER_NORM.call(x, weight, bias, eps)
    return found


def normalize_by_statistics(
    x: Array, mean: Array, var: Array, weight: Array | None, bias: Array | None, eps: float
) -> Array | None:
    """(x - mean) / √(var + eps) · weight + bias for the channels of (N, C, …), to the bit as by one op after another.

    None where a weight or bias is missing, of which no op would be.
    """
    if weight is None or bias is None or not _is_possible(x, sys.maxsize):
        return None
    n, c, *rest = x.shape
    found: Array | None
    if rest:
        found = RUNNING_NORM.call(x.reshape(n, c, prod(rest)), mean, var, weight, bias, eps)
    else:
        found = RUNNING_COLUMNS.call(x, mean, var, weight, bias, eps)
    return None if found is None else found.reshape(x.shape)


def move_statistic(old: Array, new: Array, momentum: float, factor: float) -> bool:
    """Write old (1 - momentum) + new · factor · momentum into `old`; False where NumPy should."""
    if not kernel_provider.enabled:
        return False
    return MOVE_STATISTIC.call(old, new, 1 - momentum, float(factor), momentum) is not None


def normalize_groups(x: Array, weight: Array | None, bias: Array | None, groups: int, eps: float) -> Array | None:
    """Normalise each group of channels of each sample of (N, C, …); weight and bias are (C,)."""
    n, c, *rest = x.shape
    plane = prod(rest)
    if plane < MIN_PLANE_ELEMENTS or not _is_possible(x, sys.maxsize):
        return None
    w, b = _vector(weight, c, 1.0, x), _vector(bias, c, 0.0, x)
    found: Array | None = GROUP_NORM.call(x.reshape(n * c, plane), w, b, eps, float(c // groups))
    return None if found is None else found.reshape(x.shape)


def take_moments(x: Array) -> tuple[Array, Array] | None:
    """The mean and the variance of each channel, if `normalize` has just found them."""
    kept, _kept.moments = _kept.moments, None
    return (kept.mean, kept.var) if kept is not None and kept.x() is x else None


def gradient(g: Array, x: Array, weight: Array | None, axes: Axes, eps: float) -> Array | None:
    """The gradient of `normalize` in x; keeps those in weight and bias for `take_gradient`."""
    if not _is_possible(x) or g.dtype != x.dtype or g.shape != x.shape:
        return None
    above = g if g.flags.c_contiguous else np.ascontiguousarray(g)
    if channels := _channels_of(x, axes):
        count, flat, plane = channels
        dweight, dbias = np.empty(count, x.dtype), np.empty(count, x.dtype)
        kernel = COLUMNS_DX if plane == 1 else BATCH_NORM_DX
        w = _vector(weight, count, 1.0, x)
        found: Array | None = kernel.call(flat, above.reshape(flat.shape), w, dweight, dbias, eps)
    elif length := _row_of(x, axes, weight, weight):
        flat = x if len(axes) == 1 else x.reshape(-1, length)
        sums = np.zeros((2, -(-x.size // length // ROWS_TO_ADD), length), x.dtype)
        dweight, dbias = sums
        w = _row_vectors(weight, None, length, x)[0]
        found = LAYER_NORM_DX.call(above.reshape(flat.shape), flat, w, dweight, dbias, eps)
        dweight, dbias = (part[0] if len(part) == 1 else part.sum(0) for part in (dweight, dbias))
    else:
        return None
    return _keep(found, g, x, dweight, dbias)


def group_gradient(g: Array, x: Array, weight: Array | None, groups: int, eps: float) -> Array | None:
    """The gradient of `normalize_groups` in x; keeps those in weight and bias for `take_gradient`."""
    n, c, *rest = x.shape
    plane = prod(rest)
    if plane < MIN_PLANE_ELEMENTS or not _is_possible(x, sys.maxsize) or g.dtype != x.dtype or g.shape != x.shape:
        return None
    flat, above = x.reshape(n * c, plane), np.ascontiguousarray(g).reshape(n * c, plane)
    dweight, dbias = np.zeros(c, x.dtype), np.zeros(c, x.dtype)
    w = _vector(weight, c, 1.0, x)
    found: Array | None = GROUP_NORM_DX.call(flat, above, w, dweight, dbias, eps, float(c // groups))
    return _keep(found, g, x, dweight, dbias)


def take_gradient(name: str, g: Array, shape: Shape) -> Array | None:
    """The gradient in "weight" or "bias", if `gradient` has just found it for this g."""
    kept = _kept.gradients
    if kept is None or kept[0]() is not g or kept[1] != mutation_log.last:
        return None
    found = kept[2].pop(name, None)
    return None if found is None else found.reshape(shape)


def _keep(found: Array | None, g: Array, x: Array, dweight: Array, dbias: Array) -> Array | None:
    if found is None:
        return None
    _kept.gradients = ref(g), mutation_log.last, {"weight": dweight, "bias": dbias}
    return found if found.shape == x.shape else found.reshape(x.shape)


def _is_possible(x: Array, most: int = MAX_ELEMENTS) -> bool:
    return kernel_provider.enabled and 0 < x.size <= most and x.flags.c_contiguous and x.dtype.char in "fd"


@lru_cache(64)
def _axes_around_channels(rank: int) -> Axes:
    return (0, *range(2, rank))


@lru_cache(64)
def _last_axes(rank: int, count: int) -> Axes:
    return tuple(range(rank - count, rank))


def _channels_of(x: Array, axes: Axes) -> tuple[int, Array, int] | None:
    """The number of channels, x as (N, C, elements) or (N, C), and the elements; None if `axes` leave no channels."""
    if x.ndim < 2 or axes != _axes_around_channels(x.ndim):
        return None
    n, c, *rest = x.shape
    plane = prod(rest)
    if plane == 1:
        return c, x.reshape(n, c), 1
    return (c, x.reshape(n, c, plane), plane) if plane >= MIN_PLANE_ELEMENTS else None


def _row_of(x: Array, axes: Axes, *vectors: Array | None) -> int:
    """The number of elements of the last dimensions, if `axes` are these, and the vectors are as long; else 0."""
    shape = x.shape[x.ndim - len(axes) :]
    if axes != _last_axes(x.ndim, len(axes)):
        return 0
    for v in vectors:  # a third of the time of `any` and a generator
        if v is not None and v.shape != shape:
            return 0
    length = shape[0] if len(shape) == 1 else prod(shape)
    return length if length <= MAX_ROW_ELEMENTS else 0


def _row_vectors(weight: Array | None, bias: Array | None, length: int, x: Array) -> tuple[Array, Array]:
    return _vector(weight, length, 1.0, x), _vector(bias, length, 0.0, x)


def _vector(given: Array | None, count: int, otherwise: float, x: Array) -> Array:
    """A weight or bias as a row, or one of numbers that change nothing."""
    if given is None:
        return _constant_vector(count, otherwise, x.dtype)
    if given.shape == (count,) and given.flags.c_contiguous:
        return given
    row: Array = np.ascontiguousarray(given).reshape(count)
    return row


@lru_cache(64)
def _constant_vector(count: int, value: float, dtype: NumpyDtype) -> Array:
    """So many equal numbers, which kernels only read."""
    return np.full(count, value, dtype)
