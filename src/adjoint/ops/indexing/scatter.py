"""Scatter along one dimension, and scatter with a reduction."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operand
from adjoint.ops.elementwise.arithmetic import maximum
from adjoint.ops.elementwise.comparison import eq, logical_and, logical_or, ne
from adjoint.ops.elementwise.select import cast, where
from adjoint.ops.indexing.indexing import gather, index_grid, scatter_add
from adjoint.ops.indexing.row_positions import (
    LARGER_ROWS,
    MULTIPLY_ROWS,
    SMALLER_ROWS,
    are_in_range,
    positions_along,
    row_starts,
)
from adjoint.ops.movement.movement import inverse, pad, permute, reshape, select
from adjoint.ops.reduction.reduction import products_of_others

PUT_ALONG_ROWS = SmallArrayKernel("put_along_rows")


def _same(x: Operand, *_: object, **__: object) -> Spec:
    return Spec(x.shape, x.dtype)


@primitive(
    family="gather",
    spec=_same,
    node="ScatterBackward0",
    dx=lambda g, indices, axis: scatter(g, 0.0, indices, axis=axis),
    dsource=lambda g, indices, axis: gather(g, indices, axis=axis),
)
def scatter(x: Array, source: Operand, indices: Array, *, axis: int) -> Operand:
    """x with `source` at `indices` along `axis`; at a repeated position the last one stays."""
    out = x.copy()
    _write_at(out, source, indices, axis)
    return out


def try_scatter_natively(x: Operand, source: Operand, indices: Operand, axis: int) -> Array | None:
    """Return `scatter` of arrays along the last dimension by native code, which checks the indices; else None."""
    if not kernel_provider.enabled or (nondefault.count and mode.needs_slow_path):
        return None
    if not type(x) is type(source) is type(indices) is np.ndarray or source.dtype is not x.dtype or not indices.size:
        return None
    if axis != x.ndim - 1 or indices.shape[:-1] != x.shape[:-1] or source.shape != indices.shape:
        return None
    out: Array = x.copy("C")
    return out if PUT_ALONG_ROWS.call(source, indices, out) is not None else None


def try_scatter_checked(x: Operand, source: Operand, indices: Operand, axis: int) -> Array | None:
    """Return `scatter` of arrays along the last dimension, whose indices were checked; None of anything else."""
    if nondefault.count and mode.needs_slow_path:
        return None
    is_plain = type(x) is type(source) is type(indices) is np.ndarray
    if not is_plain or not x.ndim or axis != x.ndim - 1 or indices.shape[:-1] != x.shape[:-1]:
        return None
    out: Array = x.copy("C")
    out.reshape(-1)[row_starts(prod(x.shape[:-1]), x.shape[-1]).reshape(*x.shape[:-1], 1) + indices] = source
    return out


def _write_at(out: Array, source: Operand, indices: Array, axis: int) -> None:
    """Write a number, or an array, at `indices` along `axis`: whole rows where the indices are expanded over them."""
    lead, last = out.shape[:-1], out.ndim - 1
    if axis == last and indices.shape[:-1] == lead and out.flags.c_contiguous and are_in_range(indices, out.shape[-1]):
        rows = row_starts(prod(lead), out.shape[-1]).reshape(*lead, 1) + indices
        out.reshape(-1)[rows] = source
        return
    places = positions_along(out.shape, indices, axis)
    if places is None or not out.flags.c_contiguous:
        out[index_grid(out.shape, indices, axis)] = source
    else:
        rows = np.broadcast_to(source, indices.shape).reshape(*places.rows.shape, -1) if np.ndim(source) else source
        out.reshape(-1, places.width)[places.rows] = rows


FOLDS: dict[str, np.ufunc] = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
ROW_FOLDS = {"prod": MULTIPLY_ROWS, "amax": LARGER_ROWS, "amin": SMALLER_ROWS}
IDENTITIES = {"prod": 1.0, "amax": -np.inf, "amin": np.inf}


def _array(x: Operand) -> Operand:
    return x.array if isinstance(x, Tensor) else x


def _extreme_gradients(
    g: Operand, x: Operand, source: Operand, out: Operand, indices: Operand, axis: int, include_self: bool
) -> tuple[Any, Any]:
    """The gradient of an extreme, divided equally among all that attain it."""
    kind = _array(g).dtype
    mine = cast(_equal_or_nan(x, out), dtype=kind)
    theirs = cast(_equal_or_nan(source, gather(out, indices, axis=axis)), dtype=kind)
    if not include_self:
        mine = mine * _unwritten_mask(mine, indices, axis)
    count = mine + scatter_add(theirs, indices, shape=tuple(x.shape), axis=axis)
    each = g / maximum(count, 1.0)
    return mine * each, theirs * gather(each, indices, axis=axis)


def _equal_or_nan(x: Operand, y: Operand) -> Tensor:
    """True where x and y are equal, or both are NaN."""
    if type(y) is np.ndarray and y.dtype.kind == "f" and not np.isnan(y).any():
        return eq(x, y)
    return logical_or(eq(x, y), logical_and(ne(x, x), ne(y, y)))


def _unwritten_mask(x: Operand, indices: Operand, axis: int) -> Tensor:
    """1 where nothing is written, else 0."""
    ones = cast(eq(x, x), dtype=_array(x).dtype) * 0.0 + 1.0
    return scatter(ones, 0.0, indices, axis=axis)


def _product_gradients(
    g: Operand, x: Operand, source: Operand, out: Operand, indices: Operand, axis: int, include_self: bool
) -> tuple[Any, Any]:
    """The product of all other factors at a position: out / factor, or the rest where one factor is zero."""
    kind = _array(g).dtype
    shape = tuple(x.shape)
    zeros = cast(eq(source, 0), dtype=kind)
    factors = where(eq(source, 0), 1.0, source)
    start = x if include_self else where(eq(_unwritten_mask(x, indices, axis), 0), 1.0, x)
    zeros_before = cast(eq(start, 0), dtype=kind)
    count = zeros_before + scatter_add(zeros, indices, shape=shape, axis=axis)
    if isinstance(g, Tensor) and _has_further_slopes(_array(count)):
        without_x, rest = _products_of_other_factors(start, source, indices, axis)
        if not include_self:
            without_x = without_x * _unwritten_mask(x, indices, axis)
        return g * without_x, gather(g, indices, axis=axis) * rest
    start_or_one = where(eq(start, 0), 1.0, start)
    product = scatter_reduce(start_or_one, factors, indices, axis=axis, reduce="prod", include_self=True)
    lone = where(eq(count, 1), product, 0.0)
    without_x = where(eq(start, 0), lone, out / start_or_one)
    if not include_self:
        without_x = without_x * _unwritten_mask(x, indices, axis)
    rest = where(eq(source, 0), gather(lone, indices, axis=axis), gather(out, indices, axis=axis) / factors)
    return g * without_x, gather(g, indices, axis=axis) * rest


def _has_further_slopes(zeros: Operand) -> bool:
    """Return whether further derivatives may be asked for where several factors of a product are zero."""
    if type(zeros) is np.ndarray:
        return bool((zeros > 1).any())
    return mode.recording or mode.forward_levels is not None  # of a batch, or of a step that is being traced


def _products_of_other_factors(x: Operand, source: Operand, indices: Operand, axis: int) -> tuple[Tensor, Tensor]:
    """For each element of x, and of `source`, the product of all others at its position, differentiable at zeros too.

    The factors of a position stand side by side along a dimension after `axis`: that of x, then those of `source`.
    """
    last = (*(d for d in range(len(indices.shape)) if d != axis), axis)
    ranks = permute(count_earlier(permute(indices, axes=last)), axes=inverse(last))
    known = type(ranks.array) is np.ndarray
    slots = 2 + int(ranks.array.max(initial=-1)) if known else 1 + indices.shape[axis]
    shape = tuple(x.shape)
    lead, rest = shape[: axis + 1], shape[axis + 1 :]
    aside = tuple((0, slots - 1) if d == axis + 1 else (0, 0) for d in range(len(shape) + 1))
    flat = (*shape[:axis], shape[axis] * slots, *rest)
    factors = reshape(pad(reshape(x, shape=(*lead, 1, *rest)), widths=aside, value=1.0), shape=flat)
    places = indices * slots + ranks + 1
    factors = reshape(scatter(factors, source, places, axis=axis), shape=(*lead, slots, *rest))
    others = products_of_others(factors, (axis + 1,))
    return select(others, axis=axis + 1, at=0), gather(reshape(others, shape=flat), places, axis=axis)


@primitive(spec=lambda indices: Spec(indices.shape, indices.dtype), batch_leading=True)
def count_earlier(indices: Array) -> Array:
    """Number of earlier elements along the last dimension that are equal, for each element."""
    order = indices.argsort(-1, kind="stable")
    ordered = np.take_along_axis(indices, order, -1)
    at = np.broadcast_to(np.arange(ordered.shape[-1]), ordered.shape)
    is_first = np.ones(ordered.shape, np.bool_)
    is_first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    ranks = np.empty(indices.shape, indices.dtype)
    np.put_along_axis(ranks, order, at - np.maximum.accumulate(np.where(is_first, at, 0), axis=-1), -1)
    return ranks


def _rule(which: int) -> Function:
    def rule(
        g: Operand,
        x: Operand,
        source: Operand,
        out: Operand,
        indices: Operand,
        axis: int,
        reduce: str,
        include_self: bool,
    ) -> Any:
        shares = _product_gradients if reduce == "prod" else _extreme_gradients
        return shares(g, x, source, out, indices, axis, include_self)[which]

    return rule


@primitive(family="gather", spec=_same, dx=_rule(0), dsource=_rule(1))
def scatter_reduce(
    x: Operand, source: Operand, indices: Operand, *, axis: int, reduce: str, include_self: bool
) -> Array:
    """The product or extreme of x and the elements of `source` at each position along `axis`.

    Without `include_self`, of the elements of `source` alone; x where there is none.
    """
    out = x.copy()
    if not include_self:
        identity = IDENTITIES[reduce]
        if x.dtype.kind in "iu" and reduce != "prod":
            limits = np.iinfo(x.dtype)
            identity = limits.min if reduce == "amax" else limits.max
        elif x.dtype.kind == "b":
            identity = reduce != "amax"
        _write_at(out, identity, indices, axis)
    source = source[tuple(slice(n) for n in indices.shape)]
    places = positions_along(x.shape, indices, axis)
    if places is None or not places.fold_into(ROW_FOLDS[reduce], out, source):
        FOLDS[reduce].at(out, index_grid(x.shape, indices, axis), source)
    return out
