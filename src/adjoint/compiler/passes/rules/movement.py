"""Movements that do nothing, and neighbours of which one is enough."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING

from adjoint.compiler.ir.symbolic_size import has_symbols
from adjoint.compiler.passes.pattern import rule
from adjoint.core.typing import Function, Operand
from adjoint.ops.movement.movement import (
    Bounds,
    compose_slices,
    expand,
    flip,
    pad,
    permute,
    reshape,
    select,
    slice,
    unslice,
)
from adjoint.ops.mutation.view_update import put_slice
from adjoint.ops.reduction.reduction import all, any, max, min, prod, sum

if TYPE_CHECKING:
    from adjoint.core.tensor.size import Size
    from adjoint.core.tensor.tensor import Tensor

Shape = tuple[int, ...]
Widths = tuple[tuple[int, int], ...]  # the elements before and after those of each dimension


@rule
def reshape_to_its_own_shape(x: Tensor, *, shape: Shape) -> Iterator[Operand]:
    yield reshape(x, shape=shape)
    yield x  # where that has the shape


@rule
def reshape_twice(x: Tensor, *, first: Shape, shape: Shape) -> Iterator[Operand]:
    yield reshape(reshape(x, shape=first), shape=shape)
    yield reshape(x, shape=shape)


@rule
def expand_to_its_own_shape(x: Tensor, *, shape: Shape) -> Iterator[Operand]:
    yield expand(x, shape=shape)
    yield x  # where that has the shape


@rule
def expand_twice(x: Tensor, *, first: Shape, shape: Shape) -> Iterator[Operand]:
    yield expand(expand(x, shape=first), shape=shape)
    yield expand(x, shape=shape)


@rule
def expand_of_leading_ones(x: Tensor, *, first: Shape, shape: Shape) -> Iterator[Operand]:
    yield expand(reshape(x, shape=first), shape=shape)
    if first == (1,) * (len(first) - len(x.shape)) + tuple(x.shape):
        yield expand(x, shape=shape)


@rule
def permute_twice(x: Tensor, *, first: Shape, axes: Shape) -> Iterator[Operand]:
    yield permute(permute(x, axes=first), axes=axes)
    yield permute(x, axes=tuple(first[a] for a in axes))


@rule
def permute_in_order(x: Tensor, *, axes: Shape) -> Iterator[Operand]:
    yield permute(x, axes=axes)
    if axes == tuple(range(len(axes))):
        yield x


@rule
def permute_of_ones(x: Tensor, *, axes: Shape) -> Iterator[Operand]:
    yield permute(x, axes=axes)
    kept = [a for a in axes if x.shape[a] != 1]
    if kept == sorted(kept):  # only dimensions of size 1 change places
        yield reshape(x, shape=tuple(x.shape[a] for a in axes))


@rule
def flip_twice(x: Tensor, *, first: Shape, axes: Shape) -> Iterator[Operand]:
    yield flip(flip(x, axes=first), axes=axes)
    if set(first) == set(axes):
        yield x
    else:
        yield flip(x, axes=tuple(sorted(set(first) ^ set(axes))))


@rule
def flip_of_ones(x: Tensor, *, axes: Shape) -> Iterator[Operand]:
    yield flip(x, axes=axes)
    if builtins.all(x.shape[a] == 1 for a in axes):
        yield x


@rule
def slice_of_all(x: Tensor, *, bounds: Bounds) -> Iterator[Operand]:
    yield slice(x, bounds=bounds)
    if bounds == _full_bounds(x.shape):
        yield x


def _full_bounds(shape: Size) -> Bounds:
    return tuple((0, n, 1) for n in shape)


@rule
def slice_twice(x: Tensor, *, first: Bounds, bounds: Bounds) -> Iterator[Operand]:
    yield slice(slice(x, bounds=first), bounds=bounds)
    composed = _compose_bounds(first, bounds)
    if composed is not None:
        yield slice(x, bounds=composed)


def _compose_bounds(first: Bounds, bounds: Bounds) -> Bounds | None:
    """The positions at `bounds` among those at `first`; None if they go backwards and have symbols."""
    if has_symbols((first, bounds)):
        forward = builtins.all(step > 0 for _, _, step in (*first, *bounds))
        return tuple(map(compose_slices, first, bounds)) if forward else None
    found = [range(*a)[builtins.slice(*b)] for a, b in zip(first, bounds, strict=True)]
    return tuple((r.start, r.stop, r.step) if len(r) else (0, 0, 1) for r in found)


@rule
def slice_of_pad(x: Tensor, *, widths: Widths, value: Operand, bounds: Bounds) -> Iterator[Operand]:
    yield slice(pad(x, widths=widths, value=value), bounds=bounds)
    inner = tuple((b[0] - w[0], b[1] - w[0], b[2]) for b, w in zip(bounds, widths, strict=True))
    if builtins.all(0 <= b[0] <= b[1] <= n for b, n in zip(inner, x.shape, strict=True)):
        yield slice(x, bounds=inner)


@rule
def pad_by_nothing(x: Tensor, *, widths: Widths, value: Operand) -> Iterator[Operand]:
    yield pad(x, widths=widths, value=value)
    yield x  # where that has the shape


@rule
def pad_twice(x: Tensor, *, first: Widths, widths: Widths, value: Operand) -> Iterator[Operand]:
    yield pad(pad(x, widths=first, value=value), widths=widths, value=value)
    yield pad(x, widths=tuple((a + c, b + d) for (a, b), (c, d) in zip(first, widths, strict=True)), value=value)


@rule
def unslice_to_all(x: Tensor, *, shape: Shape, bounds: Bounds) -> Iterator[Operand]:
    yield unslice(x, shape=shape, bounds=bounds)
    if bounds == _full_bounds(x.shape):
        yield x  # where that has the shape


@rule
def unslice_twice(x: Tensor, *, first: Shape, inner: Bounds, shape: Shape, bounds: Bounds) -> Iterator[Operand]:
    yield unslice(unslice(x, shape=first, bounds=inner), shape=shape, bounds=bounds)
    composed = _compose_bounds(bounds, inner)
    if composed is not None:
        yield unslice(x, shape=shape, bounds=composed)


@rule
def slice_of_unslice(x: Tensor, *, shape: Shape, bounds: Bounds) -> Iterator[Operand]:
    yield slice(unslice(x, shape=shape, bounds=bounds), bounds=bounds)
    yield x


@rule
def put_slice_twice(x: Tensor, former: Tensor, value: Tensor, *, bounds: Bounds) -> Iterator[Operand]:
    yield put_slice(put_slice(x, former, bounds=bounds), value, bounds=bounds)
    yield put_slice(x, value, bounds=bounds)


@rule
def slice_of_put_slice(x: Tensor, value: Tensor, *, bounds: Bounds) -> Iterator[Operand]:
    yield slice(put_slice(x, value, bounds=bounds), bounds=bounds)
    yield value  # where that has the shape


@rule
def select_the_only(x: Operand, *, axis: int, at: int) -> Iterator[Operand]:
    yield select(x, axis=axis, at=at)
    if x.shape[axis] == 1:
        yield reshape(x, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))


@rule(fold=[sum, prod, max, min, any, all])
def folded_axes_kept_and_dropped(x: Tensor, *, fold: Function, axes: Shape, shape: Shape) -> Iterator[Operand]:
    yield reshape(fold(x, axes=axes, keepdims=True), shape=shape)
    if tuple(shape) == tuple(n for i, n in enumerate(x.shape) if i not in axes):
        yield fold(x, axes=axes, keepdims=False)


@rule(fold=[prod, max, min])  # a sum of the one -0 is 0
def fold_over_ones(x: Tensor, *, fold: Function, axes: Shape, keepdims: bool) -> Iterator[Operand]:
    yield fold(x, axes=axes, keepdims=keepdims)
    if builtins.all(x.shape[a] == 1 for a in axes):
        yield reshape(x, shape=tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes))
