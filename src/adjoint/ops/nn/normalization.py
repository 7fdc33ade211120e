"""Normalisation to mean 0 and variance 1: one op in eager mode, composed of other ops in compiled steps."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.op.eager_kernels import KernelFunction, with_eager_kernel
from adjoint.core.op.families import primitive
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.tensor import wrap
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.movement import movement
from adjoint.ops.nn import native_norms
from adjoint.ops.nn.native_norms import MAX_ELEMENTS, take_gradient, take_moments
from adjoint.ops.reduction import reduction
from adjoint.ops.reduction.summation import add_up

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

Axes = tuple[int, ...]
SECONDS_PER_ELEMENT = 4e-9  # seconds that NumPy takes for an element


def with_moments(x: Operand, axes: Axes, eps: float) -> tuple[Operand, Operand, Operand]:
    """(x - mean) / √(var + eps) over `axes`, the mean, and the (biased) variance."""
    mean = reduction.mean(x, axes=axes, keepdims=True)
    centred = x - mean
    var = reduction.mean(centred * centred, axes=axes, keepdims=True)
    return centred * arithmetic.rsqrt(var + eps), mean, var


def standardize_by_ops(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, axes: Axes, eps: float) -> Tensor:
    """Compute `standardize` by ops."""
    out = with_moments(x, axes, eps)[0]
    out = out if weight is None else out * _lay_beside(weight, x, axes)
    return out if bias is None else out + _lay_beside(bias, x, axes)


def _lay_beside(vector: Operand, x: Operand, axes: Axes) -> Operand:
    """Return a weight or bias so that it broadcasts with x: one number for each channel lies along dimension 1."""
    return _spread_channels(vector, x) if _is_of_channels(vector.shape, len(x.shape), axes) else vector


def _is_of_channels(shape: Shape, rank: int, axes: Axes) -> bool:
    """Return whether a weight or bias has a number for each channel that does not broadcast as it is."""
    return rank > 2 and len(shape) == 1 and axes == (0, *range(2, rank))


def moments(x: Tensor, axes: Axes) -> tuple[Tensor, Tensor]:
    """The mean and the (biased) variance over `axes`, without history."""
    kept = take_moments(x.array) if len(axes) == x.array.ndim - 1 else None
    found = _moments.find((x.array, axes), {}) if kept is None else kept
    if found is not None:
        return wrap(found[0]), wrap(found[1])
    return _mean_and_variance(x.detach(), axes)


def _mean_and_variance(x: Tensor, axes: Axes) -> tuple[Tensor, Tensor]:
    return with_moments(x, axes, 0.0)[1:]


_moments = KernelFunction("moments", _mean_and_variance, SECONDS_PER_ELEMENT)


@with_eager_kernel(2 * SECONDS_PER_ELEMENT)
def _dx_by_ops(g: Operand, x: Operand, weight: Operand, axes: Axes, eps: float) -> Operand:
    """(ĝ - mean ĝ - x̂ mean(ĝ x̂)) / √(var + eps), with ĝ = g weight and x̂ the normalised x."""
    mean = reduction.mean(x, axes=axes, keepdims=True)
    centred = x - mean
    scale = arithmetic.rsqrt(reduction.mean(centred * centred, axes=axes, keepdims=True) + eps)
    out = centred * scale
    g = g if weight is None else g * _lay_beside(weight, x, axes)
    along = reduction.mean(g * out, axes=axes, keepdims=True)
    return (g - reduction.mean(g, axes=axes, keepdims=True) - out * along) * scale


@with_eager_kernel(SECONDS_PER_ELEMENT)
def _dweight_by_ops(g: Operand, x: Operand, weight_shape: Shape, axes: Axes, eps: float) -> Operand:
    slopes = with_moments(x, axes, eps)[0] * g
    if _is_of_channels(weight_shape, len(x.shape), axes):
        return reduction.sum(slopes, axes=axes, keepdims=False)
    return reduction.sum_to(slopes, weight_shape)


def _dx(g: Operand, x: Operand, weight: Operand, axes: Axes, eps: float) -> Operand:
    found = native_norms.gradient(g, x, weight, axes, eps) if type(g) is np.ndarray else None
    if found is not None:
        return found
    return _dx_by_ops(g, x, weight, axes, eps)


def _dweight(g: Operand, x: Operand, weight_shape: Shape, axes: Axes, eps: float) -> Operand:
    found = take_gradient("weight", g, weight_shape) if type(g) is np.ndarray else None
    if found is not None:
        return found
    return _dweight_by_ops(g, x, weight_shape, axes, eps)


def _dbias(g: Operand, bias_shape: Shape, axes: Axes) -> Operand:
    found = take_gradient("bias", g, bias_shape) if type(g) is np.ndarray else None
    if found is not None:
        return found
    return reduction.sum(g, axes=axes, keepdims=False) if _is_of_channels(bias_shape, len(g.shape), axes) else g


def _title(made: Any) -> str:
    axes, rank = made.params["axes"], len(made.shape)
    return "NativeBatchNormBackward0" if axes == (0, *range(2, rank)) and rank > 1 else "NativeLayerNormBackward0"


@primitive(
    composite=standardize_by_ops,
    native=lambda x, *_, **__: 0.0 if x.size <= MAX_ELEMENTS and x.flags.c_contiguous else x.size * SECONDS_PER_ELEMENT,
    node=_title,
    spec=lambda x, weight=None, bias=None, *, axes, eps: Spec(x.shape, x.dtype),
    dx=_dx,
    dweight=_dweight,
    dbias=_dbias,
)
def standardize(x: Array, weight: Array | None, bias: Array | None, *, axes: Axes, eps: float) -> Array:
    """(x - mean) / √(var + eps) over `axes`, then · weight + bias: None, of channels (C,), or broadcast to x."""
    found = native_norms.normalize(x, weight, bias, axes, eps)
    if found is not None:
        return found
    count = float(prod([x.shape[a] for a in axes]))
    out = np.subtract(x, add_up(x, axes, True) / count, order="C")
    variance = add_up(out * out, axes, True) / count
    out *= 1 / np.sqrt(variance + out.dtype.type(eps))
    per_channel = (1, -1, *(1,) * (x.ndim - 2))
    if weight is not None:
        out *= weight.reshape(per_channel) if _is_of_channels(weight.shape, x.ndim, axes) else weight
    if bias is not None:
        out += bias.reshape(per_channel) if _is_of_channels(bias.shape, x.ndim, axes) else bias
    return reduction.round_to(out, x.dtype)


def standardize_groups_by_ops(
    x: Operand, weight: Operand = None, bias: Operand = None, *, groups: int, eps: float
) -> Tensor:
    """Compute `standardize_groups` by ops."""
    n, *rest = x.shape
    grouped = movement.reshape(x, shape=(n, groups, movement.numel(tuple(rest)) // groups))
    out: Operand = movement.reshape(with_moments(grouped, (2,), eps)[0], shape=tuple(x.shape))
    out = out if weight is None else out * _spread_channels(weight, x)
    return out if bias is None else out + _spread_channels(bias, x)


def _spread_channels(vector: Operand, x: Operand) -> Operand:
    return movement.reshape(vector, shape=(1, x.shape[1], *(1 for _ in x.shape[2:])))


def _group_dx(g: Operand, x: Operand, weight: Operand, groups: int, eps: float) -> Operand:
    found = native_norms.group_gradient(g, x, weight, groups, eps) if type(g) is np.ndarray else None
    if found is not None:
        return found
    n, *rest = x.shape
    shape = (n, groups, movement.numel(tuple(rest)) // groups)
    g = g if weight is None else g * _spread_channels(weight, x)
    grouped = _dx_by_ops(movement.reshape(g, shape=shape), movement.reshape(x, shape=shape), None, (2,), eps)
    return movement.reshape(grouped, shape=tuple(x.shape))


def _group_dweight(g: Operand, x: Operand, weight_shape: Shape, groups: int, eps: float) -> Operand:
    found = take_gradient("weight", g, weight_shape) if type(g) is np.ndarray else None
    if found is not None:
        return found
    normal = standardize_groups_by_ops(x, groups=groups, eps=eps)
    return reduction.sum(normal * g, axes=(0, *range(2, len(x.shape))), keepdims=False)


def _group_dbias(g: Operand, bias_shape: Shape) -> Operand:
    found = take_gradient("bias", g, bias_shape) if type(g) is np.ndarray else None
    if found is not None:
        return found
    return reduction.sum(g, axes=(0, *range(2, len(g.shape))), keepdims=False)


@primitive(
    composite=standardize_groups_by_ops,
    native=lambda x, *_, **__: 0.0 if x.flags.c_contiguous else x.size * SECONDS_PER_ELEMENT,
    node="NativeGroupNormBackward0",
    spec=lambda x, weight=None, bias=None, *, groups, eps: Spec(x.shape, x.dtype),
    dx=_group_dx,
    dweight=_group_dweight,
    dbias=_group_dbias,
)
def standardize_groups(x: Array, weight: Array | None, bias: Array | None, *, groups: int, eps: float) -> Array:
    """(x - mean) / √(var + eps) over each group of channels of each sample of (N, C, …), then · weight + bias (C,)."""
    found = native_norms.normalize_groups(x, weight, bias, groups, eps)
    if found is not None:
        return found
    out: Array = op_of(standardize).evaluate(x.reshape(len(x), groups, -1), None, None, axes=(2,), eps=eps)
    out = out.reshape(x.shape)
    per_channel = (1, x.shape[1], *(1 for _ in x.shape[2:]))
    if weight is not None:
        out *= weight.reshape(per_channel)
    if bias is not None:
        out += bias.reshape(per_channel)
    return out
