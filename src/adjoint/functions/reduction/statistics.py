"""Covariances, correlations, and histograms of one dimension and of several."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adjoint.core.dtype.dtype import DTYPES
from adjoint.core.graph.source_location import warn_user
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public
from adjoint.functions.api.return_types import format_fields
from adjoint.functions.creation import creation
from adjoint.functions.elementwise import pointwise
from adjoint.functions.linalg import matmul
from adjoint.functions.shape import rearrange, shape
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.indexing import nonzero
from adjoint.ops.reduction import reduction

__all__ = ["corrcoef", "cov", "histogram", "histogramdd"]


@public()
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Covariances of the variables, the rows of `input` (variables, observations): Σ (x - x̄)(y - ȳ) / (N - correction).

    `fweights` tells how often an observation was made, `aweights` how much it counts. Raises RuntimeError for more than
    two dimensions, truths, and weights of another type or number, below 0, or of the sum 0.
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.array.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x: Any = input if input.ndim == 2 else shape.reshape(input, (1, input.numel()))
    count = x.array.shape[1]
    weights = _weights(count, fweights, aweights)
    total = count if weights is None else weights.sum()
    if _try_read_number(total) == 0 and weights is not None:
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = _sum_of_rows(x if weights is None else x * weights) / total
    freedom: Any = total - correction
    if aweights is not None and correction:
        freedom = total - (weights * aweights).sum() * correction / total
    if (known := _try_read_number(freedom)) is not None and known <= 0:
        warn_user(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
            UserWarning,
        )
    freedom = pointwise.clamp(freedom, min=0) if isinstance(freedom, Tensor) else float(max(freedom, 0))
    apart = x - mean
    other = apart if weights is None else apart * weights
    other = shape.transpose(other, 0, 1)
    products = matmul.mm(apart, other.conj() if other.array.dtype.kind == "c" else other)
    return shape.squeeze(arithmetic.div(products, freedom))


def _sum_of_rows(x: Any) -> Any:
    return reduction.sum(x, axes=(1,), keepdims=True)


def _try_read_number(value: Any) -> Any:
    """A number, or the one that a tensor holds; None while a step is traced."""
    if not isinstance(value, Tensor):
        return value
    return value.array.item() if type(value.array) is np.ndarray else None


def _weights(count: int, fweights: Tensor | None, aweights: Tensor | None) -> Any:
    out: Any = None
    for name, given, rank, kind in (
        ("fweights", fweights, 1, "integral"),
        ("aweights", aweights, 2, "floating point"),
    ):
        if given is None:
            continue
        if given.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {given.ndim} dimensions"
            )
        if DTYPES[given.array.dtype].rank != rank:
            raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {given.dtype} dtype")
        if given.numel() != count:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{given.numel()} != {count}"
            )
        below = reduction.any(comparison.lt(given, 0), axes=tuple(range(given.ndim)), keepdims=False)
        if _try_read_number(below):
            raise RuntimeError(f"cov(): {name} cannot be negative")
        out = given if out is None else out * given
    return out


@public()
def corrcoef(input: Tensor) -> Tensor:
    """Covariances of the rows of `input` over the product of their standard deviations, within [-1, 1].

    Raises RuntimeError for more than two dimensions.
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    c: Any = cov(input)
    if not c.ndim:
        return c / c
    variances: Any = rearrange.diag(c)
    complex_ones = c.array.dtype.kind == "c"
    deviations = (variances.real if complex_ones else variances).sqrt()
    c = c / deviations[:, None] / deviations[None, :]
    return c if complex_ones else pointwise.clamp(c, -1, 1)


class Histogram(NamedTuple):
    """What `histogram` returns."""

    hist: Tensor
    bin_edges: Tensor

    def __repr__(self) -> str:
        return format_fields(self, "histogram")


class HistogramOfPoints(NamedTuple):
    """What `histogramdd` returns."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


@public()
@with_out
def histogram(
    input: Tensor, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Histogram:
    """How many elements, or how much `weight`, lie in each bin: so many of equal width, or between the edges given.

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
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> HistogramOfPoints:
    """How many points, the last dimension of `input` (…, D), lie in each bin of D dimensions.

    `bins` are a number for all, or for each dimension a number or a tensor of edges; `range` the first and last edge of
    the first dimension, then of the second, …; else as `histogram`.
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


def _histogram(name: str, x: Any, bins: list[Any], limits: Any, weight: Any, density: bool) -> HistogramOfPoints:
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
    hist: Any = nonzero.counts_in_bins(x, ones if weight is None else weight.detach(), *edges)
    if density:
        hist = hist / hist.sum()
        for at, bounds_of in enumerate(edges):
            widths: Any = bounds_of[1:] - bounds_of[:-1]
            hist = hist / widths.reshape(-1, *([1] * (len(edges) - at - 1)))
    return HistogramOfPoints(hist, tuple(edges))


def _copy_bin_edges(x: Any, given: Tensor, at: int) -> Any:
    if given.ndim != 1:
        raise RuntimeError(
            f"torch.histogramdd: bins tensor should have one dimension, but got {given.ndim} dimensions in the bins "
            f"tensor for dimension {at}"
        )
    if not given.numel():
        raise RuntimeError(f"torch.histogramdd: bins tensor should have at least 1 element for dimension {at}")
    return select.copy(given.detach())
