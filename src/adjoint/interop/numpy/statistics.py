"""NumPy's sums, means, extremes, orders and differences, under NumPy's signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import FLOATING, as_dtype, default
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.elementwise.float_functions import _replace_nan_by_zero
from adjoint.functions.reduction import numerical_calculus, sort_quantile_unique
from adjoint.functions.shape import shape as shapes
from adjoint.interop.array_api import searching, statistical
from adjoint.interop.array_api.operands import cast_to
from adjoint.interop.numpy.arrangement import as_common_tensors
from adjoint.interop.numpy.ufuncs import tensor_of
from adjoint.ops.elementwise import arithmetic, comparison, select

TABLE: dict[str, Callable[..., Any]] = {}


def _register(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note a function as the counterpart of NumPy's of the same name, and of further `names`."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in (function.__name__, *names):
            TABLE[name] = function
        return function

    return note


def _bool_as_uint8(a: Any) -> Any:
    """`a`, with 0 and 1 for False and True."""
    return cast_to(a, np.dtype(np.uint8)) if a.array.dtype == bool else a


def _as_floating(a: Any, dtype: Any = None) -> Tensor:
    """`a` in a floating type: `dtype`, its own, or the default one."""
    kind = a.array.dtype if dtype is None else np.dtype(dtype)
    return cast_to(a, kind if kind.kind in FLOATING else default.floating.numpy)


@_register()
def sum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.sum(a, axis=axis, dtype=None if dtype is None else as_dtype(dtype), keepdims=keepdims)


@_register()
def prod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.prod(a, axis=axis, dtype=None if dtype is None else as_dtype(dtype), keepdims=keepdims)


@_register()
def mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.mean(_as_floating(a, dtype), axis=axis, keepdims=keepdims)


@_register()
def average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Any:
    if weights is None:
        return mean(a, axis, keepdims=keepdims)
    x, w = as_common_tensors([_as_floating(tensor_of(a)), weights])
    if w.array.shape != x.array.shape:
        place = axis % x.ndim
        w = shapes.reshape(w, tuple(n if d == place else 1 for d, n in enumerate(x.shape)))
    total = statistical.sum(arithmetic.mul(x, w), axis=axis, keepdims=keepdims)
    spread = arithmetic.mul(w, np.ones(x.array.shape, x.array.dtype))
    return arithmetic.div(total, statistical.sum(spread, axis=axis, keepdims=keepdims))


@_register()
def var(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, correction: Any = None
) -> Any:
    given = ddof if correction is None else correction
    return statistical.var(_as_floating(a, dtype), axis=axis, correction=given, keepdims=keepdims)


@_register()
def std(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, correction: Any = None
) -> Any:
    given = ddof if correction is None else correction
    return statistical.std(_as_floating(a, dtype), axis=axis, correction=given, keepdims=keepdims)


@_register("amax")
def max(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.max(a, axis=axis, keepdims=keepdims)


@_register("amin")
def min(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.min(a, axis=axis, keepdims=keepdims)


@_register()
def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return arithmetic.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


@_register()
def all(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.all(a, axis=axis, keepdims=keepdims)


@_register()
def any(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return statistical.any(a, axis=axis, keepdims=keepdims)


@_register()
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return searching.count_nonzero(a, axis=axis, keepdims=keepdims)


@_register()
def argmax(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return searching.argmax(_bool_as_uint8(a), axis=axis, keepdims=keepdims)


@_register()
def argmin(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return searching.argmin(_bool_as_uint8(a), axis=axis, keepdims=keepdims)


@_register()
def cumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _run_scan(statistical.cumulative_sum, a, axis, dtype)


@_register()
def cumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _run_scan(statistical.cumulative_prod, a, axis, dtype)


def _run_scan(scan: Any, a: Any, axis: Any, dtype: Any) -> Any:
    x = shapes.ravel(a) if axis is None else a
    return scan(x, axis=0 if axis is None else axis, dtype=None if dtype is None else as_dtype(dtype))


@_register()
def nansum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return sum(_replace_nan_by_zero(a), axis, dtype, keepdims=keepdims)


@_register()
def nanmean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    present = comparison.logical_not(comparison.isnan(a.detach()))
    counted = statistical.sum(select.cast(present, dtype=a.array.dtype), axis=axis, keepdims=keepdims)
    return arithmetic.div(nansum(a, axis, dtype, keepdims=keepdims), counted)


@_register()
def nanmax(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return _extreme_without_nan(a, axis, keepdims, max, -np.inf)


@_register()
def nanmin(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return _extreme_without_nan(a, axis, keepdims, min, np.inf)


def _extreme_without_nan(a: Any, axis: Any, keepdims: bool, extreme: Any, least: float) -> Any:
    missing = comparison.isnan(a.detach())
    found = extreme(select.where(missing, least, a), axis, keepdims=keepdims)
    nothing = statistical.all(missing, axis=axis, keepdims=keepdims)
    return select.where(nothing, np.nan, found)


@_register()
def quantile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    x = _as_floating(a)
    wanted = q if isinstance(q, (int, float)) else cast_to(tensor_of(np.asarray(q)), x.array.dtype)
    return sort_quantile_unique.quantile(x, wanted, axis, keepdims, interpolation=method)


@_register()
def percentile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    return quantile(a, np.true_divide(q, 100).tolist(), axis, method=method, keepdims=keepdims)


@_register()
def median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return quantile(a, 0.5, axis, keepdims=keepdims)


@_register()
def sort(a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Any:
    return searching.sort(shapes.ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


@_register()
def argsort(a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Any:
    return searching.argsort(shapes.ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


@_register()
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    places = None if sorter is None else tensor_of(sorter)
    return searching.searchsorted(*as_common_tensors([a, v]), side=side, sorter=places)


@_register()
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    return sort_quantile_unique.isin(element, test_elements, assume_unique=assume_unique, invert=invert)


@_register()
def unique_values(x: Any, /) -> Any:
    return searching.unique_values(x)


@_register()
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False) -> Any:
    found = searching.unique_all(ar)
    wanted = (True, return_index, return_inverse, return_counts)
    chosen = tuple(part for part, asked in zip(found, wanted, strict=True) if asked)
    return chosen if len(chosen) > 1 else chosen[0]


@_register()
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    ends = [None if part is None else tensor_of(part) for part in (prepend, append)]
    return statistical.diff(a, n=n, axis=axis, prepend=ends[0], append=ends[1])


@_register()
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    if x is None:
        return numerical_calculus.trapezoid(tensor_of(y), dx=dx, dim=axis)
    return numerical_calculus.trapezoid(*as_common_tensors([y, x]), dim=axis)
