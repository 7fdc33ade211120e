"""Windows of M points, symmetric or periodic: values that fade a stretch of a signal in and out.

In the formulas n counts from 0 to M - 1, and N is M - 1 of a symmetric window, M of a periodic one (`sym=False`).
All raise ValueError for a negative M, and for types but float32 and float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from inspect import signature

import numpy as np

from adjoint.core.dtype.device import device as Device
from adjoint.core.dtype.dtype import as_dtype, default
from adjoint.core.dtype.dtype import dtype as DType
from adjoint.core.op.op import op_of
from adjoint.core.tensor.memory_format import strided
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, DeviceLike, DtypeLike
from adjoint.ops.special.bessel import i0

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip

Curve = Callable[[Array], Array]


def _make_window_function(curve_of: Callable[..., Curve]) -> Callable[..., Tensor]:
    """Return the window function of `curve_of`, which takes M, `sym` and options, and returns a function of n."""
    name = curve_of.__name__
    # errors of a sum of cosines name the function that PyTorch calls for it
    checked_name = "general_cosine" if name in ("general_hamming", "hamming", "hann", "nuttall") else name

    def window(
        M: int,
        *,
        sym: bool = True,
        dtype: DtypeLike = None,
        layout: object = strided,
        device: DeviceLike = None,
        requires_grad: bool = False,
        **options: object,
    ) -> Tensor:
        kind = _check_window(checked_name, M, dtype, layout)
        curve = curve_of(M, sym, **options)
        if device is not None:
            Device(device)
        out = constant(curve(np.arange(float(M))).astype(kind.numpy))
        return out.requires_grad_() if requires_grad else out

    length, *common, _ = signature(window).parameters.values()
    own = (p for p in signature(curve_of).parameters.values() if p.kind is p.KEYWORD_ONLY)
    vars(window)["__signature__"] = signature(window).replace(parameters=[length, *own, *common])
    window.__name__ = window.__qualname__ = name
    window.__doc__ = curve_of.__doc__
    return window


@_make_window_function
def bartlett(M: int, sym: bool) -> Curve:
    """Return 1 - |2n/N - 1|: a triangle."""
    return (lambda n: 1 - np.abs(2 * n / _periods(M, sym) - 1)) if M != 1 else np.ones_like


@_make_window_function
def blackman(M: int, sym: bool) -> Curve:
    """Return 0.42 - 0.5 cos 2πn/N + 0.08 cos 4πn/N."""
    return _sum_cosines(M, sym, [0.42, 0.5, 0.08])


@_make_window_function
def cosine(M: int, sym: bool) -> Curve:
    """Return sin π(n + ½) / (N + 1): half a wave."""
    step = math.pi / max(M if sym or M == 1 else M + 1, 1)
    return lambda n: np.sin(step * (n + 0.5))


@_make_window_function
def exponential(M: int, sym: bool, *, center: float | None = None, tau: float = 1.0) -> Curve:
    """Return exp(-|n - center| / tau); the center is N/2 if none is given.

    Raises: ValueError for a tau of 0 or less, and for the center of a symmetric window.
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = _center(M, sym) if center is None else center
    return lambda n: np.exp(-np.abs(n - middle) / tau)


@_make_window_function
def gaussian(M: int, sym: bool, *, std: float = 1.0) -> Curve:
    """Return exp(-½ ((n - N/2) / std)²).

    Raises: ValueError for a std of 0 or less.
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return lambda n: np.exp(-0.5 * ((n - _center(M, sym)) / std) ** 2)


@_make_window_function
def general_cosine(M: int, sym: bool, *, a: Iterable[float]) -> Curve:
    """Return ∑ (-1)ⁱ aᵢ cos 2πin/N.

    Raises: TypeError for an `a` that is no list, and ValueError for an empty one.
    """
    if M > 1 and not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a) if M > 1 else []
    if M > 1 and not weights:
        raise ValueError("Coefficients cannot be empty")
    return _sum_cosines(M, sym, weights)


@_make_window_function
def general_hamming(M: int, sym: bool, *, alpha: float = 0.54) -> Curve:
    """Return alpha - (1 - alpha) cos 2πn/N."""
    return _sum_cosines(M, sym, [alpha, 1.0 - alpha])


@_make_window_function
def hamming(M: int, sym: bool) -> Curve:
    """Return 0.54 - 0.46 cos 2πn/N."""
    return _sum_cosines(M, sym, [0.54, 1.0 - 0.54])


@_make_window_function
def hann(M: int, sym: bool) -> Curve:
    """Return sin² πn/N."""
    return _sum_cosines(M, sym, [0.5, 0.5])


@_make_window_function
def kaiser(M: int, sym: bool, *, beta: float = 12.0) -> Curve:
    """Return I₀(beta √(1 - (2n/N - 1)²)) / I₀(beta).

    Raises: ValueError for a negative beta.
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def curve(n: Array) -> Array:
        height = np.sqrt(np.maximum(1 - (2 * n / _periods(M, sym) - 1) ** 2, 0.0))
        return op_of(i0).evaluate(beta * height) / op_of(i0).evaluate(np.array(float(beta)))

    return curve if M != 1 else np.ones_like


@_make_window_function
def nuttall(M: int, sym: bool) -> Curve:
    """Return 0.3635819 - 0.4891775 cos 2πn/N + 0.1365995 cos 4πn/N - 0.0106411 cos 6πn/N."""
    return _sum_cosines(M, sym, [0.3635819, 0.4891775, 0.1365995, 0.0106411])


def _sum_cosines(M: int, sym: bool, weights: list[float]) -> Curve:
    """Return the alternating sum of cosines, constant 1 for a window of one point."""

    def curve(n: Array) -> Array:
        turn = 2 * math.pi * n / _periods(M, sym)
        return sum((-1) ** i * weight * np.cos(i * turn) for i, weight in enumerate(weights))

    return curve if M > 1 else np.ones_like


def _check_window(name: str, length: int, dtype: DtypeLike, layout: object) -> DType:
    """Return the element type of a window. Raises ValueError for a bad length, layout or type."""
    kind = default.floating if dtype is None else as_dtype(dtype)
    if length < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={length}")
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if kind.numpy not in (np.float32, np.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    return kind


def _periods(length: int, sym: bool) -> int:
    return length - 1 if sym else length


def _center(length: int, sym: bool) -> float:
    """Return the place of the highest point; a window of one point is that point."""
    return (length - 1 if sym or length == 1 else length) / 2
