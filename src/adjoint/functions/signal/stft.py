"""The Fourier transforms of short, overlapping pieces of a signal, and the signal from them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import is_floating
from adjoint.core.graph.source_location import warn_user
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, NumpyDtype
from adjoint.functions.api.publish import public
from adjoint.functions.elementwise.complex import is_complex, view_as_real
from adjoint.functions.signal import fft
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.movement import movement
from adjoint.ops.movement.sliding_windows import fold, windows

__all__ = ["istft", "stft"]

PAD_MODES: dict[str, Any] = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
LEAST_OVERLAP = 1e-11


@public()
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Return Σₙ window[n] x[hop t + n] e^(-2πikn/N): (L,) or (B, L) to (…, frequencies k, frames t).

    `center`: frame t is centred at hop t, for which the signal is padded. Of real signals half the frequencies are
    kept unless `onesided=False`. Raises RuntimeError for sizes that do not fit.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    of_complex = is_complex(input) or (window is not None and is_complex(window))
    if return_complex is None:
        if not of_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further require that "
                "return_complex=True in a future PyTorch release."
            )
        return_complex = True
    if not is_floating(input.array):
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, got {input.dtype}")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, got {input.ndim}D of shape {tuple(input.shape)}")
    if center and align_to_window is not None:
        raise RuntimeError("stft: align_to_window should only be set when center = false.")
    x = _pad_both_ends(input, n_fft // 2, pad_mode) if center else input
    size = x.array.shape[-1]
    if align_to_window:
        raise RuntimeError("stft: align_to_window is not supported")
    if not 0 < n_fft <= size:
        raise RuntimeError(f"stft: expected 0 < n_fft < {size}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    weights = _pad_window("stft", window, length, n_fft, x.array.dtype)
    if onesided is None:
        onesided = not of_complex
    if onesided and of_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    frames = windows(x, size=(n_fft,), stride=(hop,), dilation=(1,))  # (…, T, N)
    if weights is not None:
        frames = arithmetic.mul(frames, weights)
    transform = fft.rfft if onesided else fft.fft
    spectrum = transform(frames, norm="ortho" if normalized else None)
    out: Tensor = movement.swap(spectrum, -1, -2)
    return out if return_complex else view_as_real(out)


@public()
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Return the signal whose `stft` is closest to `input`, (frequencies, frames) or (B, frequencies, frames).

    Overlapping frames are added, weighted by the window, and divided by the sum of its squares. Raises RuntimeError
    where that is 0, and for sizes that do not fit.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    _check_spectrum(input, n_fft, hop, win_length, onesided)
    count, frames = input.array.shape[-2:]
    if onesided is None:
        onesided = count != n_fft
    spectrum = movement.swap(input, -1, -2)
    norm = "ortho" if normalized else None
    if return_complex:
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        pieces = fft.ifft(spectrum, norm=norm)
    else:
        if window is not None and is_complex(window):
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        pieces = fft.irfft(spectrum[..., : n_fft // 2 + 1], n=n_fft, norm=norm)
    weights = _pad_window("istft", window, win_length, n_fft, pieces.array.dtype)
    if weights is None:
        weights = constant(np.ones(n_fft, pieces.array.dtype))
    reach = n_fft + hop * (frames - 1)
    lead = tuple(pieces.array.shape[:-2])
    steps: dict[str, tuple[int, ...]] = {"stride": (hop,), "dilation": (1,)}
    added = fold(arithmetic.mul(pieces, weights), shape=(*lead, reach), **steps)
    squares = movement.expand(arithmetic.square(weights), shape=(frames, n_fft))
    envelope = fold(squares, shape=(reach,), **steps)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else reach - start
    added, envelope = added[..., start:end], envelope[start:end]
    if mode.interpreter is None and not np.abs(envelope.detach().numpy()).min(initial=np.inf) > LEAST_OVERLAP:
        raise RuntimeError("istft: window overlap add min: 0: some elements of the signal are in no frame's window")
    out: Tensor = arithmetic.div(added, envelope)
    if end > reach:
        warn_user(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
            "Please check your center and hop_length settings.",
            UserWarning,
        )
        out = movement.pad(out, widths=(*((0, 0) for _ in lead), (0, end - reach)))
    return out


def _check_spectrum(x: Tensor, n_fft: int, hop: int, length: int, onesided: bool | None) -> None:
    if not is_complex(x):
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if x.ndim not in (2, 3):
        raise RuntimeError(f"istft: expected a tensor with 2 or 3 dimensions, got {x.ndim}")
    if not x.numel():
        raise RuntimeError("istft: input tensor cannot be empty.")
    count = x.array.shape[-2]
    if onesided is None:
        onesided = count != n_fft
    expected = n_fft // 2 + 1 if onesided else n_fft
    if count != expected:
        what = "n_fft / 2 + 1" if onesided else "n_fft"
        raise RuntimeError(
            f"istft: expected the frequency dimension (2nd to the last) of the input tensor to match {what} when "
            f"onesided={onesided}, but got {count}"
        )
    if not 0 < hop <= length:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"istft: expected 0 < win_length <= n_fft, got win_length={length}")


def _pad_window(name: str, window: Tensor | None, length: int, n_fft: int, dtype: NumpyDtype) -> Tensor | None:
    """Return the window in the middle of n_fft elements, the others 0; None where it is 1 all over."""
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is None:
        if length == n_fft:
            return None
        window = constant(np.ones(length, np.empty(0, dtype).real.dtype))
    if tuple(window.array.shape) != (length,):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={length}, but got window with size "
            f"{list(window.array.shape)}"
        )
    left = (n_fft - length) // 2
    return movement.pad(window, widths=((left, n_fft - length - left),)) if length < n_fft else window


def _pad_both_ends(x: Tensor, by: int, pad_mode: str) -> Tensor:
    """Return x with so many more elements at both ends of its last dimension."""
    n = x.array.shape[-1]
    if pad_mode not in PAD_MODES:
        raise NotImplementedError(f"stft: unrecognised pad_mode {pad_mode!r}; the modes are {', '.join(PAD_MODES)}")
    if pad_mode == "constant":
        return movement.pad(x, widths=(*((0, 0),) * (x.ndim - 1), (by, by)))
    if by > n - (pad_mode == "reflect"):
        raise RuntimeError(
            f"stft: padding size should be less than the corresponding input dimension, but got: padding ({by}, {by}) "
            f"at dimension {x.ndim - 1} of input {list(x.array.shape)}"
        )
    every: tuple[slice, ...] = (slice(None),) * (x.ndim - 1)
    find = _find_padding_places if type(n) is int else _find_padding_places.__wrapped__  # sizes may be symbols
    return x[(*every, constant(find(n, by, pad_mode)))]


@lru_cache(64)
def _find_padding_places(n: int, by: int, pad_mode: str) -> Array:
    """Return the position of each element of the padded signal in the signal."""
    places = np.pad(np.arange(n), by, PAD_MODES[pad_mode])
    places.flags.writeable = False
    return places
