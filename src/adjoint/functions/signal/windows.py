"""Windows: weights that fade a stretch of a signal in and out, so that its spectrum is not smeared."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, default, numpy_dtype
from adjoint.core.op.op import op_of
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, DeviceLike, DtypeLike, Function, NumpyDtype
from adjoint.functions.creation.creation import finish_factory
from adjoint.ops.special.bessel import i0

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _make_window_function(curve: Function) -> Callable[..., Tensor]:
    """Return the window function of `curve`, the values at t = n/N of [0, 1] for its own options."""
    name = curve.__name__
    _, *own = signature(curve).parameters.values()

    def window(
        window_length: int,
        periodic: bool = True,
        *args: object,
        dtype: DtypeLike = None,
        layout: object = None,
        device: DeviceLike = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **options: object,
    ) -> Tensor:
        if len(args) > len(own):
            raise TypeError(f"{name}() takes {len(own) + 2} positional arguments but {len(args) + 2} were given")
        kind = _check_window(name, window_length, dtype)
        values = curve(np.arange(window_length) / max(window_length - (not periodic), 1), *args, **options)
        window = constant(values.astype(kind) if window_length > 1 else np.ones(window_length, kind))
        return finish_factory(window, requires_grad, device)

    length, periodic, _, *common, _ = signature(window).parameters.values()
    vars(window)["__signature__"] = signature(window).replace(parameters=[length, periodic, *own, *common])
    window.__name__ = window.__qualname__ = name
    window.__doc__ = curve.__doc__
    return window


@_make_window_function
def bartlett_window(t: Array) -> Array:
    """Return 1 - |2n/N - 1|: a triangle; N is the length if `periodic`, else one less. Raises as `hann_window`."""
    return 1 - np.abs(2 * t - 1)


@_make_window_function
def blackman_window(t: Array) -> Array:
    """Return 0.42 - 0.5 cos 2πn/N + 0.08 cos 4πn/N; N as in `bartlett_window`. Raises RuntimeError as `hann_window`."""
    return 0.42 - 0.5 * np.cos(2 * math.pi * t) + 0.08 * np.cos(4 * math.pi * t)


@_make_window_function
def hamming_window(t: Array, alpha: float = 0.54, beta: float = 0.46) -> Array:
    """Return alpha - beta cos 2πn/N; N as in `bartlett_window`. Raises RuntimeError as `hann_window`."""
    return alpha - beta * np.cos(2 * math.pi * t)


@_make_window_function
def hann_window(t: Array) -> Array:
    """Return sin² πn/N; N as in `bartlett_window`. Raises RuntimeError for a negative length, and types but floats."""
    return 0.5 - 0.5 * np.cos(2 * math.pi * t)


@_make_window_function
def kaiser_window(t: Array, beta: float = 12.0) -> Array:
    """Return I₀(beta √(1 - (2n/N - 1)²)) / I₀(beta); N and errors as in `hann_window`."""
    height = np.sqrt(np.maximum(1 - (2 * t - 1) ** 2, 0.0))
    return op_of(i0).evaluate(beta * height) / op_of(i0).evaluate(np.array(float(beta)))


def _check_window(name: str, length: int, dtype: DtypeLike) -> NumpyDtype:
    """Return the NumPy type of a window. Raises TypeError or RuntimeError for a bad length, RuntimeError for a type."""
    if isinstance(length, bool) or not isinstance(length, (int, np.integer)):
        raise TypeError(f"{name}(): argument 'window_length' (position 1) must be int, not {type(length).__name__}")
    kind = default.floating.numpy if dtype is None else numpy_dtype(dtype)
    if not DTYPES[kind].is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {DTYPES[kind]}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    return kind
