"""NumPy's sums, means, extremes, orders and differences, under NumPy's signatures."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import FLOATING, default
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand
from adjoint.functions.reduction import numerical_calculus, sort_quantile_unique
from adjoint.functions.reduction.reduce import _replace_nan_by_zero
from adjoint.functions.shape import shape as shapes
from adjoint.interop.array_api import searching, statistical
from adjoint.interop.array_api.operands import cast_to
from adjoint.interop.numpy.arrangement import as_common_tensors, as_dtype_or_none, register
from adjoint.interop.numpy.ufuncs import tensor_of
from adjoint.ops.elementwise import arithmetic, comparison, select


def _wrap_reduction(reduction: Function) -> Function:
    return lambda a, axis=None, *, keepdims=False: reduction(a, axis=axis, keepdims=keepdims)


def _wrap_sum(reduction: Function) -> Function:
    return lambda a, axis=None, dtype=None, *, keepdims=False: reduction(
        a, axis=axis, dtype=as_dtype_or_none(dtype), keepdims=keepdims
    )


def _wrap_arg_extreme(position: Function) -> Function:
    """Wrap `argmax` or `argmin`: of booleans, 0 and 1 are compared."""
    return lambda a, axis=None, *, keepdims=False: position(
        cast_to(a, np.dtype(np.uint8)) if a.array.dtype == bool else a, axis=axis, keepdims=keepdims
    )


def _wrap_variance(measure: Function) -> Function:
    return lambda a, axis=None, dtype=None, *, ddof=0, keepdims=False, correction=None: measure(
        _as_floating(a, dtype), axis=axis, correction=ddof if correction is None else correction, keepdims=keepdims
    )


def _wrap_scan(scan: Function) -> Function:
    return lambda a, axis=None, dtype=None: scan(
        shapes.ravel(a) if axis is None else a, axis=axis or 0, dtype=as_dtype_or_none(dtype)
    )


def _wrap_sort(sort: Function) -> Function:
    return lambda a, axis=-1, kind=None, *, stable=None: sort(
        shapes.ravel(a) if axis is None else a, axis=-1 if axis is None else axis
    )


def _wrap_extreme_ignoring_nan(extreme: Function, least: float) -> Function:
    def call(a: Operand, axis: Any = None, *, keepdims: bool = False) -> Any:
        is_nan = comparison.isnan(a.detach())
        out = extreme(select.where(is_nan, least, a), axis=axis, keepdims=keepdims)
        return select.where(statistical.all(is_nan, axis=axis, keepdims=keepdims), np.nan, out)

    return call


def _as_floating(a: Tensor, dtype: Any = None) -> Tensor:
    """Cast `a` to a floating type: `dtype`, its own, or the default one."""
    kind = a.array.dtype if dtype is None else np.dtype(dtype)
    return cast_to(a, kind if kind.kind in FLOATING else default.floating.numpy)


TABLE: dict[str, Function] = {
    "sum": _wrap_sum(statistical.sum),
    "prod": _wrap_sum(statistical.prod),
    "max": _wrap_reduction(statistical.max),
    "amax": _wrap_reduction(statistical.max),
    "min": _wrap_reduction(statistical.min),
    "amin": _wrap_reduction(statistical.min),
    "all": _wrap_reduction(statistical.all),
    "any": _wrap_reduction(statistical.any),
    "count_nonzero": _wrap_reduction(searching.count_nonzero),
    "argmax": _wrap_arg_extreme(searching.argmax),
    "argmin": _wrap_arg_extreme(searching.argmin),
    "var": _wrap_variance(statistical.var),
    "std": _wrap_variance(statistical.std),
    "cumsum": _wrap_scan(statistical.cumulative_sum),
    "cumprod": _wrap_scan(statistical.cumulative_prod),
    "nanmax": _wrap_extreme_ignoring_nan(statistical.max, -np.inf),
    "nanmin": _wrap_extreme_ignoring_nan(statistical.min, np.inf),
    "sort": _wrap_sort(searching.sort),
    "argsort": _wrap_sort(searching.argsort),
    "unique_values": searching.unique_values,
}


@register(TABLE)
def mean(a: Tensor, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Operand:
    return statistical.mean(_as_floating(a, dtype), axis=axis, keepdims=keepdims)


@register(TABLE)
def average(a: Operand, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Any:
    if weights is None:
        return mean(a, axis, keepdims=keepdims)
    x, w = as_common_tensors([_as_floating(tensor_of(a)), weights])
    if w.array.shape != x.array.shape:
        axis_from_front = axis % x.ndim
        w = shapes.reshape(w, tuple(n if d == axis_from_front else 1 for d, n in enumerate(x.shape)))
    total = statistical.sum(arithmetic.mul(x, w), axis=axis, keepdims=keepdims)
    all_weights = arithmetic.mul(w, np.ones(x.array.shape, x.array.dtype))
    return arithmetic.div(total, statistical.sum(all_weights, axis=axis, keepdims=keepdims))


@register(TABLE)
def ptp(a: Operand, axis: Any = None, *, keepdims: bool = False) -> Any:
    return arithmetic.sub(*(f(a, axis=axis, keepdims=keepdims) for f in (statistical.max, statistical.min)))


@register(TABLE)
def nansum(a: Operand, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return TABLE["sum"](_replace_nan_by_zero(a), axis, dtype, keepdims=keepdims)


@register(TABLE)
def nanmean(a: Operand, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    is_number = comparison.logical_not(comparison.isnan(a.detach()))
    count = statistical.sum(select.cast(is_number, dtype=a.array.dtype), axis=axis, keepdims=keepdims)
    return arithmetic.div(nansum(a, axis, dtype, keepdims=keepdims), count)


@register(TABLE)
def quantile(a: Operand, q: Operand, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    x = _as_floating(a)
    fractions = q if isinstance(q, (int, float)) else cast_to(tensor_of(np.asarray(q)), x.array.dtype)
    return sort_quantile_unique.quantile(x, fractions, axis, keepdims, interpolation=method)


@register(TABLE)
def percentile(a: Operand, q: Operand, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    return quantile(a, np.true_divide(q, 100).tolist(), axis, method=method, keepdims=keepdims)


@register(TABLE)
def median(a: Operand, axis: Any = None, *, keepdims: bool = False) -> Any:
    return quantile(a, 0.5, axis, keepdims=keepdims)


@register(TABLE)
def searchsorted(a: Operand, v: Operand, side: str = "left", sorter: Any = None) -> Any:
    order = None if sorter is None else tensor_of(sorter)
    return searching.searchsorted(*as_common_tensors([a, v]), side=side, sorter=order)


@register(TABLE)
def isin(element: Tensor, test_elements: Tensor, assume_unique: bool = False, invert: bool = False) -> Tensor:
    return sort_quantile_unique.isin(element, test_elements, assume_unique=assume_unique, invert=invert)


@register(TABLE)
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False) -> Any:
    wanted = (True, return_index, return_inverse, return_counts)
    chosen = tuple(part for part, asked in zip(searching.unique_all(ar), wanted, strict=True) if asked)
    return chosen if len(chosen) > 1 else chosen[0]


@register(TABLE)
def diff(a: Operand, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    ends = [None if part is None else tensor_of(part) for part in (prepend, append)]
    return statistical.diff(a, n=n, axis=axis, prepend=ends[0], append=ends[1])


@register(TABLE)
def trapezoid(y: Operand, x: Operand = None, dx: float = 1.0, axis: int = -1) -> Any:
    if x is None:
        return numerical_calculus.trapezoid(tensor_of(y), dx=dx, dim=axis)
    return numerical_calculus.trapezoid(*as_common_tensors([y, x]), dim=axis)
