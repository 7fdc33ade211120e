"""NumPy's sums, means, extremes, orders and differences, under NumPy's signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import FLOATING, as_dtype, default
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.elementwise.float_functions import _without_nan
from adjoint.functions.reduction import numerical_calculus, sort_quantile_unique
from adjoint.functions.shape import shape as shapes
from adjoint.interop.array_api import searching, statistical
from adjoint.interop.array_api.operands import in_type
from adjoint.interop.numpy.arrangement import alike
from adjoint.interop.numpy.ufuncs import tensor_of
from adjoint.ops.elementwise import arithmetic, comparison, select

TABLE: dict[str, Callable[..., Any]] = {}


def _numpy(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note a function as the counterpart of NumPy's of the same name, and of further `names`."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in (function.__name__, *names):
            TABLE[name] = function
        return function

    return note


def _numbers(a: Any) -> Any:
    """`a`, with 0 and 1 for False and True."""
    return in_type(a, np.dtype(np.uint8)) if a.array.dtype == bool else a


def _floats(a: Any, dtype: Any = None) -> Tensor:
    """`a` in a floating type: `dtype`, its own, or the default one."""
    kind = a.array.dtype if dtype is None else np.dtype(dtype)
    return in_type(a, kind if kind.kind in FLOATING else default.floating.numpy)


@_numpy()
def sum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.sum(a, axis=axis, dtype=None if dtype is None else as_dtype(dtype), keepdims=keepdims)


@_numpy()
def prod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.prod(a, axis=axis, dtype=None if dtype is None else as_dtype(dtype), keepdims=keepdims)


@_numpy()
def mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.mean(_floats(a, dtype), axis=axis, keepdims=keepdims)


@_numpy()
def average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Any:
    if weights is None:
        return mean(a, axis, keepdims=keepdims)
    x, w = alike([_floats(tensor_of(a)), weights])
    if w.array.shape != x.array.shape:
        place = axis % x.ndim
        w = shapes.reshape(w, tuple(n if d == place else 1 for d, n in enumerate(x.shape)))
    total = statistical.sum(arithmetic.mul(x, w), axis=axis, keepdims=keepdims)
    spread = arithmetic.mul(w, np.ones(x.array.shape, x.array.dtype))
    return arithmetic.div(total, statistical.sum(spread, axis=axis, keepdims=keepdims))


@_numpy()
def var(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, correction: Any = None
) -> Any:
    given = ddof if correction is None else correction
    return statistical.var(_floats(a, dtype), axis=axis, correction=given, keepdims=keepdims)


@_numpy()
def std(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, correction: Any = None
) -> Any:
    given = ddof if correction is None else correction
    return statistical.std(_floats(a, dtype), axis=axis, correction=given, keepdims=keepdims)


@_numpy("amax")
def max(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.max(a, axis=axis, keepdims=keepdims)


@_numpy("amin")
def min(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.min(a, axis=axis, keepdims=keepdims)


@_numpy()
def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return arithmetic.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


@_numpy()
def all(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.all(a, axis=axis, keepdims=keepdims)


@_numpy()
def any(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.any(a, axis=axis, keepdims=keepdims)


@_numpy()
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return searching.count_nonzero(a, axis=axis, keepdims=keepdims)


@_numpy()
def argmax(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return searching.argmax(_numbers(a), axis=axis, keepdims=keepdims)


@_numpy()
def argmin(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return searching.argmin(_numbers(a), axis=axis, keepdims=keepdims)


@_numpy()
def cumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _running(statistical.cumulative_sum, a, axis, dtype)


@_numpy()
def cumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _running(statistical.cumulative_prod, a, axis, dtype)


def _running(scanned: Any, a: Any, axis: Any, dtype: Any) -> Any:
    x = shapes.ravel(a) if axis is None else a
    return scanned(x, axis=0 if axis is None else axis, dtype=None if dtype is None else as_dtype(dtype))


@_numpy()
def nansum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return sum(_without_nan(a), axis, dtype, keepdims=keepdims)


@_numpy()
def nanmean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    present = comparison.logical_not(comparison.isnan(a.detach()))
    counted = statistical.sum(select.cast(present, dtype=a.array.dtype), axis=axis, keepdims=keepdims)
    return arithmetic.div(nansum(a, axis, dtype, keepdims=keepdims), counted)


@_numpy()
def nanmax(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return _extreme_of_numbers(a, axis, keepdims, max, -np.inf)


@_numpy()
def nanmin(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return _extreme_of_numbers(a, axis, keepdims, min, np.inf)


def _extreme_of_numbers(a: Any, axis: Any, keepdims: bool, extreme: Any, least: float) -> Any:
    missing = comparison.isnan(a.detach())
    found = extreme(select.where(missing, least, a), axis, keepdims=keepdims)
    nothing = statistical.all(missing, axis=axis, keepdims=keepdims)
    return select.where(nothing, np.nan, found)


@_numpy()
def quantile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    x = _floats(a)
    wanted = q if isinstance(q, (int, float)) else in_type(tensor_of(np.asarray(q)), x.array.dtype)
    return sort_quantile_unique.quantile(x, wanted, axis, keepdims, interpolation=method)


@_numpy()
def percentile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    return quantile(a, np.true_divide(q, 100).tolist(), axis, method=method, keepdims=keepdims)


@_numpy()
def median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return quantile(a, 0.5, axis, keepdims=keepdims)


@_numpy()
def sort(a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Any:
    return searching.sort(shapes.ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


@_numpy()
def argsort(a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Any:
    return searching.argsort(shapes.ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


@_numpy()
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    places = None if sorter is None else tensor_of(sorter)
    return searching.searchsorted(*alike([a, v]), side=side, sorter=places)


@_numpy()
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    return sort_quantile_unique.isin(element, test_elements, assume_unique=assume_unique, invert=invert)


@_numpy()
def unique_values(x: Any, /) -> Any:
    return searching.unique_values(x)


@_numpy()
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False) -> Any:
    found = searching.unique_all(ar)
    wanted = (True, return_index, return_inverse, return_counts)
    chosen = tuple(part for part, asked in zip(found, wanted, strict=True) if asked)
    return chosen if len(chosen) > 1 else chosen[0]


@_numpy()
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    ends = [None if part is None else tensor_of(part) for part in (prepend, append)]
    return statistical.diff(a, n=n, axis=axis, prepend=ends[0], append=ends[1])


@_numpy()
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    if x is None:
        return numerical_calculus.trapezoid(tensor_of(y), dx=dx, dim=axis)
    return numerical_calculus.trapezoid(*alike([y, x]), dim=axis)
