"""Reductions: sums, products, extremes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod as prod_of
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.op.apply import apply
from adjoint.core.op.call_template import make_call
from adjoint.core.op.eager_kernels import LateKernel, RowKernel, SmallArrayKernel, kernel_provider, try_small_reduction
from adjoint.core.op.elementwise_kernels import DIVIDE
from adjoint.core.op.families import Declaration, primitive, publish
from adjoint.core.op.op import Op, Rule, op_of
from adjoint.core.op.signature import parameters_of, with_parameters
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.mode import has_interpreter
from adjoint.core.tensor.size import as_float
from adjoint.core.typing import Array, Function, NumpyDtype, Operand, Shape
from adjoint.ops.elementwise.comparison import eq, isnan, logical_and, logical_or
from adjoint.ops.elementwise.select import cast
from adjoint.ops.movement.movement import (
    expand_gradient,
    flip,
    inverse,
    is_bare,
    numel,
    pad,
    permute,
    reshape,
    reshape_unshared,
    slice,
)
from adjoint.ops.reduction.native_fold import NativeFold
from adjoint.ops.reduction.summation import HALF, MIN_ROWS, SINGLE, add_reduce, add_up

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

SUM, SUM_OF_ALL = SmallArrayKernel("sum"), SmallArrayKernel("sum_of_all")
CUMSUM, ARGMAX, ARGMIN = map(RowKernel, ("cumsum", "argmax", "argmin"))
MIN_POSITION_ELEMENTS = 2**12  # among which a row kernel looks for extremes
MAX_RUN_ELEMENTS = 2**14  # of more, a row kernel takes several rows at a time
RUNNING_SUM, RUNNING_SUM_BACK = LateKernel("running_sum"), LateKernel("running_sum_back")
MEAN, MEAN_OF_ALL = SmallArrayKernel("mean"), SmallArrayKernel("mean_of_all")
SUM_COLUMNS, MAX_COLUMNS = SmallArrayKernel("sum_columns"), SmallArrayKernel("max_columns")
MIN_COLUMNS = SmallArrayKernel("min_columns")
LARGEST_OF_ROWS, SMALLEST_OF_ROWS = SmallArrayKernel("max_rows"), SmallArrayKernel("min_rows")
LARGEST_OF_ALL, SMALLEST_OF_ALL = SmallArrayKernel("max_of_all"), SmallArrayKernel("min_of_all")
SUM_FOLD = NativeFold(SUM_COLUMNS, SUM)
MAX_FOLD = NativeFold(MAX_COLUMNS, LARGEST_OF_ROWS, LARGEST_OF_ALL)
MIN_FOLD = NativeFold(MIN_COLUMNS, SMALLEST_OF_ROWS, SMALLEST_OF_ALL)
# NumPy's stubs give `reduce` no overload for a `keepdims` that is not a literal.
multiply_reduce: Function = np.multiply.reduce
maximum_reduce: Function = np.maximum.reduce
minimum_reduce: Function = np.minimum.reduce
WIDER: dict[NumpyDtype, NumpyDtype] = {
    HALF: SINGLE,
    SINGLE: np.dtype(np.float64),
    np.dtype(np.complex64): np.dtype(np.complex128),
}
or_reduce: Function = np.logical_or.reduce
and_reduce: Function = np.logical_and.reduce
xor_reduce: Function = np.bitwise_xor.reduce


def reduction_op(
    *,
    combine: str | None = None,
    identity: float | None = None,
    spec: Callable[..., Spec] | None = None,
    node: str | None = None,
    composite: Function | None = None,
    linear: bool = False,
    **rules: Rule,
) -> Declaration:
    """Declare f(x, *, axes, keepdims), a fold over `axes` (sorted, counted from the front).

    In its rules `g` and `out` keep the reduced axes as size 1.
    """

    def declare(function: Function) -> Function:
        kept = {name: _with_kept_axes(rule) for name, rule in rules.items()}
        op = Op(
            function,
            kept,
            call=apply,
            family="reduction",
            spec=spec or reduction_spec,
            combine=combine,
            identity=identity,
            node=node or _title,
            composite=composite,
            linear=linear,
        )
        return publish(make_call(op), op)

    return declare


def _title(node: Any) -> str:
    over_all = len(node.params["axes"]) == len(node.shapes[0]) and not node.params["keepdims"]
    return f"{node.op.name.capitalize()}Backward{0 if over_all else 1}"


def reduction_spec(x: Operand, *, axes: tuple[int, ...], keepdims: bool) -> Spec:
    """Spec of `x` folded over `axes`."""
    return Spec(tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes), x.dtype)


def _bool_spec(x: Operand, *, axes: tuple[int, ...], keepdims: bool) -> Spec:
    return Spec(reduction_spec(x, axes=axes, keepdims=keepdims).shape, np.dtype(np.bool_))


def _with_kept_axes(rule: Rule) -> Rule:
    """`rule`, given its `g` and `out` with the reduced axes as size 1, whatever `keepdims` was."""
    names = parameters_of(rule).positional[1:]
    of_shape = names == ("x_shape",)
    asked = tuple(dict.fromkeys((*names, "x_shape", "axes")))
    places = [asked.index(name) for name in names]
    shape_place, axes_place = asked.index("x_shape"), asked.index("axes")
    out_place = asked.index("out") if "out" in asked else None

    def with_kept_axes(g: Operand, *given: Operand) -> Tensor:
        if type(g) is np.ndarray:  # of a backward pass
            kept = kept_shape(given[shape_place], given[axes_place])
            if of_shape:
                return rule(g.reshape(kept) if g.ndim else g, given[shape_place])
            arguments = [given[i] if i != out_place else given[i].reshape(kept) for i in places]
            return rule(g.reshape(kept) if g.ndim else g, *arguments)
        if type(getattr(g, "array", None)) is np.ndarray:  # the same with tensors, of a backward pass that is recorded
            kept = kept_shape(given[shape_place], given[axes_place])
            arguments = [given[i] if i != out_place else reshape(given[i], shape=kept) for i in places]
            return rule(reshape(g, shape=kept) if g.array.ndim else g, *arguments)
        values = dict(zip(asked, given, strict=True))
        axes = values["axes"]
        kept = tuple(1 if i in axes else n for i, n in enumerate(values["x_shape"]))
        if "out" in values:
            values["out"] = reshape(values["out"], shape=kept)
        if len(g.shape):  # a number broadcasts as it is
            g = reshape(g, shape=kept)
        return rule(g, *[values[name] for name in names])

    return with_parameters(with_kept_axes, ("g", *asked))


@lru_cache(1024)
def kept_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """Return `shape` with size 1 along `axes`."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def share_among_winners(winners: Tensor, g: Operand, axes: tuple[int, ...]) -> Tensor:
    """`g` divided equally among the elements where `winners` is true."""
    ones = cast(winners, dtype=g.dtype if isinstance(g, np.ndarray) else g.array.dtype)
    return g * (ones / sum(ones, axes=axes, keepdims=True))


def _extreme_dx(g: Operand, x: Operand, out: Operand, axes: tuple[int, ...]) -> Operand:
    """g divided equally among the elements that equal the extreme, or are NaN if it is."""
    if is_bare(g) and not np.isnan(out).any():
        won = (x == out).astype(g.dtype)
        return g * (won / op_of(sum).evaluate(won, axes=axes, keepdims=True))
    if type(g) is np.ndarray and not np.isnan(out).any():
        return share_among_winners(eq(x, out), g, axes)
    is_extreme = logical_or(eq(x, out), logical_and(isnan(x), isnan(out)))
    return share_among_winners(is_extreme, g, axes)


def _has_native_sum(x: Operand, keepdims: bool) -> bool:
    """True unless dimensions are kept, as in gradients, of float64: compiled steps add them in the order of NumPy."""
    return not keepdims or x.dtype.itemsize < 8


@reduction_op(combine="add", identity=0, linear=True, dx=lambda g, x_shape: expand_gradient(g, x_shape))
def sum(x: Operand, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Σ over `axes`."""
    if _has_native_sum(x, keepdims) and (found := try_small_reduction(SUM, SUM_OF_ALL, x, axes)) is not None:
        return found.reshape(kept_shape(x.shape, axes)) if keepdims else found
    if _has_native_sum(x, keepdims) and (found := SUM_FOLD.try_fold(x, axes, keepdims)) is not None:
        return found
    dtype = x.dtype
    if x.size < MIN_ROWS and dtype.itemsize != 2:  # as `add_up` does it, which would be one more call
        return row_major(add_reduce(x, axes, dtype, None, keepdims), keepdims)
    return round_to(row_major(add_up(x, axes, keepdims), keepdims), dtype)


def widen_integers(x: Operand) -> Operand:
    """Return integers and truths as int64, in which sums of them are added; all else as it is."""
    dtype = x.dtype if isinstance(x, np.ndarray) else x.array.dtype
    return cast(x, dtype=np.dtype(np.int64)) if dtype.kind in "iub" and dtype != np.int64 else x


def round_to(out: Operand, dtype: NumpyDtype) -> Operand:
    """Return a result that was computed in a wider type in its own."""
    return out if out.dtype == dtype else out.astype(dtype)


def row_major(out: Operand, keepdims: bool = False) -> Operand:
    """Return a result of NumPy, which has its operand's layout, in row-major order, as PyTorch does.

    With `keepdims` the layout stays, so that a difference or quotient with the operand keeps it too.
    """
    return out if keepdims or out.ndim < 2 or out.flags.c_contiguous else np.ascontiguousarray(out)


def _count(shape: Shape, axes: tuple[int, ...]) -> float:
    return as_float(prod_of([shape[a] for a in axes]))


def _mean_composite(x: Tensor, *, axes: tuple[int, ...], keepdims: bool) -> Operand:
    wide = cast(x, dtype=SINGLE) if x.array.dtype == HALF else x  # the sum may be more than halves can hold
    out = sum(wide, axes=axes, keepdims=keepdims) / _count(x.shape, axes)
    return out if wide is x else cast(out, dtype=HALF)


@reduction_op(
    composite=_mean_composite,
    linear=True,
    dx=lambda g, x_shape, axes: expand_gradient(DIVIDE.call(g, _count(x_shape, axes)), x_shape),
)
def mean(x: Operand, *, axes: tuple[int, ...], keepdims: bool) -> Operand:
    """Σ over `axes`, divided by their number of elements."""
    if _has_native_sum(x, keepdims) and (found := try_small_reduction(MEAN, MEAN_OF_ALL, x, axes)) is not None:
        return found.reshape(kept_shape(x.shape, axes)) if keepdims else found
    if _has_native_sum(x, keepdims) and (found := SUM_FOLD.try_fold(x, axes, keepdims)) is not None:
        return np.divide(found, _count(x.shape, axes), dtype=x.dtype)
    if x.size < MIN_ROWS and x.dtype.itemsize != 2:
        return row_major(add_reduce(x, axes, None, None, keepdims), keepdims) / _count(x.shape, axes)
    return round_to(row_major(add_up(x, axes, keepdims), keepdims) / _count(x.shape, axes), x.dtype)


@reduction_op(combine="maximum", identity=-np.inf, node="AmaxBackward0", dx=_extreme_dx)
def max(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Operand:
    """Largest element along `axes`; ties share the gradient equally."""
    found = MAX_FOLD.try_fold(x, axes, keepdims)
    return row_major(maximum_reduce(x, axis=axes, keepdims=keepdims), keepdims) if found is None else found


@reduction_op(combine="minimum", identity=np.inf, node="AminBackward0", dx=_extreme_dx)
def min(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Operand:
    """Smallest element along `axes`; ties share the gradient equally."""
    found = MIN_FOLD.try_fold(x, axes, keepdims)
    return row_major(minimum_reduce(x, axis=axes, keepdims=keepdims), keepdims) if found is None else found


def _prod_dx(g: Operand, x: Operand, out: Operand, axes: tuple[int, ...]) -> Operand:
    is_plain = type(g) is np.ndarray and x.dtype.kind == "f"
    if is_plain and out.all() and np.isfinite(out).all():  # no element is 0, and nothing left the range
        return np.divide(g * out, x)
    return g * products_of_others(x, axes)


@reduction_op(combine="mul", identity=1, dx=_prod_dx)
def prod(x: Operand, *, axes: tuple[int, ...], keepdims: bool) -> Operand:
    """Π over `axes`; zeros are differentiated exactly."""
    wide = SINGLE if x.dtype == HALF else x.dtype
    return round_to(row_major(multiply_reduce(x, axis=axes, dtype=wide, keepdims=keepdims), keepdims), x.dtype)


def products_of_others(x: Operand, axes: tuple[int, ...]) -> Tensor:
    """The product of all the other elements along `axes`: products from both sides, so zeros need no care."""
    kept = tuple(i for i in range(len(x.shape)) if i not in axes)
    order = kept + axes
    front = tuple(x.shape[i] for i in kept)
    flat = reshape(permute(x, axes=order), shape=(*front, numel(tuple(x.shape[i] for i in axes))))
    before = _products_before(flat)
    after = flip(_products_before(flip(flat, axes=(len(front),))), axes=(len(front),))
    product = reshape(before * after, shape=tuple(x.shape[i] for i in order))
    return permute(product, axes=inverse(order))


def _products_before(x: Operand) -> Operand:
    """Π of the elements to the left of each, along the last axis: log₂ n steps of doubling, each differentiable."""
    n = x.shape[-1]
    lead = tuple((0, s, 1) for s in x.shape[:-1])
    still = tuple((0, 0) for _ in x.shape[:-1])

    def shift(y: Operand, by: int) -> Operand:
        return pad(slice(y, bounds=(*lead, (0, n - by, 1))), widths=(*still, (by, 0)), value=1.0)

    if n == 0:
        return x
    y = shift(x, 1)
    step = 1
    while step < n:
        y = y * shift(y, step)
        step *= 2
    return y


def _is_over_all_truths(x: Array, axes: tuple[int, ...], keepdims: bool) -> bool:
    """Return whether truths are reduced to one, which are counted in a quarter of the time."""
    return x.dtype.kind == "b" and len(axes) == len(x.shape) and not keepdims


@reduction_op(spec=_bool_spec, combine="logical_or", identity=False)
def any(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    """True if an element along `axes` is not zero."""
    if _is_over_all_truths(x, axes, keepdims):
        return np.asarray(np.count_nonzero(x) > 0)
    return row_major(or_reduce(x, axis=axes, keepdims=keepdims), keepdims)


@reduction_op(spec=_bool_spec, combine="logical_and", identity=True)
def all(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Operand:
    """True if no element along `axes` is zero."""
    if _is_over_all_truths(x, axes, keepdims):
        return np.asarray(np.count_nonzero(x) == x.size)
    return row_major(and_reduce(x, axis=axes, keepdims=keepdims), keepdims)


@reduction_op()
def xor(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Operand:
    """The bits that an odd number of the elements along `axes` have."""
    return row_major(xor_reduce(x, axis=axes, keepdims=keepdims), keepdims)


def _index_spec(x: Operand, *, axis: int, keepdims: bool) -> Spec:
    return Spec(reduction_spec(x, axes=(axis,), keepdims=keepdims).shape, np.dtype(np.int64))


@primitive(spec=_index_spec)
def argmax(x: Array, *, axis: int, keepdims: bool) -> Operand:
    """Index of the first largest element along `axis`; NaN counts as largest."""
    found = ARGMAX.call(x, axis=axis, keepdims=keepdims) if x.size >= MIN_POSITION_ELEMENTS else None
    return x.argmax(axis, keepdims=keepdims) if found is None else found


@primitive(spec=_index_spec)
def argmin(x: Array, *, axis: int, keepdims: bool) -> Operand:
    """Index of the first smallest element along `axis`; NaN counts as smallest."""
    found = ARGMIN.call(x, axis=axis, keepdims=keepdims) if x.size >= MIN_POSITION_ELEMENTS else None
    return x.argmin(axis, keepdims=keepdims) if found is None else found


@primitive(
    spec=lambda x, *, axis: Spec(x.shape, x.dtype),
    linear=True,
    dx=lambda g, axis: _cumsum_dx(g, axis),
)
def cumsum(x: Array, *, axis: int) -> Array:
    """Running sum along `axis`, of floats in a wider type: a sum of few digits would stop to grow."""
    return running_sum(x, axis, x.dtype)


def running_sum(x: Array, axis: int, dtype: NumpyDtype) -> Array:
    """Return running sums along `axis` of elements converted to `dtype`."""
    found = run_small(RUNNING_SUM, axis, x) if dtype is x.dtype else None
    if found is None:
        found = CUMSUM.call(x, axis=axis, dtype=dtype)
    if found is not None:
        return found
    return round_to(accumulate(np.add, x, axis, WIDER.get(dtype, dtype)), dtype)


def run_small(kernel: SmallArrayKernel, axis: int, *arrays: Array) -> Array | None:
    """Return running results along `axis` of small arrays of one shape; None if NumPy should compute them."""
    x = arrays[0]
    is_small = kernel_provider.enabled and 0 < x.size <= MAX_RUN_ELEMENTS
    return kernel.call(*arrays, _line_sizes(x.shape, axis)) if is_small else None


@lru_cache(1024)
def _line_sizes(shape: Shape, axis: int) -> Array:
    return np.array([shape[axis], prod_of(shape[axis + 1 :])])


def _cumsum_dx(g: Operand, axis: int) -> Operand:
    native = run_small(RUNNING_SUM_BACK, axis, g) if is_bare(g) else None
    return flip(cumsum(flip(g, axes=(axis,)), axis=axis), axes=(axis,)) if native is None else native


def accumulate(ufunc: np.ufunc, x: Array, axis: int, dtype: NumpyDtype) -> Array:
    """Return running results along `axis` in row-major order, computed where the elements were converted to `dtype`."""
    if x.dtype == dtype and x.flags.c_contiguous:
        return ufunc.accumulate(x, axis, dtype)
    out = x.astype(dtype, order="C")
    return ufunc.accumulate(out, axis, dtype, out)


def sum_to(g: Tensor, shape: Shape) -> Operand:
    """`g` summed over the dimensions along which an operand of `shape` was broadcast."""
    array = g.array
    find = _broadcast_axes.__wrapped__ if has_interpreter() else _broadcast_axes  # sizes may be symbols
    lead, axes = find(tuple(array.shape), shape)
    if lead == len(axes) and array.dtype.itemsize < 8 and not has_interpreter():  # as `_has_native_sum` tells
        return sum(g, axes=axes, keepdims=False) if axes else g
    out = sum(g, axes=axes, keepdims=True) if axes else g
    return reshape_unshared(out, shape) if lead else out


_sum_array = op_of(sum).evaluate


def sum_array_to(g: Array, shape: Shape) -> Array:
    """Return `sum_to` of an array, without the calls of ops."""
    lead, axes = _broadcast_axes_of_array(g.shape, shape)
    if lead == len(axes) and axes and axes[-1] < lead and g.dtype.itemsize < 8:
        return np.asarray(_sum_array(g, axes=axes, keepdims=False))  # of one element NumPy makes a scalar
    out: Array = _sum_array(g, axes=axes, keepdims=True) if axes else g
    return out.reshape(shape) if lead else out


@lru_cache(1024)
def _broadcast_axes(whole: Shape, shape: Shape) -> tuple[int, tuple[int, ...]]:
    """Return how many dimensions `whole` has more than `shape`, and those along which `shape` was broadcast."""
    lead = len(whole) - len(shape)
    return lead, (*range(lead), *(i + lead for i, n in enumerate(shape) if n == 1 and whole[i + lead] != 1))


@lru_cache(1024)
def _broadcast_axes_of_array(whole: Shape, shape: Shape) -> tuple[int, tuple[int, ...]]:
    """Return what `_broadcast_axes` does, without new dimensions of size 1; sizes of a traced step may be symbols."""
    lead, axes = _broadcast_axes.__wrapped__(whole, shape)
    return lead, tuple([axis for axis in axes if whole[axis] != 1])
