"""Resampling along one dimension: each new element is a sum of few old ones, with weights.

In eager mode native code adds the few elements, and for the gradient those new ones that took part of an old one;
without it, it is a matrix product, for which NumPy has BLAS. Compiled steps see the elements that are added. A product
also reads those whose weight is 0, so where its result is not finite the elements are added after all. New elements
that are each a copy of one old element are copied, and their gradients added, without any product.

Between sizes that are others in each call of a compiled step, places and weights are computed in the call. Their
arithmetic is that of `interpolate` on tables, in the same order and with the same rounding: a quotient of two sizes is
one of float64, which rounded to float32 is that of float32 numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import floor, prod

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.size import has_symbolic
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, NumpyDtype, Operand, Shape
from adjoint.functions.creation.creation import arange
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement


class Taps(list[tuple[Array, Array | None]]):
    """The positions of old elements, one for each new one, and their weights, several times.

    `stacked` and `transposed` have them as native code takes them, for each type of numbers.
    """

    __slots__ = ("stacked", "transposed")

    def __init__(self, taps: Sequence[tuple[Array, Array | None]]) -> None:
        super().__init__(taps)
        self.stacked: dict[NumpyDtype, tuple[Array, Array]] = {}
        self.transposed: dict[tuple[NumpyDtype, int], tuple[Array, Array]] = {}


RESAMPLE = SmallArrayKernel("resample")
Places = tuple[Operand, Operand]  # what a tap is in a call: positions, and weights or None
MAX_EXACT_DENOMINATOR = 1 << 12  # of a factor, up to which a size times it is a quotient of integers
MAX_DENSE_SIZE = 512  # old elements: a product with a longer dimension takes more time than the sum


def resize_whole(
    x: Tensor, new: Sequence[int], scales: Sequence[float | None], kind: str, aligned: bool
) -> Tensor | None:
    """Return x interpolated to the `new` sizes by an interpreter that does so in one op; else None."""
    if not nondefault.count or mode.interpreter is None:
        return None
    whole: Tensor | None = mode.interpreter.resize(x, tuple(new), tuple(scales), kind, aligned)
    return whole


def resample(x: Tensor, axis: int, taps: Taps) -> Tensor:
    """Return the sums along `axis`. Positions without weights are in ascending order."""
    if len(taps) == 1 and taps[0][1] is None and x.array.dtype.kind != "V" and x.array.size:
        copied: Tensor = _repeat_taps(x, axis=axis, taps=taps)
        return copied
    plain = x.array.dtype.kind == "f" and x.array.dtype.itemsize >= 4 and x.array.size
    form = _resample if plain else _add_taps
    out: Tensor = form(x, axis=axis, taps=taps)
    return out


def _add_taps(x: Operand, *, axis: int, taps: Taps) -> Tensor:
    terms = []
    for positions, weight in taps:
        term = indexing.index(x, constant(positions), pattern=(*[None] * axis, 0))
        terms.append(term if weight is None else arithmetic.mul(term, _align_weight(weight, x, axis)))
    return reduce(arithmetic.add, terms)


def _add_taps_back(g: Operand, x_shape: Shape, axis: int, taps: Taps) -> Operand:
    """The gradient in x."""
    terms = []
    for positions, weight in taps:
        part = g if weight is None else arithmetic.mul(g, _align_weight(weight, g, axis))
        pattern = (*[None] * axis, 0)
        terms.append(indexing.index_add(part, constant(positions), shape=tuple(x_shape), pattern=pattern))
    return reduce(arithmetic.add, terms)


def _align_weight(weight: Array, x: Operand, axis: int) -> Tensor:
    return constant(weight.reshape(-1, *(1 for _ in x.shape[axis + 1 :])))


def _resample_dx(g: Operand, x_shape: Shape, axis: int, taps: Taps) -> Operand:
    if isinstance(g, np.ndarray):
        out = _add_natively(g, axis, *_transpose_taps(taps, x_shape[axis], g))
        if out is None and x_shape[axis] <= MAX_DENSE_SIZE:
            out = _multiply(g, _weights(x_shape[axis], taps, g).T, axis)
        if out is not None and np.isfinite(out.sum()):
            return out
    return _add_taps_back(g, x_shape, axis, taps)


@with_eager_fast_path(composite=_add_taps, dx=_resample_dx)
def _resample(x: Array, *, axis: int, taps: Taps) -> Array:
    out = _add_natively(x, axis, *_stack_taps(taps, x))
    if out is not None:
        return out
    if x.shape[axis] <= MAX_DENSE_SIZE:
        out = _multiply(x, _weights(x.shape[axis], taps, x), axis)
    if out is None or not np.isfinite(out.sum()):
        out = np.asarray(_add_taps(x, axis=axis, taps=taps).array)
    return out


def _add_natively(x: Array, axis: int, places: Array, weights: Array) -> Array | None:
    """Σ of `weights` times x at `places` along `axis`, both (taps, new); None if NumPy should compute it."""
    if not kernel_provider.enabled:
        return None
    lead, trail, new = x.shape[:axis], x.shape[axis + 1 :], places.shape[1]
    shape = np.empty((prod(lead), new, prod(trail)), x.dtype)
    laid = np.ascontiguousarray(x).reshape(prod(lead), x.shape[axis], prod(trail))
    out = RESAMPLE.call(laid, weights, places, shape)
    return None if out is None else out.reshape(*lead, new, *trail)


def _stack_taps(taps: Taps, like: Array) -> tuple[Array, Array]:
    """The positions and the weights, both (taps, new)."""
    found = taps.stacked.get(like.dtype)
    if found is None:
        weights = [np.ones(len(positions)) if weight is None else weight for positions, weight in taps]
        places = np.stack([p for p, _ in taps]).astype(np.int64)
        taps.stacked[like.dtype] = found = places, np.stack(weights).astype(like.dtype, copy=False)
    return found


def _transpose_taps(taps: Taps, old: int, like: Array) -> tuple[Array, Array]:
    """For each old element the new ones that it is part of, and their weights, both (most, old), filled up with 0."""
    known = taps.transposed.get((like.dtype, old))
    if known is not None:
        return known
    places, weights = _stack_taps(taps, like)
    owners = places.ravel().astype(np.intp, copy=False)
    order = np.argsort(owners, kind="stable")
    owners = owners[order]
    counts = np.bincount(owners, minlength=old)
    slots = np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]
    shape = (max(1, int(counts.max(initial=0))), old)
    users, shares = np.zeros(shape, np.int64), np.zeros(shape, weights.dtype)
    users[slots, owners] = order % places.shape[1]
    shares[slots, owners] = weights.ravel()[order]
    taps.transposed[like.dtype, old] = users, shares
    return users, shares


def _repeat_taps_dx(g: Operand, x_shape: Shape, axis: int, taps: Taps) -> Operand:
    """The gradient in x: for each old element the sum of those of its copies, which are neighbours."""
    if not isinstance(g, np.ndarray):
        return _add_taps_back(g, x_shape, axis, taps)
    counts = np.bincount(taps[0][0].astype(np.intp, copy=False), minlength=x_shape[axis])
    starts = np.cumsum(counts) - counts
    out = np.empty(x_shape, g.dtype)
    every = _count_copies(counts)
    for k in range(max(1, counts.max())):
        if every:
            part = g[_along(axis, slice(k, None, every))]
        else:
            part = g.take(starts + k, axis, mode="clip")
            part[_along(axis, counts <= k)] = 0
        if k:
            out += part
        else:
            out[...] = part
    return out


@with_eager_fast_path(composite=_add_taps, dx=_repeat_taps_dx)
def _repeat_taps(x: Array, *, axis: int, taps: Taps) -> Array:
    """x at the positions, which are in ascending order, of the only tap."""
    positions = taps[0][0].astype(np.intp, copy=False)
    every = _count_copies(np.bincount(positions, minlength=x.shape[axis]))
    if not every or axis < x.ndim - 1:
        return x.take(positions, axis, mode="clip")
    out = np.empty((*x.shape[:axis], len(positions)), x.dtype)
    for k in range(every):
        out[..., k::every] = x
    return out


def _count_copies(counts: Array) -> int:
    """Count the copies of each old element; 0 if some have more than others."""
    first = int(counts[0])
    return first if (counts == first).all() else 0


def _along(axis: int, index: Operand) -> tuple[Operand, ...]:
    """An index along one dimension."""
    return (*[slice(None)] * axis, index)


def _weights(old: int, taps: Taps, like: Array) -> Array:
    """The matrix (new, old) of the weights."""
    new = len(taps[0][0])
    matrix = np.zeros((new, old), like.dtype)
    rows = np.arange(new)
    for positions, weight in taps:
        matrix[rows, positions] += 1 if weight is None else weight
    return matrix


def _multiply(x: Array, matrix: Array, axis: int) -> Array:
    """matrix · x along `axis`."""
    lead, trail = x.shape[:axis], x.shape[axis + 1 :]
    if trail:
        out: Array = np.matmul(matrix, x.reshape(prod(lead), x.shape[axis], prod(trail)))
    else:
        out = x.reshape(prod(lead), x.shape[axis]) @ matrix.T
    return out.reshape(*lead, len(matrix), *trail)


def scale_size(n: int, factor: float) -> int:
    """Return ⌊n · factor⌋; of a size that is another in each call, one that is a size too where the factor is short."""
    if has_symbolic(n) and not has_symbolic(factor) and np.isfinite(factor):
        over, under = float(factor).as_integer_ratio()
        if under <= MAX_EXACT_DENOMINATOR:
            return n * over // under
    return floor(n * factor)


def resample_in_call(
    x: Tensor, axis: int, new: int, scale: float | None, mode: str, aligned: bool, copies: bool
) -> Tensor:
    """Return x resampled along `axis` to a `new` size, where that or its own is another in each call.

    `copies`: each new element is a copy of an old one.
    """
    old = x.array.shape[axis]
    if copies and (times := _find_copies(old, new, scale)):
        return _repeat_elements(x, axis, times)
    places = _find_nearest(old, new, scale, mode) if copies else _find_places(old, new, scale, mode, aligned, x)
    terms = []
    for positions, weight in places:
        term = indexing.index(x, positions, pattern=(*[None] * axis, 0))
        shape = (new, *(1 for _ in x.array.shape[axis + 1 :]))
        terms.append(term if weight is None else arithmetic.mul(term, movement.reshape(weight, shape=shape)))
    out: Tensor = reduce(arithmetic.add, terms)
    return out


def _find_copies(old: int, new: int, scale: float | None) -> int:
    """Return how many copies of each element there are in every call; 0 if that is not known, or is no power of two.

    Of other numbers the rounded step may find the neighbour of the element that it stands for.
    """
    times = new // old if scale is None else scale
    is_whole = (
        not has_symbolic(times) and times == int(times) and (scale is not None or not has_symbolic(new - times * old))
    )
    count = int(times) if is_whole else 0
    return count if count > 0 and not count & (count - 1) else 0


def _repeat_elements(x: Tensor, axis: int, times: int) -> Tensor:
    if times == 1:
        return x
    shape = x.array.shape
    apart = movement.reshape(x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    wide = movement.expand(apart, shape=(*shape[: axis + 1], times, *shape[axis + 1 :]))
    return movement.reshape(wide, shape=(*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))


def _find_nearest(old: int, new: int, scale: float | None, mode: str) -> list[Places]:
    to = _count(new, np.dtype(np.float32))
    at = arithmetic.floor(
        (to + (0.5 if mode == "nearest-exact" else 0.0)) * _step(old, new, scale, np.dtype(np.float32))
    )
    return [(_as_positions(at).clamp(max=old - 1), None)]


def _find_places(old: int, new: int, scale: float | None, mode: str, aligned: bool, like: Tensor) -> list[Places]:
    wide = np.dtype(np.float32 if like.array.dtype == np.float32 else np.float64)
    to = _count(new, wide)
    if aligned:
        source = to * ((old - 1) / (new - 1)) if new > 1 else to * 0.0
    else:
        source = (to + 0.5) * _step(old, new, scale, wide) - 0.5

    def weigh(weight: Operand) -> Operand:
        return select.cast(weight, dtype=like.array.dtype)

    if mode != "bicubic":
        source = source.clamp(min=0.0)
        low = _as_positions(source).clamp(max=old - 1)
        upper = (source - select.cast(low, dtype=wide)).clamp(max=1.0)
        return [(low, weigh(1 - upper)), ((low + 1).clamp(max=old - 1), weigh(upper))]
    low = _as_positions(arithmetic.floor(source))
    t = source - select.cast(low, dtype=wide)
    weights = find_cubic_weights(t)
    return [((low + d).clamp(0, old - 1), weigh(w)) for d, w in zip((-1, 0, 1, 2), weights, strict=True)]


def find_cubic_weights(t: Operand) -> tuple[Operand, Operand, Operand, Operand]:
    """Return the weights of the four elements around a place, `t` behind the second.

    Source: Keys, 1981, with a = -0.75.
    """

    def inner(x: Operand) -> Operand:  # up to a distance of 1
        return (1.25 * x - 2.25) * x * x + 1

    def outer(x: Operand) -> Operand:  # from 1 to 2
        return ((-0.75 * x + 3.75) * x - 6) * x + 3

    return outer(t + 1), inner(t), inner(1 - t), outer(2 - t)


def _step(old: int, new: int, scale: float | None, kind: NumpyDtype) -> float:
    """Return the distance of neighbouring new elements in old ones."""
    return old / new if scale is None else float(kind.type(1.0 / scale))


def _count(new: int, kind: NumpyDtype) -> Operand:
    return select.cast(arange(new), dtype=kind)


def _as_positions(x: Operand) -> Operand:
    return select.cast(x, dtype=np.dtype(np.int64))
