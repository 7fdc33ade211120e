"""Images at other sizes whose new elements see all the old ones they stand for: weights, one matrix a dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.tensor import constant
from adjoint.functions.linear import matmul

RADII = {"bilinear": 1.0, "bicubic": 2.0, "lanczos": 3.0}  # of the kernels, in elements of the coarser grid


def smoothed(image: Any, new: Sequence[int], scales: Sequence[float | None], mode: str, aligned: bool) -> Any:
    """(N, C, H, W) at `new` sizes: along a dimension Σ k((j + ½ - c) / s) x_j / Σ k, for a centre c and s ≥ 1.

    The kernels k: a triangle, Keys' cubic with a = -½, and sinc(x) sinc(x / 3).
    """
    out = image
    for d, (size, scale) in enumerate(zip(new, scales, strict=True), 2):
        weights = _weights(image.array.shape[d], size, scale, mode, aligned).astype(image.array.dtype)
        out = matmul(out, constant(weights.T)) if d == 3 else matmul(constant(weights), out)
    return out


def _weights(old: int, new: int, scale: float | None, mode: str, aligned: bool) -> Any:
    """(new, old), each row with the sum 1."""
    if aligned:
        step = (old - 1) / (new - 1) if new > 1 else 0.0
    else:
        step = 1.0 / scale if scale else old / new
    radius = RADII[mode] * max(step, 1.0)
    centres = step * (np.arange(new) + 0.5)
    first = np.maximum((centres - radius + 0.5).astype(np.int64), 0)
    last = np.minimum((centres + radius + 0.5).astype(np.int64), old)
    places = np.arange(old)
    distances = (places - centres[:, None] + 0.5) / max(step, 1.0)
    kept = (places >= first[:, None]) & (places < last[:, None])
    weights = np.where(kept, KERNELS[mode](np.abs(distances)), 0.0)
    total = weights.sum(1, keepdims=True)
    return weights / np.where(total == 0, 1.0, total)


def _triangle(x: Any) -> Any:
    return np.maximum(1.0 - x, 0.0)


def _cubic(x: Any) -> Any:
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _windowed_sine(x: Any) -> Any:
    return np.where(x < 3, np.sinc(x) * np.sinc(x / 3.0), 0.0)


KERNELS: dict[str, Callable[[Any], Any]] = {"bilinear": _triangle, "bicubic": _cubic, "lanczos": _windowed_sine}
