"""Discrete Fourier transforms over several dimensions: of complex numbers, and between real ones and half a spectrum.

The spectrum of a real signal is conjugate symmetric: of the last dimension transformed, of n elements, n // 2 + 1 are
kept. Each of the three is linear, and its gradient is its adjoint. None is normalised but by the number `scale`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import complex_type, real_type
from adjoint.core.op.eager_kernels import RowKernel
from adjoint.core.op.families import primitive
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.size import has_symbolic
from adjoint.core.typing import Array, NumpyDtype, Operand, Shape
from adjoint.ops.creation import iota
from adjoint.ops.elementwise.arithmetic import mul
from adjoint.ops.elementwise.comparison import eq, logical_or
from adjoint.ops.elementwise.select import cast, where
from adjoint.ops.movement.movement import reshape

Axes = tuple[int, ...]
# NumPy's own code takes 8 µs before it transforms anything.
LINE_C2C, LINE_R2C, LINE_C2R = (RowKernel(f"line_{kind}", min_first_size=16) for kind in ("c2c", "r2c", "c2r"))


def _apply_scale(out: Array, scale: float, dtype: NumpyDtype) -> Array:
    out = out.astype(dtype, copy=False)
    return out if scale == 1 else out * dtype.type(scale)


@primitive(
    spec=lambda x, *, axes, inverse, scale: Spec(x.shape, x.dtype),
    linear=True,
    batch_leading=True,
    holomorphic=False,
    node="FftC2CBackward0",
    dx=lambda g, axes, inverse, scale: line_c2c(g, axes=axes, inverse=not inverse, scale=scale),
)
def line_c2c(x: Array, *, axes: Axes, inverse: bool, scale: float) -> Array:
    """`fft_c2c` over one dimension."""
    found = LINE_C2C.call(x, axes=axes, inverse=inverse, scale=scale)
    if found is not None:
        return found
    transform = np.fft.ifft if inverse else np.fft.fft
    out = transform(x, axis=axes[0], norm="forward" if inverse else "backward")
    return _apply_scale(out, scale, x.dtype)


def transform_c2c_by_lines(x: Operand, *, axes: Axes, inverse: bool, scale: float) -> Operand:
    """Compute `fft_c2c` dimension by dimension."""
    if not axes:
        return mul(x, scale)
    for i, axis in enumerate(reversed(axes)):
        x = line_c2c(x, axes=(axis,), inverse=inverse, scale=scale if i == len(axes) - 1 else 1.0)
    return x


@primitive(
    spec=lambda x, *, axes, inverse, scale: Spec(x.shape, x.dtype),
    linear=True,
    batch_leading=True,
    holomorphic=False,
    node="FftC2CBackward0",
    composite=transform_c2c_by_lines,
    dx=lambda g, axes, inverse, scale: fft_c2c(g, axes=axes, inverse=not inverse, scale=scale),
)
def fft_c2c(x: Array, *, axes: Axes, inverse: bool, scale: float) -> Array:
    """scale · Σₙ x[n] e^(∓2πikn/N) over `axes`, with the sign + for the inverse."""
    for axis in reversed(axes[1:]):
        x = op_of(line_c2c).evaluate(x, axes=(axis,), inverse=inverse, scale=1.0)
    if axes:
        return op_of(line_c2c).evaluate(x, axes=axes[:1], inverse=inverse, scale=scale)
    return _apply_scale(x.copy(), scale, x.dtype)


def _resize(shape: Shape, axis: int, n: int) -> tuple[int, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _half_spectrum_spec(x: Operand, *, axes: Axes, scale: float) -> Spec:
    return Spec(_resize(x.shape, axes[-1], x.shape[axes[-1]] // 2 + 1), complex_type(x.dtype))


def _real_spec(x: Operand, *, axes: Axes, n: int, scale: float) -> Spec:
    return Spec(_resize(x.shape, axes[-1], n), real_type(x.dtype))


@primitive(
    spec=_half_spectrum_spec,
    linear=True,
    batch_leading=True,
    holomorphic=False,
    node="FftR2CBackward0",
    dx=lambda g, x_shape, axes, scale: line_c2r(
        _scale_mirrored(g, x_shape[axes[-1]], axes[-1], 0.5), axes=axes, n=x_shape[axes[-1]], scale=scale
    ),
)
def line_r2c(x: Array, *, axes: Axes, scale: float) -> Array:
    """`fft_r2c` over one dimension."""
    found = LINE_R2C.call(x, axes=axes, scale=scale)
    return _apply_scale(np.fft.rfft(x, axis=axes[0]), scale, complex_type(x.dtype)) if found is None else found


@primitive(
    spec=_real_spec,
    linear=True,
    batch_leading=True,
    holomorphic=False,
    node="FftC2RBackward0",
    dx=lambda g, axes, n, scale: _scale_mirrored(line_r2c(g, axes=axes, scale=scale), n, axes[-1], 2.0),
)
def line_c2r(x: Array, *, axes: Axes, n: int, scale: float) -> Array:
    """`fft_c2r` over one dimension."""
    found = LINE_C2R.call(x, axes=axes, n=n, scale=scale)
    if found is not None:
        return found
    return _apply_scale(np.fft.irfft(x, n, axis=axes[0], norm="forward"), scale, real_type(x.dtype))


def transform_r2c_by_lines(x: Operand, *, axes: Axes, scale: float) -> Operand:
    """Compute `fft_r2c` dimension by dimension."""
    alone = len(axes) == 1
    half = line_r2c(x, axes=axes[-1:], scale=scale if alone else 1.0)
    return half if alone else transform_c2c_by_lines(half, axes=axes[:-1], inverse=False, scale=scale)


def transform_c2r_by_lines(x: Operand, *, axes: Axes, n: int, scale: float) -> Operand:
    """Compute `fft_c2r` dimension by dimension."""
    if len(axes) > 1:
        x = transform_c2c_by_lines(x, axes=axes[:-1], inverse=True, scale=1.0)
    return line_c2r(x, axes=axes[-1:], n=n, scale=scale)


@primitive(
    spec=_half_spectrum_spec,
    linear=True,
    batch_leading=True,
    holomorphic=False,
    node="FftR2CBackward0",
    composite=transform_r2c_by_lines,
    dx=lambda g, x_shape, axes, scale: fft_c2r(
        _scale_mirrored(g, x_shape[axes[-1]], axes[-1], 0.5), axes=axes, n=x_shape[axes[-1]], scale=scale
    ),
)
def fft_r2c(x: Array, *, axes: Axes, scale: float) -> Array:
    """scale · Σₙ x[n] e^(-2πikn/N) of real x over `axes`: the first half of the spectrum along the last axis."""
    alone = len(axes) == 1
    half = op_of(line_r2c).evaluate(x, axes=axes[-1:], scale=scale if alone else 1.0)
    return half if alone else op_of(fft_c2c).evaluate(half, axes=axes[:-1], inverse=False, scale=scale)


@primitive(
    spec=_real_spec,
    linear=True,
    batch_leading=True,
    holomorphic=False,
    node="FftC2RBackward0",
    composite=transform_c2r_by_lines,
    dx=lambda g, axes, n, scale: _scale_mirrored(fft_r2c(g, axes=axes, scale=scale), n, axes[-1], 2.0),
)
def fft_c2r(x: Array, *, axes: Axes, n: int, scale: float) -> Array:
    """scale · Σₖ x[k] e^(2πikn/N) of half a spectrum over `axes`: n real numbers along the last of them."""
    if len(axes) > 1:
        x = op_of(fft_c2c).evaluate(x, axes=axes[:-1], inverse=True, scale=1.0)
    return op_of(line_c2r).evaluate(x, axes=axes[-1:], n=n, scale=scale)


def _scale_mirrored(spectrum: Any, n: int, axis: int, factor: float) -> Any:
    """Multiply by `factor` the elements of half a spectrum that stand for two: all but their own mirror images."""
    array = getattr(spectrum, "array", spectrum)
    if has_symbolic(n):
        at = iota(count=n // 2 + 1, start=0, step=1, dtype=np.dtype(np.int64))
        alone = logical_or(eq(at, 0), eq(mul(at, 2), n))
        weight = cast(where(alone, 1.0, factor), dtype=real_type(array.dtype))
        return spectrum * reshape(weight, shape=(n // 2 + 1, *(1,) * (len(array.shape) - axis - 1)))
    return spectrum * _mirror_weights(n, len(array.shape) - axis - 1, factor, real_type(array.dtype))


@lru_cache(64)
def _mirror_weights(n: int, dims_after: int, factor: float, dtype: NumpyDtype) -> Array:
    weights = np.full(n // 2 + 1, factor, dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    weights.flags.writeable = False
    return weights.reshape((-1,) + (1,) * dims_after)
