"""Sums, means, spreads, extremes, truths and running totals."""

from __future__ import annotations

import numpy as np

from adjoint.core.dtype.dtype import dtype
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.reduction import numerical_calculus, statistics
from adjoint.functions.reduction import reduce as folded
from adjoint.interop.array_api.creation import ones, zeros
from adjoint.interop.array_api.manipulation import concat
from adjoint.interop.array_api.operands import cast_to, normalize_axes
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction, scan

__all__ = ["all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum", "var"]

Axes = int | tuple[int, ...] | None


def _cast_for_sum(x: Tensor, dtype: dtype | None) -> Tensor:
    """x in the type of its sum: `dtype`, or the 64-bit type of its kind for integers."""
    kind = x.array.dtype
    if dtype is None and kind.kind in "iub":
        return cast_to(x, np.dtype(np.uint64 if kind.kind == "u" else np.int64))
    return x if dtype is None else cast_to(x, dtype.numpy)


def sum(x: Tensor, /, *, axis: Axes = None, dtype: dtype | None = None, keepdims: bool = False) -> Tensor:
    """Σ over `axis`; integers sum in 64 bits."""
    return reduction.sum(_cast_for_sum(x, dtype), axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


def prod(x: Tensor, /, *, axis: Axes = None, dtype: dtype | None = None, keepdims: bool = False) -> Tensor:
    """Π over `axis`; integers multiply in 64 bits."""
    return reduction.prod(_cast_for_sum(x, dtype), axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Mean over `axis`."""
    return reduction.mean(x, axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Largest elements over `axis`; ties share the gradient equally. Raises ValueError where there is none."""
    axes = _nonempty_axes("max", x, axis)
    return reduction.max(x, axes=axes, keepdims=keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Smallest elements over `axis`; ties share the gradient equally. Raises ValueError where there is none."""
    axes = _nonempty_axes("min", x, axis)
    return reduction.min(x, axes=axes, keepdims=keepdims)


def _nonempty_axes(name: str, x: Tensor, axis: Axes) -> tuple[int, ...]:
    folded.check_ordered(name, x)
    axes = normalize_axes(axis, x.ndim)
    for d in axes:
        if not x.array.shape[d]:
            raise ValueError(f"{name}: axis {d} of {tuple(x.shape)} has no elements")
    return axes


def var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Σ(x - mean)² / (n - correction) over `axis`; NaN unless n exceeds the correction."""
    return _spread(statistics.var, x, axis, correction, keepdims)


def std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """√var; at 0 its gradient is taken as 0."""
    return _spread(statistics.std, x, axis, correction, keepdims)


def _spread(measure: Function, x: Tensor, axis: Axes, correction: float, keepdims: bool) -> Tensor:
    axes = normalize_axes(axis, x.ndim)
    enough = movement.numel(tuple(x.array.shape[d] for d in axes)) > correction
    # of a 0-d tensor all dimensions are none
    if axes or not x.ndim:
        out: Tensor = measure(x, axes, keepdim=keepdims, correction=correction)
    else:  # each element by itself
        out = arithmetic.mul(x, 0.0)
    return out if enough else arithmetic.mul(out, float("nan"))


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: dtype | None = None, include_initial: bool = False
) -> Tensor:
    """Running sum along `axis`, which vectors may omit; a 0 first if `include_initial`."""
    d = _scan_axis("cumulative_sum", x, axis)
    out = reduction.cumsum(_cast_for_sum(x, dtype), axis=d)
    return _prepend_initial(zeros, out, d) if include_initial else out


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: dtype | None = None, include_initial: bool = False
) -> Tensor:
    """Running product along `axis`, which vectors may omit; a 1 first if `include_initial`."""
    d = _scan_axis("cumulative_prod", x, axis)
    out = scan.cumprod(_cast_for_sum(x, dtype), axis=d)
    return _prepend_initial(ones, out, d) if include_initial else out


def _scan_axis(name: str, x: Tensor, axis: int | None) -> int:
    if not x.ndim or (axis is None and x.ndim > 1):
        raise ValueError(f"{name}: a tensor of {x.ndim} dimensions needs an axis")
    return one_dim(0 if axis is None else axis, x.ndim)


def _prepend_initial(made: Function, out: Tensor, d: int) -> Tensor:
    shape = tuple(1 if i == d else n for i, n in enumerate(out.shape))
    return concat([made(shape, dtype=out.dtype), out], axis=d)


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """True if no element over `axis` is zero."""
    return reduction.all(x.detach(), axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """True if an element over `axis` is not zero."""
    return reduction.any(x.detach(), axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of neighbours along `axis`, n times; `prepend` and `append` are joined to the ends first."""
    out = numerical_calculus.diff(x, n, axis, prepend, append)
    return select.copy(out) if out is x else out
