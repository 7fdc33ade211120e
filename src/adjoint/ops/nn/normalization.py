"""Normalisation to mean 0 and variance 1: one op in eager mode, composed of other ops in compiled steps."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.op.eager_kernels import KernelFunction, SmallArrayKernel, kernel_provider, with_eager_kernel
from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.tensor import wrap
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.reduction import reduction
from adjoint.ops.reduction.summation import add_up

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

Axes = tuple[int, ...]
LAYER_NORM, LAYER_NORM_DX, LAYER_NORM_DWEIGHT = map(
    SmallArrayKernel, ("layer_norm", "layer_norm_dx", "layer_norm_dweight")
)
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
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def moments(x: Tensor, axes: Axes) -> tuple[Tensor, Tensor]:
    """The mean and the (biased) variance over `axes`, without history."""
    found = _moments.find((x.array, axes), {})
    if found is not None:
        return wrap(found[0]), wrap(found[1])
    return _mean_and_variance(x.detach(), axes)


def _mean_and_variance(x: Tensor, axes: Axes) -> tuple[Tensor, Tensor]:
    return with_moments(x, axes, 0.0)[1:]


_moments = KernelFunction("moments", _mean_and_variance, SECONDS_PER_ELEMENT)


@with_eager_kernel(2 * SECONDS_PER_ELEMENT)
def _dx(g: Operand, x: Operand, weight: Operand, axes: Axes, eps: float) -> Operand:
    """(ĝ - mean ĝ - x̂ mean(ĝ x̂)) / √(var + eps), with ĝ = g weight and x̂ the normalised x."""
    if kernel_provider.enabled and weight is not None and axes == (len(x.shape) - 1,) and weight.shape == x.shape[-1:]:
        found = LAYER_NORM_DX.call(g, x, weight, eps)
        if found is not None:
            return found
    mean = reduction.mean(x, axes=axes, keepdims=True)
    centred = x - mean
    scale = arithmetic.rsqrt(reduction.mean(centred * centred, axes=axes, keepdims=True) + eps)
    out = centred * scale
    g = g if weight is None else g * weight
    along = reduction.mean(g * out, axes=axes, keepdims=True)
    return (g - reduction.mean(g, axes=axes, keepdims=True) - out * along) * scale


@with_eager_kernel(SECONDS_PER_ELEMENT)
def _dweight(g: Operand, x: Operand, weight_shape: Shape, axes: Axes, eps: float) -> Operand:
    if kernel_provider.enabled and axes == (len(x.shape) - 1,) and weight_shape == x.shape[-1:]:
        found = LAYER_NORM_DWEIGHT.call(g, x, eps)
        if found is not None:
            return found
    return reduction.sum_to(with_moments(x, axes, eps)[0] * g, weight_shape)


def _shape(x: Array | None) -> Shape | None:
    return None if x is None else x.shape


def _title(made: Any) -> str:
    axes, rank = made.params["axes"], len(made.shape)
    return "NativeBatchNormBackward0" if axes == (0, *range(2, rank)) and rank > 1 else "NativeLayerNormBackward0"


@primitive(
    composite=standardize_by_ops,
    native=SECONDS_PER_ELEMENT,
    node=_title,
    spec=lambda x, weight=None, bias=None, *, axes, eps: Spec(x.shape, x.dtype),
    dx=_dx,
    dweight=_dweight,
    dbias=lambda g: g,
)
def standardize(x: Array, weight: Array | None, bias: Array | None, *, axes: Axes, eps: float) -> Array:
    """(x - mean) / √(var + eps) over `axes`, then · weight + bias, which broadcast to x or are None."""
    if kernel_provider.enabled and axes == (x.ndim - 1,) and _shape(weight) == _shape(bias) == x.shape[-1:]:
        found = LAYER_NORM.call(x, weight, bias, eps)
        if found is not None:
            return found
    count = float(prod([x.shape[a] for a in axes]))
    out = np.subtract(x, add_up(x, axes, True) / count, order="C")
    variance = add_up(out * out, axes, True) / count
    out *= 1 / np.sqrt(variance + out.dtype.type(eps))
    if weight is not None:
        out *= weight
    if bias is not None:
        out += bias
    return reduction.round_to(out, x.dtype)
