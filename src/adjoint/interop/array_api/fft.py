"""The standard's extension `fft`: discrete Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtype.device import require_cpu
from adjoint.core.dtype.dtype import default, dtype
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.functions.signal import fft as fourier
from adjoint.functions.signal import fftfreq as frequencies

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip

Sizes = tuple[int, ...] | None


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform along `axis`."""
    return fourier.fft(x, n, axis, norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`."""
    return fourier.ifft(x, n, axis, norm)


def fftn(x: Tensor, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """The transform along several axes, all unless named."""
    return fourier.fftn(x, s, axes, norm)


def ifftn(x: Tensor, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """The inverse of `fftn`."""
    return fourier.ifftn(x, s, axes, norm)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform of real numbers: the half that the other follows from."""
    return fourier.rfft(x, n, axis, norm)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`."""
    return fourier.irfft(x, n, axis, norm)


def rfftn(x: Tensor, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """`fftn` of real numbers: half of the last axis."""
    return fourier.rfftn(x, s, axes, norm)


def irfftn(x: Tensor, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """The inverse of `rfftn`."""
    return fourier.irfftn(x, s, axes, norm)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The real transform of half of a Hermitian sequence."""
    return fourier.hfft(x, n, axis, norm)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`."""
    return fourier.ihfft(x, n, axis, norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """The frequencies of the results of `fft`, for samples `d` apart."""
    return _make_frequencies(np.fft.fftfreq(n, d), dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """The frequencies of the results of `rfft`, for samples `d` apart."""
    return _make_frequencies(np.fft.rfftfreq(n, d), dtype, device)


def _make_frequencies(frequencies: Any, dtype: dtype | None, device: Any) -> Tensor:
    require_cpu(device)
    return constant(frequencies.astype((dtype or default.floating).numpy))


def fftshift(x: Tensor, /, *, axes: int | Sizes = None) -> Tensor:
    """The zero frequency moved to the middle."""
    return frequencies.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sizes = None) -> Tensor:
    """The inverse of `fftshift`."""
    return frequencies.ifftshift(x, axes)
