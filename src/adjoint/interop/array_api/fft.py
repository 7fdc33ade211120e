"""The standard's extension `fft`: discrete Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtype.device import require_cpu
from adjoint.core.dtype.dtype import default, dtype
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array
from adjoint.functions.signal import fft as fourier
from adjoint.functions.signal import fftfreq as frequencies

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip

Sizes = tuple[int, ...] | None


def _along_axis(transform: Callable[..., Tensor], doc: str) -> Callable[..., Tensor]:
    """Give a transform of one dimension the standard's signature."""

    def call(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return transform(x, n, axis, norm)

    return _with_name(call, transform.__name__, doc)


def _along_axes(transform: Callable[..., Tensor], doc: str) -> Callable[..., Tensor]:
    """Give a transform of several dimensions the standard's signature."""

    def call(x: Tensor, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
        return transform(x, s, axes, norm)

    return _with_name(call, transform.__name__, doc)


def _with_name(call: Callable[..., Tensor], name: str, doc: str) -> Callable[..., Tensor]:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


fft = _along_axis(fourier.fft, "The transform along `axis`.")
ifft = _along_axis(fourier.ifft, "The inverse of `fft`.")
rfft = _along_axis(fourier.rfft, "The transform of real numbers: the half that the other follows from.")
irfft = _along_axis(fourier.irfft, "The inverse of `rfft`.")
hfft = _along_axis(fourier.hfft, "The real transform of half of a Hermitian sequence.")
ihfft = _along_axis(fourier.ihfft, "The inverse of `hfft`.")
fftn = _along_axes(fourier.fftn, "The transform along several axes, all unless named.")
ifftn = _along_axes(fourier.ifftn, "The inverse of `fftn`.")
rfftn = _along_axes(fourier.rfftn, "`fftn` of real numbers: half of the last axis.")
irfftn = _along_axes(fourier.irfftn, "The inverse of `rfftn`.")


def fftfreq(n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """The frequencies of the results of `fft`, for samples `d` apart."""
    return _make_frequencies(np.fft.fftfreq(n, d), dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """The frequencies of the results of `rfft`, for samples `d` apart."""
    return _make_frequencies(np.fft.rfftfreq(n, d), dtype, device)


def _make_frequencies(frequencies: Array, dtype: dtype | None, device: Any) -> Tensor:
    require_cpu(device)
    return constant(frequencies.astype((dtype or default.floating).numpy))


def fftshift(x: Tensor, /, *, axes: int | Sizes = None) -> Tensor:
    """The zero frequency moved to the middle."""
    return frequencies.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sizes = None) -> Tensor:
    """The inverse of `fftshift`."""
    return frequencies.ifftshift(x, axes)
