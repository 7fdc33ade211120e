"""Positions of the elements that are not zero, and histograms of one or several dimensions."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array


def find_nonzero(x: Array) -> tuple[Array, ...]:
    """Return the positions of the elements that are not zero, one vector for each dimension; of a number one vector."""
    found = np.nonzero(x) if x.ndim else (np.flatnonzero(x),)
    return tuple(places.astype(np.int64, copy=False) for places in found)


@primitive(spec=lambda x, *, size, fill: Spec((size, len(x.shape)), np.dtype(np.int64)))
def nonzero_places(x: Array, *, size: int, fill: int) -> Array:
    """The positions of the first `size` elements that are not zero, padded with `fill`."""
    out = np.full((size, x.ndim), fill, np.int64)
    if x.ndim:
        found = np.stack(find_nonzero(x), 1)[:size]
        out[: len(found)] = found
    return out


@primitive(spec=lambda x, *, bins, low, high: Spec((bins,), x.dtype), raises=True)
def histogram(x: Array, *, bins: int, low: float, high: float) -> Array:
    """Counts of elements in equal intervals of [low, high], or of their own range if low = high.

    Raises RuntimeError for a range that is not finite or ends before it begins.
    """
    kind = x.dtype
    x = x.astype(np.float32) if kind.char == "e" else x  # the width of a bin has more digits than halves
    if low == high and x.size:
        low, high = float(x.min()), float(x.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    return np.histogram(x, bins, (low, high))[0].astype(kind)


@primitive(spec=lambda x, *, bins, at, bounds: Spec((bins + 1,), x.dtype), raises=True)
def bin_edges(x: Array, *, bins: int, at: int, bounds: tuple[float, float] | None) -> Array:
    """The edges of equal bins between the bounds, or over the range of x (points, dimensions) in dimension `at`.

    Raises RuntimeError for a range that is not finite.
    """
    if bounds is not None:
        low, high = (x.dtype.type(v) for v in bounds)
    elif len(x):
        low, high = x[:, at].min(), x[:, at].max()
    else:
        low, high = x.dtype.type(0), x.dtype.type(1)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension {at}'s range [{low}, {high}] is not finite")
    if low == high:
        low, high = low - x.dtype.type(0.5), high + x.dtype.type(0.5)
    steps = np.arange(bins + 1).astype(x.dtype)
    step = (high - low) / x.dtype.type(bins)
    return np.where(steps < (bins + 1) // 2, low + step * steps, high - step * (bins - steps)).astype(x.dtype)


@primitive(spec=lambda x, weight, *edges: Spec(tuple(e.shape[0] - 1 for e in edges), x.dtype))
def counts_in_bins(x: Array, weight: Array, *edges: Array) -> Array:
    """The sum of the weights of the points x (points, dimensions) in each bin; the last bin includes its end."""
    shape = tuple(len(e) - 1 for e in edges)
    inside, flat = np.ones(len(x), bool), np.zeros(len(x), np.intp)
    for column, bounds, bins in zip(x.T, edges, shape, strict=True):
        place = np.searchsorted(bounds, column, "right") - 1
        place = np.where(column == bounds[-1], bins - 1, place)
        inside &= (column >= bounds[0]) & (column <= bounds[-1])
        flat = flat * bins + np.clip(place, 0, bins - 1)
    sums = np.bincount(flat[inside], weight[inside].astype(np.float64), int(np.prod(shape)))
    return sums.astype(x.dtype).reshape(shape)
