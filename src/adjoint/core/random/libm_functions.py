"""The C library's functions per element, from whose bits NumPy's vector code strays by 1 ulp, and samples with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.eager_kernels import LateKernel, kernel_provider

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float64 = NDArray[np.float64]


def log(x: float) -> float:
    """Return ln x, of 0 too."""
    return math.log(x) if x else -math.inf


def exp(x: float) -> float:
    """Return eˣ, infinity where it is too large."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


KERNELS: dict[Callable[[float], float], LateKernel] = {
    function: LateKernel(f"libm_{function.__name__}")
    for function in (log, exp, math.log1p, math.cos, math.sin, math.tan)
}


def apply_libm(function: Callable[[float], float], x: Float64) -> Float64:
    """Return `function`, one of `KERNELS`, at each element.

    Native code calls the same function of the C library, in a tenth of the time; it raises for no element.
    """
    if kernel_provider.enabled:
        found: Float64 | None = KERNELS[function].call(x)
        if found is not None:
            return found
    return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)
