"""Discrete Fourier transforms over several dimensions: of complex numbers, and between real ones and half a spectrum.

The spectrum of a real signal is conjugate symmetric: of the last dimension transformed, of n elements, n // 2 + 1 are
kept. Each of the three is linear, and its gradient is its adjoint. None is normalised but by the number `scale`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import complex_type, real_type
from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, NumpyDtype, Shape

Axes = tuple[int, ...]


def _apply_scale(out: Array, scale: float, dtype: NumpyDtype) -> Array:
    out = out.astype(dtype, copy=False)
    return out if scale == 1 else out * dtype.type(scale)


@primitive(
    spec=lambda x, *, axes, inverse, scale: Spec(x.shape, x.dtype),
    linear=True,
    batch_leading=True,
    holomorphic=False,
    node="FftC2CBackward0",
    dx=lambda g, axes, inverse, scale: fft_c2c(g, axes=axes, inverse=not inverse, scale=scale),
)
def fft_c2c(x: Array, *, axes: Axes, inverse: bool, scale: float) -> Array:
    """scale · Σₙ x[n] e^(∓2πikn/N) over `axes`, with the sign + for the inverse."""
    out = np.fft.ifftn(x, axes=axes, norm="forward") if inverse else np.fft.fftn(x, axes=axes)
    return _apply_scale(out, scale, x.dtype)


def _resize(shape: Shape, axis: int, n: int) -> tuple[int, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


@primitive(
    spec=lambda x, *, axes, scale: Spec(_resize(x.shape, axes[-1], x.shape[axes[-1]] // 2 + 1), complex_type(x.dtype)),
    linear=True,
    batch_leading=True,
    holomorphic=False,
    node="FftR2CBackward0",
    dx=lambda g, x_shape, axes, scale: fft_c2r(
        _scale_mirrored(g, x_shape[axes[-1]], axes[-1], 0.5), axes=axes, n=x_shape[axes[-1]], scale=scale
    ),
)
def fft_r2c(x: Array, *, axes: Axes, scale: float) -> Array:
    """scale · Σₙ x[n] e^(-2πikn/N) of real x over `axes`: the first half of the spectrum along the last axis."""
    return _apply_scale(np.fft.rfftn(x, axes=axes), scale, complex_type(x.dtype))


@primitive(
    spec=lambda x, *, axes, n, scale: Spec(_resize(x.shape, axes[-1], n), real_type(x.dtype)),
    linear=True,
    batch_leading=True,
    holomorphic=False,
    node="FftC2RBackward0",
    dx=lambda g, axes, n, scale: _scale_mirrored(fft_r2c(g, axes=axes, scale=scale), n, axes[-1], 2.0),
)
def fft_c2r(x: Array, *, axes: Axes, n: int, scale: float) -> Array:
    """scale · Σₖ x[k] e^(2πikn/N) of half a spectrum over `axes`: n real numbers along the last of them."""
    sizes = [n if axis == axes[-1] else x.shape[axis] for axis in axes]
    return _apply_scale(np.fft.irfftn(x, sizes, axes=axes, norm="forward"), scale, real_type(x.dtype))


def _scale_mirrored(spectrum: Any, n: int, axis: int, factor: float) -> Any:
    """Multiply by `factor` the elements of half a spectrum that stand for two: all but their own mirror images."""
    array = getattr(spectrum, "array", spectrum)
    weights = np.full(n // 2 + 1, factor, real_type(array.dtype))
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return spectrum * weights.reshape((-1,) + (1,) * (len(array.shape) - axis - 1))
