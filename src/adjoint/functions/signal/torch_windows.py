"""Windows of M points, symmetric or periodic: values that fade a stretch of a signal in and out.

In the formulas n counts from 0 to M - 1, and N is M - 1 of a symmetric window, M of a periodic one (`sym=False`).
All raise ValueError for a negative M, and for types but float32 and float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from adjoint.core.dtype.device import device as Device
from adjoint.core.dtype.dtype import default
from adjoint.core.dtype.dtype import dtype as DType
from adjoint.core.tensor.memory_format import strided
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.ops.special.bessel import i0

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """1 - |2n/N - 1|: a triangle."""
    kind = _check_window("bartlett", M, dtype, layout)
    return _make_window(M, kind, device, requires_grad, lambda n: 1 - np.abs(2 * n / _periods(M, sym) - 1), single=True)


def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """0.42 - 0.5 cos 2πn/N + 0.08 cos 4πn/N."""
    weights = [0.42, 0.5, 0.08]
    kind = _check_window("blackman", M, dtype, layout)
    return general_cosine(M, a=weights, sym=sym, dtype=kind, device=device, requires_grad=requires_grad)


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """sin π(n + ½) / (N + 1): half a wave."""
    kind = _check_window("cosine", M, dtype, layout)
    whole = M if sym or M == 1 else M + 1
    return _make_window(M, kind, device, requires_grad, lambda n: np.sin(math.pi / whole * (n + 0.5)))


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-|n - center| / tau); the center is N/2 if none is given.

    Raises ValueError for a tau of 0 or less, and for the center of a symmetric window.
    """
    kind = _check_window("exponential", M, dtype, layout)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = _center(M, sym) if center is None else center
    return _make_window(M, kind, device, requires_grad, lambda n: np.exp(-np.abs(n - middle) / tau))


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-½ ((n - N/2) / std)²). Raises ValueError for a std of 0 or less."""
    kind = _check_window("gaussian", M, dtype, layout)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _make_window(M, kind, device, requires_grad, lambda n: np.exp(-0.5 * ((n - _center(M, sym)) / std) ** 2))


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """∑ (-1)ⁱ aᵢ cos 2πin/N. Raises TypeError for an `a` that is no list, and ValueError for an empty one."""
    kind = _check_window("general_cosine", M, dtype, layout)
    if M > 1 and not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a) if M > 1 else []
    if M > 1 and not weights:
        raise ValueError("Coefficients cannot be empty")

    def sum_of_waves(n: Any) -> Any:
        turn = 2 * math.pi * n / _periods(M, sym)
        return sum((-1) ** i * weight * np.cos(i * turn) for i, weight in enumerate(weights))

    return _make_window(M, kind, device, requires_grad, sum_of_waves, single=True)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos 2πn/N."""
    weights = [alpha, 1.0 - alpha]
    return general_cosine(M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """0.54 - 0.46 cos 2πn/N."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """sin² πn/N."""
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """I₀(beta √(1 - (2n/N - 1)²)) / I₀(beta). Raises ValueError for a negative beta."""
    kind = _check_window("kaiser", M, dtype, layout)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    bessel: Any = i0.op.evaluate  # type: ignore[attr-defined]

    def curve(n: Any) -> Any:
        height = np.sqrt(np.maximum(1 - (2 * n / _periods(M, sym) - 1) ** 2, 0.0))
        return bessel(beta * height) / bessel(np.array(float(beta)))

    return _make_window(M, kind, device, requires_grad, curve, single=True)


def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """0.3635819 - 0.4891775 cos 2πn/N + 0.1365995 cos 4πn/N - 0.0106411 cos 6πn/N."""
    weights = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return general_cosine(M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def _check_window(name: str, length: int, dtype: Any, layout: Any) -> DType:
    """The type of the window."""
    kind: DType = default.floating if dtype is None else dtype
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
    """Where the highest point is; a window of one point is that point."""
    return (length - 1 if sym or length == 1 else length) / 2


def _make_window(
    length: int, kind: DType, device: Any, requires_grad: bool, curve: Callable[[Any], Any], single: bool = False
) -> Tensor:
    """The curve at 0 … length - 1, computed in 64 bits; if `single`, 1 where there is one point only."""
    if device is not None:
        Device(device)
    values = np.ones(length) if length == 0 or (single and length == 1) else curve(np.arange(float(length)))
    out = constant(values.astype(kind.numpy))
    return out.requires_grad_() if requires_grad else out
