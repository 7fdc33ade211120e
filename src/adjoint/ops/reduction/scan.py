"""Running products and sums of exponentials, and the linear recurrence of their gradients."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.eager_kernels import RowKernel, SmallArrayKernel
from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, NumpyDtype, Operand
from adjoint.ops.elementwise.select import where
from adjoint.ops.elementwise.transcendental import exp
from adjoint.ops.movement.movement import Bounds, pad, slice
from adjoint.ops.reduction.reduction import WIDER, accumulate, round_to, run_small

RUNNING_PRODUCT, GRADIENT = SmallArrayKernel("running_product"), SmallArrayKernel("running_product_gradient")
CUMPROD, LOGCUMSUMEXP, WHERE_EXTREME, RECURRENCE = map(
    RowKernel, ("cumprod", "logcumsumexp", "where_extreme", "recurrence")
)


def recurrence(g: Operand, factor: Operand, axis: int) -> Operand:
    """R with R[i] = g[i] + factor[i] R[i + 1] along `axis`.

    Native code goes from the end to the beginning; otherwise it takes log₂ n steps of doubling, each differentiable.
    """
    if type(g) is np.ndarray:
        given = factor.array if isinstance(factor, Tensor) else factor
        found = RECURRENCE.call(g, given, axis=axis) if type(given) is np.ndarray else None
        if found is not None:
            return found
    n, step = g.shape[axis], 1
    while step < n:
        g = g + factor * shift_forward(g, axis, step, 0.0)
        factor = factor * shift_forward(factor, axis, step, 0.0)
        step *= 2
    return g


def shift_forward(x: Operand, axis: int, by: int, beyond: float) -> Tensor:
    """Shift x so that each place takes the element `by` later along `axis`; after the end, `beyond`."""
    bounds: Bounds = tuple((by if d == axis else 0, n, 1) for d, n in enumerate(x.shape))
    widths = tuple((0, by if d == axis else 0) for d in range(len(x.shape)))
    return pad(slice(x, bounds=bounds), widths=widths, value=beyond)


def _cumprod_dx(g: Operand, x: Operand, axis: int) -> Operand:
    """The product of the elements before, times the recurrence of the ones after; exact for zeros too."""
    if not x.shape[axis]:
        return g
    if type(g) is np.ndarray and type(x) is np.ndarray:
        native = run_small(GRADIENT, axis, g, x)
        if native is not None:
            return native
    bounds: Bounds = tuple((0, n - 1 if d == axis else n, 1) for d, n in enumerate(x.shape))
    widths = tuple((1 if d == axis else 0, 0) for d in range(len(x.shape)))
    before = pad(slice(cumprod(x, axis=axis), bounds=bounds), widths=widths, value=1.0)
    return before * recurrence(g, shift_forward(x, axis, 1, 0.0), axis)


@primitive(spec=lambda x, *, axis: Spec(x.shape, x.dtype), dx=_cumprod_dx)
def cumprod(x: Array, *, axis: int) -> Array:
    """Running product along `axis`, of floats in a wider type."""
    return running_product(x, axis, x.dtype)


def running_product(x: Array, axis: int, dtype: NumpyDtype) -> Array:
    """Return running products along `axis` of elements converted to `dtype`."""
    found = run_small(RUNNING_PRODUCT, axis, x) if dtype is x.dtype else None
    if found is None:
        found = CUMPROD.call(x, axis=axis, dtype=dtype)
    if found is not None:
        return found
    return round_to(accumulate(np.multiply, x, axis, WIDER.get(dtype, dtype)), dtype)


def _logcumsumexp_dx(g: Operand, x: Operand, out: Operand, axis: int) -> Operand:
    """Σ g[j] exp(x[i] - out[j]) over j ≥ i, by factors that are never above 1."""
    if not x.shape[axis]:
        return g
    nothing = out == -np.inf
    finite = where(nothing, 0.0, out)
    later = shift_forward(finite, axis, 1, np.inf)  # nothing comes after the last: the factor there is 0
    ratio = where(nothing, 0.0, exp(finite - later))
    return where(nothing, 0.0, exp(x - finite)) * recurrence(g, ratio, axis)


@primitive(spec=lambda x, *, axis: Spec(x.shape, x.dtype), dx=_logcumsumexp_dx)
def logcumsumexp(x: Array, *, axis: int) -> Array:
    """ln of the running sum of eˣ along `axis`."""
    if x.dtype.kind == "c":
        return _complex_logcumsumexp(x, axis)
    found: Array | None = LOGCUMSUMEXP.call(x, axis=axis)
    if found is not None:
        return found
    return np.logaddexp.accumulate(np.asarray(x, order="C"), axis=axis)


def _complex_logcumsumexp(x: Operand, axis: int) -> Array:
    """Running ln Σ eˣ by the larger term of each sum: a + ln(1 + e^(b - a))."""
    out = x.copy()
    lines, total = np.moveaxis(out, axis, 0), None
    for line in lines:
        if total is not None:
            first = total.real >= line.real
            larger, smaller = np.where(first, total, line), np.where(first, line, total)
            nothing = larger == -np.inf
            line[...] = larger + np.log1p(np.where(nothing, 0.0, np.exp(smaller - np.where(nothing, 0.0, larger))))
        total = line.copy()
    return out


@primitive(spec=lambda x, *, axis, largest: Spec(x.shape, np.dtype(np.int64)))
def where_extreme(x: Array, *, axis: int, largest: bool) -> Array:
    """The index of the last attained running maximum (or minimum) along `axis`; NaN is the extreme from there on."""
    found: Array | None = WHERE_EXTREME.call(x, axis=axis, largest=largest)
    if found is not None:
        return found
    x = np.asarray(x, order="C")
    best = (np.maximum if largest else np.minimum).accumulate(x, axis=axis)
    own = np.arange(x.shape[axis]).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    attained = (x == best) | (np.isnan(x) if x.dtype.kind == "f" else False)
    return np.maximum.accumulate(np.where(attained, own, 0), axis=axis)
