"""Differences, gradients and integrals of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.functions.api.dim_args import Dims, one_dim, some_dims
from adjoint.functions.api.publish import public
from adjoint.functions.creation import creation
from adjoint.functions.shape import join, shape
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.reduction import reduction

__all__ = ["cumulative_trapezoid", "diff", "gradient", "trapezoid", "trapz"]


@public()
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Return the differences of neighbors along `dim`, taken n times; `prepend` and `append` extend the ends first.

    Raises: RuntimeError for n < 0, a number, and ends whose shapes do not fit.
    """
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


def gradient(
    input: Tensor,
    *,
    spacing: Tensor | float | Sequence[Tensor | float] | None = 1,
    dim: Dims = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Return the slope along each of `dim`, by default all dimensions: central differences, one-sided at both ends.

    `spacing` is the distance of neighbours, or one for each dimension, or a vector of coordinates for each. At the ends
    the error is of order `edge_order`, 1 or 2. Raises RuntimeError for sizes that are too small for that.
    """
    if input.array.dtype.kind == "u":
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    listed = spacing if isinstance(spacing, (tuple, list)) else None
    if dim is None and listed is not None and len(listed) != input.ndim:
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = "
            f"{input.ndim}', since dim argument was not given, but got a list of length {len(listed)}"
        )
    chosen = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    some_dims(chosen, input.ndim)  # none twice
    dims = [one_dim(d, input.ndim) for d in chosen]
    if listed is not None and len(listed) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the "
            f"same length, but got a spacing argument of length {len(listed)} and a dim argument of length {len(dims)}."
        )
    if any(input.array.shape[d] < edge_order + 1 for d in dims):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    distances = listed if listed is not None else [1 if spacing is None else spacing] * len(dims)
    return tuple(_gradient_along_dim(input, d, h, edge_order) for d, h in zip(dims, distances, strict=True))


def _gradient_along_dim(x: Tensor, d: int, spacing: Operand, order: int) -> Tensor:
    if isinstance(spacing, Tensor) and spacing.ndim:
        return _gradient_at_coordinates(x, d, spacing, order)
    inner = (_slice_along(x, d, 2) - _slice_along(x, d, 0, -2)) / spacing / 2
    ends = []
    for at, sign in ((0, 1), (-1, -1)):
        near, next_one = _take_one(x, d, at), _take_one(x, d, at + sign)
        if order == 1:
            ends.append((next_one - near) * sign / spacing)
        else:
            ends.append((next_one * 2 - near * 1.5 - _take_one(x, d, at + 2 * sign) * 0.5) * sign / spacing)
    return join.cat([ends[0], inner, ends[1]], d)


def _gradient_at_coordinates(x: Tensor, d: int, places: Tensor, order: int) -> Tensor:
    """Return the slope where the coordinates along the dimension are given."""
    if places.ndim != 1:
        raise RuntimeError(
            "torch.gradient expected each element of spacing to have one dimension, but got an element with "
            f"{places.ndim} dimensions!"
        )
    if places.array.shape[0] != x.array.shape[d]:
        raise RuntimeError(
            f"gradient: {places.array.shape[0]} coordinates for dimension {d}, which has size {x.array.shape[d]}"
        )
    gaps = diff(places).reshape(-1, *(1 for _ in range(x.ndim - d - 1)))
    before, after = _slice_along(gaps, 0, 0, -1), _slice_along(gaps, 0, 1)
    inner = (
        _slice_along(x, d, 0, -2) * (-after / (before * (before + after)))
        + _slice_along(x, d, 1, -1) * ((after - before) / (before * after))
        + _slice_along(x, d, 2) * (before / (after * (before + after)))
    )
    ends = []
    for at, sign in ((0, 1), (-1, -1)):
        near, next_one, first = _take_one(x, d, at), _take_one(x, d, at + sign), _take_one(gaps, 0, at)
        if order == 1:
            ends.append((next_one - near) * sign / first)
            continue
        second = _take_one(gaps, 0, at + sign)
        reach = first + second
        bend = (
            near * (-(first + reach) / (first * reach))
            + next_one * (reach / (first * second))
            - _take_one(x, d, at + 2 * sign) * (first / (second * reach))
        )
        ends.append(bend * sign)
    return join.cat([ends[0], inner, ends[1]], d)


def _slice_along(x: Tensor, d: int, start: int, end: int = 0) -> Tensor:
    """Return x from `start` on along a dimension, less as many at the end as `end` is below 0."""
    size = x.array.shape[d]
    return shape.narrow(x, d, min(start, size), max(size - start + end, 0))


def _take_one(x: Tensor, d: int, at: int) -> Tensor:
    return shape.narrow(x, d, at % x.array.shape[d], 1)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Return the area under y along `dim`, by straight lines between samples at x, or at distance dx, by default 1.

    Raises RuntimeError for truths, and unless there is an x for each sample.
    """
    axis = _check_trapezoid_args("trapezoid", y, x, dx, dim)
    if x is None:
        whole = reduction.sum(reduction.widen_integers(y), axes=(axis,), keepdims=False)
        if not y.array.shape[axis]:
            return creation.zeros(whole.array.shape, dtype=(whole * 1.0).dtype)
        ends = shape.select(y, axis, 0) + shape.select(y, axis, -1)
        return (whole - ends * 0.5) * (1.0 if dx is None else dx)
    areas = reduction.widen_integers(_twice_trapezoid_areas(y, x, axis))
    return reduction.sum(areas, axes=(areas.ndim - y.ndim + axis,), keepdims=False) / 2.0


def trapz(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Return `trapezoid`, under the name it once had."""
    return trapezoid(y, x, dx=dx, dim=dim)


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Return the area under y along `dim` from the first sample to each of the others; the arguments of `trapezoid`."""
    axis = _check_trapezoid_args("cumulative_trapezoid", y, x, dx, dim)
    if x is not None:
        areas = reduction.widen_integers(_twice_trapezoid_areas(y, x, axis))
        return reduction.cumsum(areas, axis=areas.ndim - y.ndim + axis) / 2.0
    pairs = reduction.widen_integers(_slice_along(y, axis, 1) + _slice_along(y, axis, 0, -1))
    return reduction.cumsum(pairs, axis=axis) * ((1.0 if dx is None else dx) / 2.0)


def _check_trapezoid_args(name: str, y: Tensor, x: Tensor | None, dx: float | None, dim: int) -> int:
    if x is not None and dx is not None:
        raise TypeError(f"{name}() received an invalid combination of arguments: x and dx")
    for which, given in (("y", y), ("x", x)):
        if given is not None and given.array.dtype.kind == "b":
            raise RuntimeError(f"{name}: received a bool input for `{which}`, but bool is not supported")
    if not y.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    axis = one_dim(dim, y.ndim)
    if x is not None and x.ndim == 1 and x.array.shape[0] != y.array.shape[axis]:
        raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
    return axis


def _twice_trapezoid_areas(y: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return twice the area between each two samples."""
    if x.ndim == 1:
        gaps = _slice_along(x, 0, 1) - _slice_along(x, 0, 0, -1)
        gaps = gaps.reshape(-1, *(1 for _ in range(y.ndim - axis - 1)))
    else:
        at = axis - y.ndim + x.ndim
        if at < 0:
            raise RuntimeError(f"x of shape {list(x.shape)} has no dimension {axis} of y, of shape {list(y.shape)}")
        gaps = _slice_along(x, at, 1) - _slice_along(x, at, 0, -1)
    return arithmetic.mul(gaps, _slice_along(y, axis, 1) + _slice_along(y, axis, 0, -1))
