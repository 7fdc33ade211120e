"""Running products, sums of exponentials and extremes; and differences."""

from __future__ import annotations

from typing import Any

from adjoint.core.dtype.dtype import default
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api import return_types
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.publish import in_place, public, rename_node
from adjoint.functions.api.return_types import Extreme
from adjoint.functions.reduction.reduce import _cast_to_sum_dtype, _scalar_extreme, check_ordered, cumsum
from adjoint.functions.shape import join, shape
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.indexing import indexing
from adjoint.ops.reduction import scan

__all__ = ["cummax", "cummin", "cumprod", "diff", "logcumsumexp"]

setattr(Tensor, "cumsum_", in_place(cumsum, "cumsum_"))  # noqa: B010  mypy would take a plain assignment for a mistake


@public(inplace=True)
def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Running product along `dim`; zeros are differentiated exactly."""
    x = _cast_to_sum_dtype(input, dtype)
    axis = one_dim(dim, x.ndim)
    return scan.cumprod(x, axis=axis) if x.ndim else select.copy(x)


@public()
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """ln of the running sum of eˣ along `dim`."""
    x = input if input.array.dtype.kind in "fcV" else select.cast(input, dtype=default.floating.numpy)
    axis = one_dim(dim, x.ndim)
    return scan.logcumsumexp(x, axis=axis) if x.ndim else select.copy(x)


@public()
def cummax(input: Tensor, dim: int) -> Extreme:
    """Running maximum along `dim`, and where each was attained."""
    return _cumulative_extreme(input, dim, True, "CummaxBackward0")


@public()
def cummin(input: Tensor, dim: int) -> Extreme:
    """Running minimum along `dim`, and where each was attained."""
    return _cumulative_extreme(input, dim, False, "CumminBackward0")


def _cumulative_extreme(input: Tensor, dim: int, largest: bool, kind: str) -> Extreme:
    check_ordered("cummax" if largest else "cummin", input)
    pair = return_types.cummax if largest else return_types.cummin
    axis = one_dim(dim, input.ndim)
    if not input.ndim:
        return _scalar_extreme(input, pair)
    indices = scan.where_extreme(input.detach(), axis=axis, largest=largest)
    return pair(rename_node(indexing.gather(input, indices, axis=axis), kind), indices)


@public()
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of neighbours along `dim`, n times; `prepend` and `append` are joined to the ends first."""
    if n == 0:
        return select.copy(input)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    d = one_dim(dim, input.ndim)
    out = input
    for part in (prepend, append):
        if part is not None and part.ndim != input.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
        for i, have in enumerate(input.array.shape):
            given = have if part is None else part.array.shape[i]
            if i != d and have != given:
                raise RuntimeError(
                    "diff expects the shape of tensor to prepend or append to match that of input except along the "
                    f"differencing dimension; input.size({i}) = {have}, but got tensor.size({i}) = {given}"
                )
    if prepend is not None or append is not None:
        out = join.cat([part for part in (prepend, input, append) if part is not None], d)
    for _ in range(n):
        size = out.array.shape[d]
        if size <= 1:
            return shape.narrow(out, d, 0, 0)
        later, earlier = shape.narrow(out, d, 1, size - 1), shape.narrow(out, d, 0, size - 1)
        whole = out.array.dtype.kind == "b"
        out = comparison.logical_xor(later, earlier) if whole else arithmetic.sub(later, earlier)
    return out
