"""Windows: weights that fade a stretch of a signal in and out, so that its spectrum is not smeared."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, default, numpy_dtype
from adjoint.core.tensor.shape_tracer import on_requested_device
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.ops.special.bessel import i0

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """1 - |2n/N - 1|: a triangle; N is the length if `periodic`, else one less. Raises as `hann_window`."""
    made = _make_window("bartlett_window", window_length, periodic, dtype, lambda t: 1 - np.abs(2 * t - 1))
    return _finish_factory(made, device, requires_grad)


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """0.42 - 0.5 cos 2πn/N + 0.08 cos 4πn/N; N as in `bartlett_window`. Raises RuntimeError as `hann_window`."""
    made = _make_window(
        "blackman_window",
        window_length,
        periodic,
        dtype,
        lambda t: 0.42 - 0.5 * np.cos(2 * math.pi * t) + 0.08 * np.cos(4 * math.pi * t),
    )
    return _finish_factory(made, device, requires_grad)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - beta cos 2πn/N; N as in `bartlett_window`. Raises RuntimeError as `hann_window`."""
    made = _make_window(
        "hamming_window", window_length, periodic, dtype, lambda t: alpha - beta * np.cos(2 * math.pi * t)
    )
    return _finish_factory(made, device, requires_grad)


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """sin² πn/N; N as in `bartlett_window`. Raises RuntimeError for a negative length, and types but floats."""
    made = _make_window("hann_window", window_length, periodic, dtype, lambda t: 0.5 - 0.5 * np.cos(2 * math.pi * t))
    return _finish_factory(made, device, requires_grad)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """I₀(beta √(1 - (2n/N - 1)²)) / I₀(beta); N as in `bartlett_window`. Raises RuntimeError as `hann_window`."""
    bessel: Any = i0.op.evaluate  # type: ignore[attr-defined]
    made = _make_window(
        "kaiser_window",
        window_length,
        periodic,
        dtype,
        lambda t: bessel(beta * np.sqrt(np.maximum(1 - (2 * t - 1) ** 2, 0.0))) / bessel(np.array(float(beta))),
    )
    return _finish_factory(made, device, requires_grad)


def _make_window(name: str, length: int, periodic: bool, dtype: Any, curve: Callable[[Any], Any]) -> Tensor:
    """The curve at n/N of [0, 1]; 1 where there is only one place."""
    if isinstance(length, bool) or not isinstance(length, (int, np.integer)):
        raise TypeError(f"{name}(): argument 'window_length' (position 1) must be int, not {type(length).__name__}")
    kind = default.floating.numpy if dtype is None else numpy_dtype(dtype)
    if not DTYPES[kind].is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {DTYPES[kind]}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    if length <= 1:
        return constant(np.ones(length, kind))
    return constant(curve(np.arange(length) / (length if periodic else length - 1)).astype(kind))


def _finish_factory(out: Tensor, device: Any, requires_grad: bool) -> Tensor:
    if device is not None:
        out = on_requested_device(out, device)
    return out.requires_grad_() if requires_grad else out
