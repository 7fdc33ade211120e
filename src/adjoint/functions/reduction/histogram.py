"""Counts of elements: of integers, and in bins of one dimension or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.runtime.mode import call_on_values
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public
from adjoint.functions.api.return_types import format_fields
from adjoint.functions.creation import creation
from adjoint.functions.shape import shape
from adjoint.ops.elementwise import select
from adjoint.ops.indexing import nonzero

__all__ = ["bincount", "histc", "histogram", "histogramdd"]


@public()
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Count how often each integer occurs in a vector, or sum the weights at it.

    Raises: RuntimeError unless `input` is a vector of integers and `weights` is as long.
    """
    if input.array.dtype.kind not in "iu":
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{scalar_type(input.dtype)}'")
    if input.ndim != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError(f"bincount(): minlength should be >= 0, got {minlength}")
    if weights is not None and weights.array.shape != input.array.shape:
        raise RuntimeError(
            f"bincount(): weights should be 1-d and have the same length as input, got {list(weights.shape)} and "
            f"{list(input.shape)}"
        )
    tensors = [x.detach() for x in (input, weights) if x is not None]
    return call_on_values(lambda *given: _count(minlength, *given), *tensors)


def _count(minlength: int, input: Tensor, weights: Tensor | None = None) -> Tensor:
    array = input.numpy_view("bincount()")
    if array.size and array.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    places = array.astype(np.intp, copy=False)
    if weights is None or not array.size:
        return wrap(np.bincount(places, minlength=minlength).astype(np.int64))
    counted = np.bincount(places, weights.numpy_view("bincount()"), minlength)
    return wrap(counted.astype(np.float32 if weights.array.dtype == np.float32 else np.float64))


class Histogram(NamedTuple):
    """Result of `histogram`."""

    hist: Tensor
    bin_edges: Tensor

    def __repr__(self) -> str:
        return format_fields(self, "histogram")


class HistogramOfPoints(NamedTuple):
    """Result of `histogramdd`."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


@public()
@with_out
def histogram(
    input: Tensor,
    bins: Tensor | float = 100,
    *,
    range: tuple[int, ...] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """Count elements, or sum their `weight`, in bins: a number of equal width, or between given edges.

    Of equal bins, `range` tells the first and last edge, else the elements do. `density`: over the total and the
    width. Without a gradient. Raises RuntimeError for bins or a range that are none.
    """
    flat = shape.reshape(input.detach(), (input.numel(), 1))
    if weight is not None:
        if weight.array.shape != input.array.shape:
            raise RuntimeError(
                "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
                f"excluding its innermost dimension, but got input with shape {[*input.array.shape, 1]} and weight "
                f"with shape {list(weight.array.shape)}"
            )
        weight = shape.reshape(weight, (weight.numel(),))
    found = _histogram("torch.histogram()", flat, [bins], range, weight, density)
    return Histogram(found.hist, found.bin_edges[0])


def histogramdd(
    input: Tensor,
    bins: Tensor | int | Sequence[Tensor | float],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramOfPoints:
    """Count points, the last dimension of `input` (…, D), in bins of D dimensions.

    `bins` are a number for all, or for each dimension a number or a tensor of edges; `range` the first and last edge of
    the first dimension, then of the second, …; else as `histogram`.

    Raises: RuntimeError below two dimensions, unless there are D `bins`, and for `weight` of another shape.
    """
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    dims = input.array.shape[-1]
    each = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(each) != dims:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    points = math.prod(input.array.shape[:-1])
    flat = shape.reshape(input.detach(), (points, dims))
    if weight is not None:
        if weight.array.shape != input.array.shape[:-1]:
            raise RuntimeError(
                "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
                f"excluding its innermost dimension, but got input with shape {list(input.array.shape)} and weight "
                f"with shape {list(weight.array.shape)}"
            )
        weight = shape.reshape(weight, (points,))
    return _histogram("torch.histogramdd()", flat, each, range, weight, density)


def _histogram(
    name: str, x: Operand, bins: list[Any], limits: Sequence[float] | None, weight: Operand, density: bool
) -> HistogramOfPoints:
    if x.array.dtype.name not in ("float32", "float64"):
        raise NotImplementedError(f'"histogramdd" not implemented for {x.dtype}')
    if limits is not None and len(limits) != 2 * len(bins):
        raise RuntimeError(
            f"torch.histogramdd: for a {len(bins)}-dimensional histogram range should have {2 * len(bins)} elements, "
            f"but got {len(limits)}"
        )
    for at, given in enumerate(bins):
        if isinstance(given, Tensor) and given.array.dtype != x.array.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{x.dtype.name} and bins for dimension {at} with dtype {given.dtype.name}"
            )
    edges = []
    for at, given in enumerate(bins):
        if isinstance(given, Tensor):
            edges.append(_copy_bin_edges(x, given, at))
            continue
        if given <= 0:
            raise RuntimeError(f"{name}: bins must be > 0, but got {given} for dimension {at}")
        bounds = None if limits is None else (float(limits[2 * at]), float(limits[2 * at + 1]))
        if bounds is not None and bounds[0] > bounds[1]:
            raise RuntimeError(
                "torch.histogramdd: min should not exceed max, but got "
                f"min {bounds[0]:g} max {bounds[1]:g} for dimension {at}"
            )
        edges.append(nonzero.bin_edges(x, bins=int(given), at=at, bounds=bounds))
    ones = creation.ones(x.array.shape[0], dtype=x.dtype)
    hist = nonzero.counts_in_bins(x, ones if weight is None else weight.detach(), *edges)
    if density:
        hist = hist / hist.sum()
        for at, bounds_of in enumerate(edges):
            widths = bounds_of[1:] - bounds_of[:-1]
            hist = hist / widths.reshape(-1, *([1] * (len(edges) - at - 1)))
    return HistogramOfPoints(hist, tuple(edges))


def _copy_bin_edges(x: Tensor, given: Tensor, at: int) -> Tensor:
    if given.ndim != 1:
        raise RuntimeError(
            f"torch.histogramdd: bins tensor should have one dimension, but got {given.ndim} dimensions in the bins "
            f"tensor for dimension {at}"
        )
    if not given.numel():
        raise RuntimeError(f"torch.histogramdd: bins tensor should have at least 1 element for dimension {at}")
    return select.copy(given.detach())


@public()
@with_out
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Count elements in `bins` equal intervals of [min, max], or of their own range if both are 0.

    Raises: RuntimeError unless bins > 0.

    Source: `torch.histc`; the last interval is closed.
    """
    if bins <= 0:
        raise RuntimeError(f"torch.histc: bins must be > 0, but got {bins}")
    return nonzero.histogram(input.detach(), bins=bins, low=float(min), high=float(max))
