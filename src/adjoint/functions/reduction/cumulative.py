"""Cumulative sums, products, extremes and log-sum-exps."""

from __future__ import annotations

from adjoint.core.dtype.dtype import default
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DtypeLike, Function
from adjoint.functions.api import return_types
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.api.return_types import Extreme
from adjoint.functions.reduction.reduce import _detach_or_rewrap, _scalar_extreme, check_ordered, fold_as, sum_dtype
from adjoint.ops.elementwise import select
from adjoint.ops.indexing import indexing
from adjoint.ops.reduction import reduction, scan

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"]


@public(inplace=True)
def cumsum(input: Tensor, dim: int, *, dtype: DtypeLike = None) -> Tensor:
    """Return the running sums along `dim`: element i is the sum of the first i + 1 elements.

    Args:
        input: tensor; integers and truths are summed as int64.
        dim: dimension to sum along.
        dtype: type to which the elements are converted first. Default: that of `input`.

    Example:
        >>> ad.cumsum(ad.tensor([1, 2, 3]), dim=0)
        tensor([1, 3, 6])
    """
    return _accumulate(reduction.running_sum, reduction.cumsum, input, dim, dtype)


@public(inplace=True)
def cumprod(input: Tensor, dim: int, *, dtype: DtypeLike = None) -> Tensor:
    """Return the running product along `dim`; zeros are differentiated exactly."""
    return _accumulate(scan.running_product, scan.cumprod, input, dim, dtype)


def _accumulate(run: Function, op: Function, input: Tensor, dim: int, dtype: DtypeLike) -> Tensor:
    """Return running results, for which no array of the elements in the result's type is made besides."""
    axis, target = one_dim(dim, input.ndim), sum_dtype(input, dtype)
    if not input.ndim:
        return select.copy(input) if target == input.array.dtype else select.cast(input, dtype=target)
    if target != input.array.dtype:
        found = fold_as(lambda x, *_: run(x, axis, target), input, target, (axis,), True)
        if found is not None:
            return found
        input = select.cast(input, dtype=target)
    return op(input, axis=axis)


@public()
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Return ln of the running sum of eˣ along `dim`."""
    x = input if input.array.dtype.kind in "fcV" else select.cast(input, dtype=default.floating.numpy)
    axis = one_dim(dim, x.ndim)
    return scan.logcumsumexp(x, axis=axis) if x.ndim else select.copy(x)


@public()
def cummax(input: Tensor, dim: int) -> Extreme:
    """Return the running maximum along `dim`, and its positions."""
    return _cumulative_extreme(input, dim, True, "CummaxBackward0")


@public()
def cummin(input: Tensor, dim: int) -> Extreme:
    """Return the running minimum along `dim`, and its positions."""
    return _cumulative_extreme(input, dim, False, "CumminBackward0")


def _cumulative_extreme(input: Tensor, dim: int, largest: bool, kind: str) -> Extreme:
    check_ordered("cummax" if largest else "cummin", input)
    pair = return_types.cummax if largest else return_types.cummin
    axis = one_dim(dim, input.ndim)
    if not input.ndim:
        return _scalar_extreme(input, pair)
    indices = scan.where_extreme(_detach_or_rewrap(input), axis=axis, largest=largest)
    return pair(rename_node(indexing.gather(input, indices, axis=axis), kind), indices)
